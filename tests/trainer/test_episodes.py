"""Responses in several turns: their tokens and masks one by one, their limits, and what is lost."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question
from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import encode_messages, prompt_sample, with_response
from groundtrace.trainer.episodes import LEFT_OUT, opened, roll_out
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.policy import score
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.sample import Limit, Rollout, Sample
from groundtrace.trainer.sampler import SamplerError, turn_length
from groundtrace.trainer.settings import TrainerSettings

from .runs import settings_of
from .turns import ECHO, Echo, Turns, shown

ASKED = {"role": "user", "content": "How many?"}


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    Echo.log = []
    yield Echo.log


def row_of(id: str = "q", **changes: Any) -> TrainingRow:
    question = Question(id, "drawn", "CC0-1.0", (), "How many?", "3", "numeric")
    return dataclasses.replace(TrainingRow(id, "drawn", (ASKED,), (), question), **changes)


def echoing(vlm: VisionLanguageModel, tokens: int = 400, **environment: Any) -> TrainerSettings:
    path = Path(vlm.settings.path)
    return settings_of(path, rollout={"max_new_tokens": tokens}, environment={"kind": ECHO} | environment)


def played(vlm: VisionLanguageModel, *responses: list[str], tokens: int = 400, **environment: Any) -> list[Rollout]:
    """The responses of a scripted policy to one question."""
    row = row_of()
    sampler = Turns(vlm, {"q": responses})
    settings = echoing(vlm, tokens, **environment)
    [found] = roll_out(vlm, sampler, settings, [(row, prompt_sample(vlm, row))], len(responses), 0)
    return found


def sample_of(vlm: VisionLanguageModel, rollout: Rollout) -> Sample:
    return with_response(prompt_sample(vlm, row_of()), rollout.ids, "g", observed=rollout.observed)


def test_masks_token_by_token(qwen3: VisionLanguageModel) -> None:
    """A row of a table for each token: what the policy wrote counts, and nothing else."""
    [rollout, _] = played(qwen3, ["a call image!", "It is 3"], ["x"])
    sample = sample_of(qwen3, rollout)
    names = qwen3.tokenizer.convert_ids_to_tokens(sample.ids.tolist())
    ours = "".join(name for name, counts in zip(names, sample.loss_mask.tolist(), strict=True) if counts)
    pieces, last = [], None
    for name, counts, is_image in zip(names, sample.loss_mask.tolist(), sample.is_image.tolist(), strict=True):
        if (counts, is_image) != last:
            pieces.append(["", counts, is_image])
        pieces[-1][0] += name
        last = (counts, is_image)
    assert pieces == [
        ["<|im_start|>userĊHowĠmany?<|im_end|>Ċ<|im_start|>assistantĊ", False, False],
        ["aĠcallĠimage!", True, False],
        ["<|im_end|>Ċ<|im_start|>toolĊsawĠimage<|vision_start|>", False, False],
        ["<|image_pad|>" * 4, False, True],
        ["<|vision_end|><|im_end|>Ċ<|im_start|>assistantĊ", False, False],
        ["ItĠisĠ3<|im_end|>", True, False],
    ]
    assert ours == "aĠcallĠimage!ItĠisĠ3<|im_end|>"
    assert [len(sample.images), sample.images[0].width] == [1, 64]
    spans = [(turn.start, turn.end, turn.is_ours) for turn in sample.turns]
    assert [end for _, end, _ in spans[:-1]] == [start for start, _, _ in spans[1:]], "without gaps"
    assert [is_ours for *_, is_ours in spans] == [False, True, False, True]
    assert rollout.logprobs is not None
    is_ours = sample.loss_mask[-len(rollout.ids) :].tolist()
    assert [value != 0 for value in rollout.logprobs] == is_ours


def test_a_rollout_has_the_tokens_of_the_same_conversation(vlm: VisionLanguageModel) -> None:
    """As SFT would encode it, also where the policy ends its turn by itself."""
    [rollout, _] = played(vlm, ["a call image image!", "b call it now", "It is 3"], ["x"])
    images = [vlm.encode_image(Image.fromarray(shown(64, 64, seed)), str(seed)) for seed in (0, 1)]
    messages = [
        ASKED,
        {"role": "assistant", "content": "a call image image!"},
        {"role": "tool", "content": "saw image image<image><image>"},
        {"role": "assistant", "content": "b call it now"},
        {"role": "tool", "content": "saw it now"},
        {"role": "assistant", "content": "It is 3"},
    ]
    expected, found = encode_messages(vlm, "q", messages, images), sample_of(vlm, rollout)
    assert found.ids.tolist() == expected.ids.tolist()
    differing = (found.loss_mask != expected.loss_mask).nonzero()[:, 0].tolist()
    stopped = next(turn.end for turn in found.turns if turn.is_ours)
    assert differing == [stopped], "the end token after a call is the environment's"
    assert torch.equal(found.is_image, expected.is_image)
    assert [image.patches.shape for image in found.images] == [image.patches.shape for image in expected.images]


def test_the_policy_never_sees_its_tokens_written_anew(qwen3: VisionLanguageModel) -> None:
    """Each letter of a turn is a token of its own, as no tokenizer would write it."""
    letters = [qwen3.tokenizer(each, add_special_tokens=False).input_ids[0] for each in "call it"]

    class Letters(Turns):
        def sample(self, prompts: Any, n: int, seed: int) -> list[list[Rollout]]:
            self.prompts += prompts
            is_first = prompts[0].targets == 0
            return [[Rollout(tuple(letters), False) if is_first else Rollout((2,), False)] * n for _ in prompts]

    sampler, row = Letters(qwen3, {}), row_of()
    [[rollout]] = roll_out(qwen3, sampler, echoing(qwen3), [(row, prompt_sample(qwen3, row))], 1, 0)
    assert rollout.ids[: len(letters)] == tuple(letters)
    again = sampler.prompts[1]
    assert again.ids[again.loss_mask].tolist() == letters
    assert rollout.logprobs is None, "a turn without log-probabilities leaves the response without"


@pytest.mark.parametrize(
    ("responses", "limits", "turns", "reached", "ends"),
    [
        ((["call a!", "call b!", "3"],), {"max_turns": 2}, 2, (Limit.TURNS,), "call b!"),
        ((["call a!", "3"],), {"max_turns": 2}, 2, (), "3"),
        ((["3"],), {}, 1, (), "3"),
        ((["call a!", "3"],), {"tokens": 20}, 1, (Limit.TOKENS,), "call a!"),
        ((["call image image image!", "call image!", "3"],), {"max_images": 2}, 3, (Limit.IMAGES,), "3"),
        ((["call image!", "call b!"],), {"max_images": 0, "max_turns": 2}, 2, (Limit.TURNS, Limit.IMAGES), "call b!"),
    ],
    ids=["turns", "answer in the last turn", "one turn", "tokens", "images", "two"],
)
def test_limits(
    responses: Any,
    limits: dict[str, int],
    turns: int,
    reached: tuple[Limit, ...],
    ends: str,
    qwen3: VisionLanguageModel,
) -> None:
    [rollout, _] = played(qwen3, *responses, ["x"], **limits)
    assert (len(rollout.turns), rollout.is_truncated, rollout.lost) == (turns, Limit.TOKENS in reached, "")
    assert rollout.limits == reached
    assert rollout.text is not None and rollout.text.endswith(ends)
    if limits.get("max_images"):
        assert sum(len(each.tokens.images) for each in rollout.observed) == 2
        assert rollout.text.count(LEFT_OUT) == 2
    assert Echo.log.count("close") == 2


def test_an_environment_that_takes_too_long(qwen3: VisionLanguageModel) -> None:
    options = {"options": {"wait_s": 5.0}, "max_wait_s": 0.05}
    for rollout in played(qwen3, ["call a!", "3"], ["3"], **options):
        assert rollout.lost == "the environment took longer than environment.max_wait_s = 0.05 s: raise this setting"
        assert (rollout.trajectory, rollout.limits) == (None, (Limit.TIME,))
    assert Echo.log.count("close") == 2


def test_a_defect_of_an_environment_is_raised(qwen3: VisionLanguageModel) -> None:
    with pytest.raises(ValueError, match="a defect"):
        played(qwen3, ["call raise!"], ["3"])


def test_a_sampler_that_fails_leaves_no_environment_open(qwen3: VisionLanguageModel) -> None:
    class Failing(Turns):
        def sample(self, prompts: Any, n: int, seed: int) -> list[list[Rollout]]:
            if prompts[0].targets:
                raise SamplerError("the server is gone")
            return super().sample(prompts, n, seed)

    row = row_of()
    with pytest.raises(SamplerError, match="the server is gone"):
        roll_out(
            qwen3, Failing(qwen3, {"q": [["call a!"], ["3"]]}), echoing(qwen3), [(row, prompt_sample(qwen3, row))], 2, 0
        )
    assert Echo.log.count("close") == 2


def test_the_first_state_is_part_of_the_prompt(qwen3: VisionLanguageModel) -> None:
    settings = echoing(qwen3, options={"first": " The door is shut."})
    row = opened(row_of(), settings.environment)
    assert row.messages == ({"role": "user", "content": "How many? The door is shut."},)
    assert opened(row_of(), echoing(qwen3).environment) == row_of()
    assert Echo.log.count("close") == 2


def real(vlm: VisionLanguageModel, seed: int, wait_s: float = 0.0, steps_at_once: int = 8) -> list[list[Rollout]]:
    """What a model with random weights says, if every turn is answered with an image."""
    settings = echoing(vlm, 60, options={"wait_s": wait_s}, max_turns=3, steps_at_once=steps_at_once)
    settings = dataclasses.replace(settings, rollout=dataclasses.replace(settings.rollout, prompts_at_once=1))
    row = row_of()
    sampler = TransformersSampler(vlm, settings.rollout, ("e", "t"))
    return roll_out(vlm, sampler, settings, [(row, prompt_sample(vlm, row))] * 2, 3, seed)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that answers each turn with an image."""

    async def step(self: Echo, text: str) -> Any:
        self.turns.append(None)
        return dataclasses.replace(await original(self, "call image"), is_done=False)

    original = Echo.step
    monkeypatch.setattr(Echo, "step", step)


