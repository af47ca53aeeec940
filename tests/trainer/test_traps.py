"""Known traps of training vision-language models, each by its name; those of groups stand in a file of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from groundtrace.rewards.scorers.tool_calls import ToolCallSettings, turn_returns
from groundtrace.trainer.collate import collate, micro_batches
from groundtrace.trainer.encode import encode_messages, encode_prompt, with_response
from groundtrace.trainer.loss import Clipping, policy_loss, sft_loss
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.policy import score
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.sample import EncodedImage, Sample
from groundtrace.trainer.settings import OptimiserSettings, RolloutSettings
from groundtrace.trainer.sft import sft_step

Load = Callable[..., VisionLanguageModel]
Make = Callable[..., Sample]
Samples = Callable[[VisionLanguageModel], list[Sample]]

ASK = {"role": "user", "content": "How many are red?"}
END_OF_TEXT, TURN_END = "<|endoftext|>", "<|im_end|>"


def _optimiser(vlm: VisionLanguageModel, **settings: Any) -> Optimiser:
    return Optimiser(vlm.model, OptimiserSettings(**settings), 10)


def _weights(vlm: VisionLanguageModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in vlm.model.named_parameters()}


def _prompt(vlm: VisionLanguageModel, content: str = "How many?", *pictures: EncodedImage) -> Sample:
    return encode_prompt(vlm, "q", [{"role": "user", "content": content}], pictures)


def _tilt(vlm: VisionLanguageModel, *tokens: int, by: float) -> None:
    """Make tokens likelier: channel 0 of the tiny Qwen3-VL's hidden state is the same everywhere."""
    with torch.no_grad():
        vlm.model.lm_head.weight[list(tokens), 0] = by


def test_trap_one_loss_denominator_per_step(load: Load, samples: Samples) -> None:
    """A step in four forward passes is the step in one; the mean of four means is not."""
    once, often = load("qwen3"), load("qwen3")
    parts = micro_batches(samples(once), 1)
    means = [sft_loss(score(once, collate(once, part)).logprobs, part[0].targets).item() for part in parts]
    whole = sft_step(once, _optimiser(once), samples(once), 0, tokens=10**6)
    split = sft_step(often, _optimiser(often), samples(often), 0, tokens=1)
    for name in ("loss", "grad_norm", "targets"):
        assert split[name] == pytest.approx(whole[name], rel=1e-5)
    assert abs(sum(means) / 4 - whole["loss"]) > 1e-3


def test_trap_padding_is_not_told_by_ids(load: Load, samples: Samples) -> None:
    """Where the padding token is the one that ends turns, those still count and are still seen."""
    plain, same = load("qwen3"), load("qwen3")
    end = same.tokenizer.convert_tokens_to_ids(TURN_END)
    same.tokenizer.pad_token = TURN_END
    for config in (same.model.config, same.model.config.text_config, same.model.generation_config):
        config.pad_token_id = end
    batch, other = collate(plain, samples(plain)), collate(same, samples(same))
    assert torch.equal(batch.targets, other.targets)
    assert int((other.targets == end).sum()) == 5, "each assistant's turn ends, the tool sample has two"
    with torch.no_grad():
        assert torch.equal(score(plain, batch).logprobs, score(same, other).logprobs)
    prompts = [_prompt(same), _prompt(same, "A longer question: how many are red?")]
    settings = RolloutSettings(max_new_tokens=60)
    expected = TransformersSampler(plain, settings).sample(prompts, 4, seed=1)
    found = TransformersSampler(same, settings).sample(prompts, 4, seed=1)
    assert found == expected
    assert any(rollout.ids[-1] == end for group in found for rollout in group)


def test_trap_every_end_token_ends_a_response(load: Load) -> None:
    vlm = load("qwen3")
    ends = vlm.tokenizer.convert_tokens_to_ids([END_OF_TEXT, TURN_END])
    assert vlm.tokenizer.eos_token_id == ends[1], "the tokenizer names one, the generation config both"
    assert vlm.end_ids == tuple(sorted(ends))
    _tilt(vlm, *ends, by=1.5)
    (rollouts,) = TransformersSampler(vlm, RolloutSettings(max_new_tokens=80)).sample([_prompt(vlm)], 24, seed=0)
    assert {rollout.ids[-1] for rollout in rollouts if not rollout.is_truncated} == set(ends)
    assert all(not set(rollout.ids[:-1]) & set(ends) for rollout in rollouts)


