"""A judge that does not answer: the trainer waits and goes on with the right scores, or stops with nothing changed."""

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.rewards.rows import reward
from groundtrace.rewards.rows.reward import JudgesDown, Reward
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import grpo
from groundtrace.trainer.checkpoint import checkpoints
from groundtrace.trainer.grpo import grpo_step, train_grpo
from groundtrace.trainer.model import VisionLanguageModel

from .runs import (
    BUSY,
    READS,
    Command,
    Said,
    changed,
    judged_by,
    judging,
    metrics_of,
    records,
    rl_row,
    settings_of,
    trainee_of,
    weights_of,
)

GOLD = "because the triangle on the left leans over the blue one"
FREE = [f"<answer>it is number {number}, which leans on the one beside it</answer>" for number in range(4)]
"""Answers that no rule can grade against the gold one."""


class Clock:
    """Time that passes only while somebody sleeps, and then at once."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which the reward waits."""
    clock = Clock()
    monkeypatch.setattr(reward, "time", clock)
    monkeypatch.setattr(reward, "sleep", clock.sleep)
    return clock


@pytest.fixture
def data(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """Two questions that need the judge."""
    (record,) = records("662-1-0-c0")
    rows = [rl_row(record, id=f"q{n}", question=f"Why {n}?", answer=GOLD, answer_type="text") for n in range(2)]
    return write_shards(tmp_path / "run", rows, "rl")


@pytest.fixture
def closed_port() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@pytest.fixture
def score(qwen3: VisionLanguageModel, data: Path, tmp_path: Path) -> Callable[[RewardSettings], Any]:
    """Outcomes of the four answers to the first question."""

    def scored(settings: RewardSettings) -> list[float | None]:
        row = Shards(data, "rl", tmp_path / "rows")[0]
        judge = Reward(settings, tmp_path / "out")
        try:
            [found] = judge.score(qwen3.speech, [row], [FREE])
        finally:
            judge.close()
        return [each.outcome for each in found]

    return scored


def test_a_judge_that_answers(score: Any) -> None:
    with judging(READS) as judge:
        assert score(judged_by(judge.base_url)) == [1.0, 0.0, 1.0, 0.0]
    assert len(judge.bodies) == 4
    assert all(GOLD in json.dumps(body) for body in judge.bodies)


def test_a_judge_that_recovers(score: Any) -> None:
    """Two verdicts come, then the judge is busy three times, then it is back: only what is missing is asked again."""
    with judging(READS, READS, BUSY, BUSY, BUSY, READS) as judge:
        assert score(judged_by(judge.base_url)) == [1.0, 0.0, 1.0, 0.0]
    assert len(judge.bodies) == 4 + 3


@pytest.mark.parametrize("status", [503, 429, 401, 402, 403, 404])
def test_a_judge_that_stays_away(status: int, score: Any, clock: Clock) -> None:
    """An expired key, an empty account and an unknown model are no verdicts on the answers."""
    with judging((status, "not now")) as judge, pytest.raises(JudgesDown, match="did not answer for 10 s"):
        score(judged_by(judge.base_url, wait_s=10.0))
    assert len(judge.bodies) == 3 * len(FREE), "asked at once, after 2 s and after 4 more; 8 more would be too many"
    assert clock.now_s == 6.0


def test_waits_grow_up_to_a_minute(score: Any, clock: Clock) -> None:
    with judging(*[BUSY] * 8 * len(FREE), READS) as judge:
        assert score(judged_by(judge.base_url, wait_s=600.0)) == [1.0, 0.0, 1.0, 0.0]
    assert clock.now_s == 2 + 4 + 8 + 16 + 32 + 60 + 60 + 60


def test_nobody_listens(score: Any, closed_port: str) -> None:
    with pytest.raises(JudgesDown, match="connection"):
        score(judged_by(closed_port, wait_s=1.0))


@pytest.mark.parametrize("text", ["I cannot say.", '{"reason": "?", "same": "perhaps"}', "{", " "])
def test_a_reply_that_is_no_verdict(text: str, score: Any) -> None:
    """The judge is there and says nothing usable: unscored, and no reason to wait."""
    with judging((200, text)) as judge:
        assert score(judged_by(judge.base_url)) == [None] * 4


def test_no_update_on_missing_rewards(
    load: Callable[..., VisionLanguageModel], folders: Any, data: Path, tmp_path: Path
) -> None:
    """The first step learns from verdicts; in the second the judge is gone, and not a weight moves."""
    vlm = load("qwen3")
    settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1})
    more = [[f"{text} {step}" for text in FREE] for step in range(2)]
    with judging(READS, READS, READS, READS, BUSY) as judge:
        trainee = trainee_of(vlm, settings, Said(vlm, {"q0": more, "q1": more}), tmp_path / "out", data)
        trainee.reward = Reward(judged_by(judge.base_url, wait_s=1.0), tmp_path / "out")
        start = weights_of(vlm)
        _, metrics = grpo_step(trainee, 0)
        assert (metrics["outcome"], metrics["unscored"]) == (0.5, 0.0)
        assert changed(start, vlm)
        before = weights_of(vlm)
        with pytest.raises(JudgesDown):
            grpo_step(trainee, 1)
        trainee.reward.close()
    assert changed(before, vlm) == []


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose model says :data:`FREE`."""
    more = [[f"{text} {step}" for text in FREE] for step in range(9)]
    monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: Said(vlm, {"q0": more, "q1": more}))


def config_for(base_url: str, wait_s: float) -> str:
    """The part of a config that names the judge."""
    return (
        f'[reward]\nwait_s = {wait_s}\n[reward.endpoints.judge]\nkind = "openai"\nmodel = "judge"\n'
        f'base_url = "{base_url}"\nmax_retries = 0\nmax_concurrency = 1\n[reward.roles]\njudge = "judge"\n'
        '[reward.options]\nskip = ["format", "spatial", "counting", "reasoning"]\n'
    )


def test_the_command_stops_cleanly_and_goes_on(
    scripted: None, folders: Any, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In step 2 the judge is gone: step 1 is saved, exit code 3. With the judge back the same command ends the run."""
    run = Command(tmp_path, folders["qwen3"], capsys)
    sets = ("grpo.prompts_per_step=1", "grpo.dynamic_sampling=false")
    with judging(READS, READS, READS, READS, BUSY) as judge:
        toml = config_for(judge.base_url, 1.0)
        stopped = run("grpo", data, *sets, toml=toml)
        stopped.check_refused(3, "did not answer for 1 s", "run the same command again")
        [saved] = checkpoints(stopped.output / "checkpoints")
        assert saved.name == "step-000001"
        assert [line["step"] for line in metrics_of(stopped.output)] == [1]
        assert json.loads((stopped.output / "run.json").read_text("utf-8"))["ended"].startswith("JudgesDown")
        assert not (stopped.output / "model").exists()
        judge.script.clear()
        judge.script.append(READS)
        done = run("grpo", data, *sets, toml=toml)
    assert done.code == 0, done.err
    assert [line["step"] for line in metrics_of(done.output)] == [1, 2]
    assert metrics_of(done.output)[1]["outcome"] == 0.5


def test_waiting_changes_no_figure(scripted: None, folders: Any, data: Path, tmp_path: Path) -> None:
    """A run through an outage has the metrics of one without."""
    found = []
    for name, script in (("calm", [READS]), ("rough", [READS, BUSY, BUSY, READS, BUSY, READS])):
        with judging(*script) as judge:
            settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1, "dynamic_sampling": False})
            train_grpo(replace(settings, reward=judged_by(judge.base_url)), data, tmp_path / name)
            found.append(metrics_of(tmp_path / name))
    assert found[0] == found[1]
    assert found[0][0]["grad_norm"] > 0
