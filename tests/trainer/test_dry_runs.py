"""Two steps of SFT and GRPO with each paper's config and reward, on shards of its own recipe, as a user starts them.

The config is the bundled one but for its scale: a tiny model, two questions a step, short prompts, and the embedded
engine in the roles of the reward. The policy of GRPO is scripted, so that the reward has something to tell apart.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import grpo
from groundtrace.trainer.model import VisionLanguageModel

from .paper_rows import JUDGED
from .runs import SAMPLE, Command, Ran, judging, metrics_of
from .turns import Turns

LIMIT = 40
GROUP = 8
SCALE = (
    *("model.dtype=float32", "threads=1", "rollout.kind=transformers", "rollout.max_new_tokens=1500"),
    *("batch.max_tokens=8000", "batch.tokens=8000", "log.rollouts_every=0"),
    *("sft.steps=2", "sft.samples_per_step=2", "grpo.steps=2", "grpo.prompts_per_step=2"),
)
EMBEDDED = ("reward.roles.judge=colour",)
ARGOS = ("reward.roles.detector=edges", "reward.roles.segmenter=edges", 'reward.roles.pointer=""')
SANDBOX = ("grpo.epochs=9", "environment.options.sandbox.sessions=2", "environment.options.sandbox.call_timeout_s=10.0")
LOOK = "import numpy as np\nprint(np.asarray(input_image).reshape(-1, 3).std(0).round(3).tolist())"
CODE = f"<think>I look.</think>\n<code>\n```python\n{LOOK}\n```\n</code>"
WORDS = "<think>I look at what is asked for.</think><answer>{}</answer>"

PAPERS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "argos": ("grounded_cot", (WORDS,), ARGOS),
    "sail_rl": ("judge_think_answer", (JUDGED.format("It takes counting.", "I count each.", "{}"),), ()),
    "ivgr": ("dual_stream", (WORDS,), ()),
    "rucl": ("rubric_curriculum", (WORDS,), ()),
    "codedance": ("executable_cot", (CODE, "<answer>{}</answer>"), SANDBOX),
}
"""Each paper's recipe of the data, the turns of a response around its answer, and further settings."""
WITHOUT_SFT = ("rucl",)
JUDGES: dict[str, dict[str, Any]] = {
    "argos": {"reason": "so it says", "supports": "yes"},
    "sail_rl": {"reason": "so it says", "decision": "think", "sound": True, "true_to_sources": True, "supported": True},
    "ivgr": {"reason": "the same", "verdict": "identical"},
}
"""What the judge says where the embedded engine reads no reasoning; elsewhere it is the judge."""


def cases() -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.sandbox if name == "codedance" else pytest.mark.slow) for name in PAPERS
    ]


@pytest.fixture(params=cases())
def paper(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def data(paper: str, tmp_path: Path) -> Path:
    """A finished run of the paper's recipe over the bundled sample."""
    words = ["run", PAPERS[paper][0], "--input", str(SAMPLE), "--output", str(tmp_path / "data")]
    assert cli.main([*words, "--limit", str(LIMIT), "--cache", str(tmp_path / "cache")]) == 0
    return tmp_path / "data"


def responses(paper: str, answer: str) -> list[list[str]]:
    """A group: every second response is right, and each says something of its own."""
    turns = PAPERS[paper][1]
    return [
        [
            turn.replace("I look", f"I look {number} times").replace("{}", answer if number % 2 else "17")
            for turn in turns
        ]
        for number in range(GROUP)
    ]


def test_two_steps_of_each(
    paper: str, data: Path, run: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with judging((200, json.dumps(JUDGES.get(paper)))) as judge:
        asked = (f"reward.endpoints.judge.base_url={judge.base_url}", "reward.endpoints.judge.model=judge")
        check_two_steps(paper, data, run, monkeypatch, asked if paper in JUDGES else EMBEDDED, tmp_path)


def check_two_steps(
    paper: str, data: Path, run: Command, monkeypatch: pytest.MonkeyPatch, judge: Sequence[str], tmp_path: Path
) -> None:
    def train(command: str) -> tuple[Ran, list[dict[str, Any]]]:
        words = [command, "--config", paper, "--data", str(data), "--output", str(tmp_path / command)]
        sets = (f"model.path={run.model}", *SCALE, *judge, *PAPERS[paper][2])
        ran = run.words([*words, *(word for each in sets for word in ("--set", each))], tmp_path / command)
        return ran, metrics_of(tmp_path / command) if ran.code == 0 else []

    if paper not in WITHOUT_SFT:
        ran, lines = train("sft")
        assert ran.code == 0, ran.err
        assert len(lines) == 2
        assert all(line["loss"] > 0 and line["grad_norm"] > 0 for line in lines)

    rows = Shards(data, "rl", tmp_path / "rows")
    script = {rows[index].id: responses(paper, rows[index].question.answer) for index in range(len(rows))}

    def scripted(vlm: VisionLanguageModel, *_: object) -> Turns:
        return Turns(vlm, script)

    monkeypatch.setattr(grpo, "make_sampler", scripted)
    ran, lines = train("grpo")
    assert ran.code == 0, ran.err
    assert len(lines) == 2
    for line in lines:
        assert line["grad_norm"] > 0
        assert 0 < line["outcome"] < 1
        assert line["reward"] > 0
        if paper == "codedance":
            assert (line["turns"], line["calls"]) == (2.0, 1.0)