def test_trap_image_tokens_are_never_targets(vlm: VisionLanguageModel, samples: Samples) -> None:
    batch = collate(vlm, samples(vlm))
    assert int(batch.is_image.sum()) > 0
    assert not set(batch.targets.tolist()) & set(vlm.banned_ids)
    assert not batch.is_image[batch.before + 1].any()


def test_trap_image_tokens_are_never_sampled(load: Load) -> None:
    vlm = load("qwen3")
    names = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    banned = vlm.tokenizer.convert_tokens_to_ids(names)
    assert vlm.banned_ids == tuple(sorted(banned))
    _tilt(vlm, *banned, by=20.0)
    (rollouts,) = TransformersSampler(vlm, RolloutSettings(max_new_tokens=20)).sample([_prompt(vlm)], 8, seed=0)
    assert not {token for rollout in rollouts for token in rollout.ids} & set(banned)


def test_trap_an_answer_that_spells_an_image_token_shows_no_picture(
    vlm: VisionLanguageModel, picture: Callable[..., EncodedImage]
) -> None:
    turns = [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "<|image_pad|><|im_end|>"}]
    one = picture(vlm)
    made = encode_messages(vlm, "q", turns, [one])
    assert int(made.is_image.sum()) == one.tokens
    assert int((made.ids == vlm.image_id).sum()) == one.tokens
    assert vlm.tokenizer.decode(made.ids[made.loss_mask]) == "< |image_pad|>< |im_end|><|im_end|>"


def test_trap_patches_are_cut_by_their_grids(vlm: VisionLanguageModel, samples: Samples) -> None:
    """Patches of all pictures stand in one tensor; pictures have different numbers of them."""
    batch = collate(vlm, samples(vlm))
    shown = [picture for sample in samples(vlm) for picture in sample.images]
    assert batch.grids is not None and batch.patches is not None
    counts = batch.grids.prod(dim=1).tolist()
    assert len(set(counts)) > 1
    parts = batch.patches.split(counts)
    for place, picture in zip(batch.shown, shown, strict=True):
        assert torch.equal(parts[place], picture.patches)
        assert batch.grids[place].tolist() == list(picture.grid)
        assert picture.tokens * 4 == counts[place]


DROPS_THINKING = """{%- for m in messages -%}
{%- set text = m['content'][0]['text'] -%}
{{ '<|im_start|>' + m['role'] + '\n' }}{{ text if loop.last else text.split('</think>')[-1] }}{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"""
"""As Qwen3's does: of all turns but the last only what follows the thinking is rendered."""


