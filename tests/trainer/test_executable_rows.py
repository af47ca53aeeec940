"""SFT, GRPO and evaluation on the shards of ``beam run executable_cot``, with code that is executed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import grpo
from groundtrace.trainer.encode import sft_sample
from groundtrace.trainer.evaluation import evaluate as evaluation
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft

from .runs import SAMPLE, lines_of, metrics_of, settings_of
from .turns import Turns

pytestmark = pytest.mark.sandbox
STEPS, LIMIT = 3, 60
LOOK = "import numpy as np\nprint(np.asarray(input_image).reshape(-1, 3).std(0).round(3).tolist())"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over the bundled sample."""
    folder = tmp_path_factory.mktemp("executable")
    words = ["run", "executable_cot", "--input", str(SAMPLE), "--output", str(folder / "run"), "--limit", str(LIMIT)]
    assert cli.main([*words, "--cache", str(folder / "cache")]) == 0
    return folder / "run"


def settings_for(vlm: VisionLanguageModel, **sections: Any) -> TrainerSettings:
    base: dict[str, Any] = {
        "batch": {"max_tokens": 8000, "tokens": 8000},
        "sft": {"steps": STEPS, "samples_per_step": 2},
        "grpo": {"steps": STEPS, "prompts_per_step": 1, "group_size": 4, "dynamic_sampling": False, "overlong": "keep"},
        "rollout": {"max_new_tokens": 3000},
        "environment": {"kind": "sandbox", "options": {"sandbox": {"sessions": 2, "call_timeout_s": 10.0}}},
        "reward": {"recipe": "codedance"},
    }
    return settings_of(Path(vlm.settings.path), **(base | sections))


def test_masks_of_sft_rows_token_by_token(data: Path, qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    """Targets are the assistant's turns and their end tokens, and nothing of a result or of its image."""
    rows = Shards(data, "sft", tmp_path)
    with_code = 0
    for index in range(len(rows)):
        row = rows[index]
        if len(row.messages) == 2:
            continue
        with_code += 1
        sample = sft_sample(qwen3, row)
        said = [message["content"] for message in row.messages if message["role"] == "assistant"]
        results = [message["content"] for message in row.messages[1:] if message["role"] == "user"]
        parts = [qwen3.tokenizer.decode(sample.ids[each.start : each.end].tolist()) for each in sample.turns]
        ours = [part for part, each in zip(parts, sample.turns, strict=True) if each.is_ours]
        theirs = [part for part, each in zip(parts, sample.turns, strict=True) if not each.is_ours]
        assert ours == [f"{text}<|im_end|>" for text in said]
        for result, part in zip(results, theirs[1:], strict=True):
            for text in result.split("<image>"):
                assert text in part
        for each in sample.turns:
            assert set(sample.loss_mask[each.start : each.end].tolist()) == {each.is_ours}
        assert not (sample.loss_mask & sample.is_image).any()
        assert len(sample.images) == len(row.images)
    assert with_code >= 8


def test_three_steps_of_sft(data: Path, qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    train_sft(settings_for(qwen3), data, tmp_path / "out")
    losses = [line["loss"] for line in metrics_of(tmp_path / "out")]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0]


def scripted(data: Path, cache: Path) -> tuple[dict[str, list[list[str]]], int]:
    """Four responses to each question: with code that looks, with code that fails first, directly, and wrong."""
    rows, script = Shards(data, "rl", cache), {}
    look = f"<think>I look.</think>\n<code>\n```python\n{LOOK}\n```\n</code>"
    fail = look.replace(LOOK, "print(undefined)")
    other = look.replace("I look.", "I look again.")
    for index in range(len(rows)):
        row = rows[index]
        right, wrong = f"<answer>{row.question.answer}</answer>", "<think>So.</think>\n<answer>17</answer>"
        script[row.id] = [[look, right], [fail, look, right], [right], [other, wrong]]
    return script, len(rows)


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Turns]]:
    """Let the policy say these turns; gives the samplers that are made."""

    def use(script: Any) -> list[Turns]:
        made: list[Turns] = []

        def make(vlm: VisionLanguageModel, *_: object) -> Turns:
            made.append(Turns(vlm, script))
            return made[-1]

        monkeypatch.setattr(grpo, "make_sampler", make)
        monkeypatch.setattr(evaluation, "make_sampler", make)
        return made

    return use


def test_three_steps_of_grpo(data: Path, qwen3: VisionLanguageModel, playing: Any, tmp_path: Path) -> None:
    """Twice, with the same metrics: which response is right, calls and turns, and a gradient."""
    script, count = scripted(data, tmp_path / "cache")
    assert count >= 1
    playing(script)
    found = []
    for name in ("a", "b"):
        settings = settings_for(qwen3, log={"rollouts_every": 1})
        model = train_grpo(settings, data, tmp_path / name)
        assert (model / "model.safetensors").is_file()
        found.append(metrics_of(tmp_path / name))
    assert found[0] == found[1]
    assert len(found[0]) == STEPS
    for line in found[0]:
        assert (line["outcome"], line["format"], line["lost"]) == (0.75, 1.0, 0.0)
        assert (line["turns"], line["calls"]) == (2.0, 1.0)
        assert line["grad_norm"] > 0
    texts = [line["text"] for line in lines_of(tmp_path / "a" / "rollouts" / "step-000001" / "rollouts.jsonl")]
    assert "<interpreter>\n[" in texts[0]
    assert "NameError" in texts[1]


def test_a_real_policy_of_random_weights(data: Path, qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    """What it writes is garbage, which the environment ends; all tokens are sampled by the trainer's own sampler."""
    settings = settings_for(qwen3, rollout={"max_new_tokens": 40})
    settings = replace(settings, grpo=replace(settings.grpo, steps=1))
    train_grpo(settings, data, tmp_path / "out")
    [line] = metrics_of(tmp_path / "out")
    assert (line["reward"], line["calls"]) == (pytest.approx(-0.2), 0.0), "bad form"


def test_turns_beside_accuracy(data: Path, qwen3: VisionLanguageModel, playing: Any, tmp_path: Path) -> None:
    """As in Table 3; with fewer turns allowed, a response ends before its answer."""
    script, count = scripted(data, tmp_path / "cache")
    playing(script)
    figures = {}
    for turns in (None, 2):
        settings = settings_for(qwen3, eval={"samples": 4, "k": [1], "max_turns": turns})
        report = evaluation.evaluate(settings, data, tmp_path / f"out{turns}")
        whole = json.loads(report.read_text("utf-8"))["all"]
        figures[turns] = (whole["questions"], whole["accuracy"], whole["turns"])
    assert figures == {None: (count, 0.75, 2.0), 2: (count, 0.5, 1.75)}
    lines = lines_of(tmp_path / "outNone" / "responses.jsonl")
    assert [line["turns"] for line in lines[:4]] == [2, 3, 1, 2]
    assert '<th class="r">turns</th>' in (tmp_path / "outNone" / "eval.html").read_text("utf-8")