@pytest.mark.usefixtures("answering")
def test_the_same_seed_draws_the_same_however_long_steps_take(vlm: VisionLanguageModel) -> None:
    def ids(*arguments: Any) -> list[tuple[int, ...]]:
        return [each.ids for group in real(vlm, *arguments) for each in group]

    first = ids(0)
    assert ids(0, 0.01, 1) == first
    assert ids(1) != first
    assert len(set(first)) > 3


@pytest.mark.usefixtures("answering")
def test_the_training_forward_sees_what_the_sampler_saw(vlm: VisionLanguageModel) -> None:
    """Images of observations included: the trainer's log-probabilities are the sampler's, turn by turn."""
    compared = 0
    for rollout in (each for group in real(vlm, 3) for each in group):
        sample = sample_of(vlm, rollout)
        with torch.no_grad():
            ours = score(vlm, collate(vlm, [sample]), 1.0, vlm.never_ids).logprobs
        assert rollout.logprobs is not None
        theirs = [value for start, end in rollout.turns for value in rollout.logprobs[start:end]]
        assert theirs == pytest.approx(ours.tolist(), abs=1e-4)
        compared += len(rollout.observed)
    assert compared >= 6


STOPS = ("</code>", "!")
LENGTHS = [("a</code> b", 1, True), ("ab", 0, False), ("a! b!", 1, True)]