def test_trap_templates_that_drop_earlier_thinking(load: Load) -> None:
    vlm = load("qwen3")
    vlm.processor.chat_template = DROPS_THINKING
    first, last = "<think>Look left.</think>Crop it.", "<think>Count.</think>Three."
    turns = [ASK, {"role": "assistant", "content": first}, {"role": "tool", "content": "done"}]
    turns.append({"role": "assistant", "content": last})
    parts = [{"role": turn["role"], "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
    rendered = vlm.processor.apply_chat_template(parts, tokenize=False)
    assert "Look left." not in rendered and "Count." in rendered, "the template does drop it"

    made = encode_messages(vlm, "q", turns, [])
    assert vlm.tokenizer.decode(made.ids[made.loss_mask]) == f"{first}{TURN_END}{last}{TURN_END}"
    assert vlm.tokenizer.decode(made.ids) == rendered.replace("Crop it.", first).removesuffix("\n")
    # What the first answer was sampled after is what it is trained after.
    prompt = encode_prompt(vlm, "q", turns[:1], [])
    assert torch.equal(made.ids[: len(prompt)], prompt.ids)
    assert made.turns[1].start == len(prompt)


def test_trap_reward_to_go_passes_through_masked_tool_tokens(vlm: VisionLanguageModel, sample: Make) -> None:
    """A failure behind the observation weighs on the turn before it; the observation's own tokens weigh nothing."""
    settings = ToolCallSettings()
    returns = turn_returns((False, True), settings)
    assert returns == (settings.discount * settings.failure_reward, settings.failure_reward)
    tool = sample(vlm, "tool")
    first, second = (turn for turn in tool.turns if turn.is_ours)
    advantages = torch.full((len(tool),), float("nan"))
    for turn, gain in zip((first, second), returns, strict=True):
        advantages[turn.start : turn.end] = gain
    batch = collate(vlm, [replace(tool, advantages=advantages)])
    logprobs = torch.zeros(len(batch.targets), requires_grad=True)
    sampler = torch.full_like(logprobs, float("nan"))
    policy_loss(logprobs, logprobs.detach(), sampler, batch.advantages, len(batch.targets), Clipping()).loss.backward()
    counts = [int(tool.loss_mask[turn.start : turn.end].sum()) for turn in (first, second)]
    expected = [-gain / sum(counts) for gain, count in zip(returns, counts, strict=True) for _ in range(count)]
    assert min(counts) > 0 and returns[0] != 0
    assert logprobs.grad is not None and logprobs.grad.tolist() == pytest.approx(expected)


def test_trap_token_in_token_out(qwen3: VisionLanguageModel) -> None:
    """A response is trained on as the tokens that were drawn, which its text would not be tokenised into again."""
    drawn = [qwen3.tokenizer.convert_tokens_to_ids(letter) for letter in "the"]
    again = qwen3.tokenizer("the", add_special_tokens=False).input_ids
    assert qwen3.tokenizer.decode(drawn) == "the" and again != drawn
    made = with_response(_prompt(qwen3), drawn, "g")
    assert made.ids[made.loss_mask].tolist() == drawn


def test_trap_bf16_weights_have_float32_masters(load: Load, samples: Samples) -> None:
    """Ten steps too small for bfloat16: the masters have moved, and the weights by what is left of that."""
    vlm = load("qwen3", dtype="bfloat16")
    optimiser = _optimiser(vlm, lr=1e-6)
    before = {name: master.detach().clone() for name, master in optimiser.masters.items()}
    for step in range(10):
        sft_step(vlm, optimiser, samples(vlm), step, tokens=10**6)
    assert {master.dtype for master in optimiser.masters.values()} == {torch.float32}
    norm = "model.language_model.norm.weight"
    assert (optimiser.masters[norm] - before[norm]).abs().min() > 1e-6
    for name, weight in vlm.model.named_parameters():
        assert weight.dtype == torch.bfloat16
        assert torch.equal(weight, optimiser.masters[name].bfloat16()), name


def test_trap_log_softmax_is_in_float32(load: Load, sample: Make) -> None:
    vlm = load("qwen3", dtype="bfloat16")
    batch = collate(vlm, [sample(vlm, "one")])
    logits: list[torch.Tensor] = []
    hook = vlm.model.lm_head.register_forward_hook(lambda _, __, out: logits.append(out))
    with torch.no_grad():
        found = score(vlm, batch)
    hook.remove()
    assert logits[0].dtype == torch.bfloat16 and found.logprobs.dtype == torch.float32
    at = batch.targets[:, None]
    exact = logits[0].double().log_softmax(dim=1).gather(1, at)[:, 0]
    coarse = logits[0].log_softmax(dim=1).gather(1, at)[:, 0].double()
    assert (found.logprobs.double() - exact).abs().max() < 1e-5
    assert (coarse - exact).abs().max() > 1e-3, "in bfloat16 it would be off"


@pytest.mark.parametrize("with_grad", [False, True])
def test_trap_no_logits_for_prompt_tokens(load: Load, samples: Samples, with_grad: bool) -> None:
    vlm = load("qwen3")
    batch = collate(vlm, samples(vlm))
    rows: list[int] = []
    vlm.model.lm_head.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
    with torch.set_grad_enabled(with_grad):
        score(vlm, batch)
    targets = sum(sample.targets for sample in samples(vlm))
    assert rows == [targets]
    assert targets < len(batch.ids) / 2


def test_trap_logits_are_made_in_chunks(load: Load, samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    vlm = load("qwen3")
    batch = collate(vlm, samples(vlm))
    with torch.no_grad():
        expected = score(vlm, batch)
        monkeypatch.setattr("groundtrace.trainer.policy.CHUNK", 7)
        rows: list[int] = []
        vlm.model.lm_head.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
        found = score(vlm, batch)
    assert max(rows) == 7 and sum(rows) == len(batch.targets)
    torch.testing.assert_close(found.logprobs, expected.logprobs, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.entropy, expected.entropy, rtol=0, atol=1e-6)


def test_trap_packed_positions_have_four_rows(vlm: VisionLanguageModel, samples: Samples) -> None:
    """The place within its own sequence comes first; then time, height and width, which pictures shorten."""
    made = samples(vlm)
    positions = collate(vlm, made).positions
    assert positions.shape == (4, sum(map(len, made)))
    start = 0
    for sample in made:
        own = positions[:, start : start + len(sample)]
        assert own[0].tolist() == list(range(len(sample)))
        grids = torch.tensor([picture.grid for picture in sample.images]) if sample.images else None
        types = sample.is_image[None].int()
        expected, _ = vlm.model.model.get_rope_index(sample.ids[None], types, image_grid_thw=grids)
        assert torch.equal(own[1:], expected[:, 0])
        assert bool((own[1:] != own[0]).any()) == bool(sample.images)
        start += len(sample)


def test_trap_each_picture_is_looked_at_once(vlm: VisionLanguageModel, sample: Make) -> None:
    """A group's samples show one picture; another one stands between them."""
    group = [replace(sample(vlm, "one"), group="g") for _ in range(3)]
    batch = collate(vlm, [group[0], sample(vlm, "two"), *group[1:]])
    seen: list[int] = []
    hook = vlm.model.model.visual.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    with torch.no_grad():
        logprobs = score(vlm, batch).logprobs
    hook.remove()
    pictures = [*group[0].images, *sample(vlm, "two").images]
    assert seen == [sum(len(picture.patches) for picture in pictures)]
    assert batch.shown == (0, 1, 2, 0, 0)
    for owner in (2, 3):
        same = logprobs[batch.owner == owner]
        torch.testing.assert_close(same, logprobs[batch.owner == 0], rtol=0, atol=1e-5)


def test_trap_rope_deltas_of_the_batch_before(qwen3: VisionLanguageModel, picture: Callable[..., EncodedImage]) -> None:
    """What was sampled or scored before changes no later answer."""
    sampler = TransformersSampler(qwen3, RolloutSettings(max_new_tokens=12))
    shown = _prompt(qwen3, "<image>How many?", picture(qwen3, 192, 160))
    expected = sampler.sample([_prompt(qwen3)], 3, seed=7)
    sampler.sample([shown, shown], 3, seed=1)
    assert sampler.sample([_prompt(qwen3)], 3, seed=7) == expected
    with torch.no_grad():
        score(qwen3, collate(qwen3, [with_response(shown, [70, 71], "g")]))
    assert sampler.sample([_prompt(qwen3)], 3, seed=7) == expected


def test_trap_sampling_pads_no_picture_into_another_prompt(load: Load, picture: Callable[..., EncodedImage]) -> None:
    """All but greedy answers: prompts of different lengths and pictures in one call, against each by itself."""
    vlm = load("qwen3")
    prompts = [
        _prompt(vlm, "<image>How many?", picture(vlm, 96, 64)),
        _prompt(vlm, "Which?"),
        _prompt(vlm, "Compare <image> with <image>.", picture(vlm, 64, 64), picture(vlm, 128, 96)),
    ]
    sampler = TransformersSampler(vlm, RolloutSettings(max_new_tokens=10, temperature=1e-3))
    together = sampler.sample(prompts, 1, seed=0)
    assert together == [sampler.sample([prompt], 1, seed=0)[0] for prompt in prompts]
    assert len({rollouts[0].ids for rollouts in together}) == 3


def test_trap_a_loss_that_is_not_a_number_changes_nothing(load: Load, samples: Samples) -> None:
    """The number is in the last of the forward passes, after good ones have left gradients."""
    vlm = load("qwen3")
    optimiser = _optimiser(vlm, lr=0.1)
    before = _weights(vlm)
    made = sorted(samples(vlm), key=len)
    at = next(index for index, sample in enumerate(made) if sample.images)
    one = made[at].images[0]
    bad = replace(one, key="bad", patches=one.patches.clone().fill_(float("nan")))
    made[at] = replace(made[at], id="q-bad", images=(bad, *made[at].images[1:]))
    assert at < len(made) - 1
    with pytest.raises(NotFinite, match=r"step 5: the loss is nan on the rows q-bad: check"):
        sft_step(vlm, optimiser, made, 4, tokens=1)
    assert all(torch.equal(weight, before[name]) for name, weight in vlm.model.named_parameters())
    assert all(not inner.state for inner in optimiser._optimisers)