@pytest.mark.parametrize(("text", "after", "has_ended"), LENGTHS)
def test_a_turn_ends_with_the_token_that_completes_its_call(
    text: str, after: int, has_ended: bool, qwen3: VisionLanguageModel
) -> None:
    ids = qwen3.tokenizer(text, add_special_tokens=False).input_ids
    length, found = turn_length(qwen3, ids, STOPS)
    assert found == has_ended
    assert turn_length(qwen3, ids, ()) == (len(ids), False)
    if after:
        assert any(stop in qwen3.tokenizer.decode(ids[:length]) for stop in STOPS)
        assert not any(stop in qwen3.tokenizer.decode(ids[: length - 1]) for stop in STOPS)
    end = qwen3.tokenizer.eos_token_id
    assert turn_length(qwen3, [*ids[:1], end, *ids], STOPS) == (2, True), "what is behind the end does not count"


def test_generate_stops_where_a_call_ends(qwen3: VisionLanguageModel) -> None:
    """Every row of a batch by itself, and only for what it drew: the prompt holds stops too."""
    settings = settings_of(Path(qwen3.settings.path), rollout={"max_new_tokens": 60}).rollout
    row = row_of(messages=({"role": "user", "content": "e t e t"},))
    turns = TransformersSampler(qwen3, settings, ("e", "t")).sample([prompt_sample(qwen3, row)], 8, 0)[0]
    ended = [qwen3.text_of(turn.ids) for turn in turns if turn.ids[-1] not in qwen3.end_ids and not turn.is_truncated]
    assert len(ended) >= 3
    assert len({len(turn.ids) for turn in turns}) > 1
    for turn in turns:
        text = qwen3.tokenizer.decode(turn.ids[:-1], skip_special_tokens=False)
        assert "e" not in text and "t" not in text
