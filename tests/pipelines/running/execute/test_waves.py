"""Exactly N rows: the sizes of waves, their figures together, and whole runs with a target."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.account.counts import RunCounts
from groundtrace.pipelines.running.account.summary import Wave
from groundtrace.pipelines.running.execute import waves
from groundtrace.pipelines.running.execute.waves import first_wave_share, next_wave_share, threshold
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.run_summary import Counts

from ... import drawn_recipe

ROOT = Path(__file__).resolve().parents[4]
RECIPE = Path(drawn_recipe.__file__)
SAMPLE = ROOT / "data/sample"
LIMIT = 50
"""Of the sample's records only so many are read: enough, and quicker."""


@pytest.mark.parametrize(
    ("target", "questions", "share"),
    [(1, 1000, 0.032), (8, 1000, 0.032), (100, 1000, 0.4), (100, 300, 1.0), (5, 0, 1.0), (5, None, 0.0)],
)
def test_the_first_wave(target: int, questions: int | None, share: float) -> None:
    assert first_wave_share(target, questions) == pytest.approx(share)


@pytest.mark.parametrize(
    ("target", "accepted", "drawn", "questions", "share", "following"),
    [
        (100, 99, 400, 10_000, 0.04, 0.06),  # nearly there: still half as much again
        (100, 39, 399, 10_000, 0.04, 0.12),  # a tenth gives (100 + 2 * 10) * 10
        (100, 0, 400, 10_000, 0.04, 0.32),  # no yield seen: 8 times as many
        (100, 39, 399, 1000, 0.4, 1.0),
        (100, 0, 0, 800, 0.0, 0.5),  # the questions were only counted
        (100, 0, 0, 0, 0.5, 1.0),
    ],
)
def test_the_next_wave(target: int, accepted: int, drawn: int, questions: int, share: float, following: float) -> None:
    assert next_wave_share(target, accepted, drawn, questions, share) == pytest.approx(following)


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.floats(0, 1))
def test_waves_grow_until_all_are_drawn(target: int, questions: int, found: float) -> None:
    share, number = first_wave_share(target, questions), 1
    while share < 1:
        drawn = int(share * questions)
        following = next_wave_share(target, min(target - 1, int(found * drawn)), drawn, questions, share)
        assert following >= min(1.0, 1.5 * share)
        assert threshold(share) < threshold(following) or threshold(following) == ""
        share, number = following, number + 1
    assert threshold(share) == ""
    assert number < 50


def test_thresholds_are_shares_of_the_hash_space() -> None:
    assert [threshold(share) for share in (0.0, 0.5, 1.0)] == ["0" * 16, "8" + "0" * 15, ""]
    ids = [str(number) for number in range(4000)]
    assert sum(order_key(i) < threshold(0.25) for i in ids) / len(ids) == pytest.approx(0.25, abs=0.03)


def test_what_a_wave_accepted_counts_what_was_beyond_the_target() -> None:
    rejected = {"cut": {"over_quota": 3, "not_drawn": 4}, "draw": {"not_drawn": 6}}
    wave = Wave(RunCounts(Counts(20, 5, 2, rejected), kept={"draw": 14}))
    assert wave.summary() == {"questions": 20, "drawn": 14, "accepted": 8}


def run(output: Path, cache: Path, *more: str, recipe: Path | str = RECIPE) -> dict[str, Any]:
    words = ["run", str(recipe), "--input", str(SAMPLE), "--output", str(output), "--cache", str(cache)]
    words += ["--limit", str(LIMIT), "--set", "split.sft_ratio=0.5", *more]
    assert main(words) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def rows(output: Path, side: str) -> list[dict[str, Any]]:
    return [row for file in sorted((output / side).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def digests(output: Path) -> dict[str, str]:
    files = [*(output / "sft").iterdir(), *(output / "rl").iterdir()]
    return {f"{f.parent.name}/{f.name}": hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(files)}


def check_balance(output: Path, summary: dict[str, Any]) -> None:
    ids = [row["id"] for side in ("sft", "rl", "rejected") for row in rows(output, side)]
    lines = (SAMPLE / "records.jsonl").read_bytes().splitlines()[:LIMIT]
    assert sorted(ids) == sorted(json.loads(line)["id"] for line in lines)
    counts = summary["counts"]
    rejected = sum(sum(reasons.values()) for reasons in counts["rejected"].values())
    assert counts["input"] == len(ids) == counts["sft"] + counts["rl"] + rejected


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over all of the sample, with its cache beside it."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder / "run", folder / "cache")
    return folder


@pytest.mark.slow
def test_exactly_n_rows_whatever_the_waves(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = 12
    summary = run(tmp_path / "a", whole / "cache", "--target-sft", str(target))
    again = run(tmp_path / "b", whole / "cache", "--target-sft", str(target))
    monkeypatch.setattr(waves, "MIN_FIRST_WAVE", 4)
    monkeypatch.setattr(waves, "FIRST_PER_ROW", 1)
    other = run(tmp_path / "c", tmp_path / "cache", "--target-sft", str(target))
    assert len(other["target"]["waves"]) > len(summary["target"]["waves"])
    assert digests(tmp_path / "a") == digests(tmp_path / "b") == digests(tmp_path / "c")
    assert (summary["target"]["sft"], summary["target"]["reached"]) == (target, True)
    for name, found in (("a", summary), ("b", again), ("c", other)):
        check_balance(tmp_path / name, found)
    assert sum(role["requests"] for role in again["ledger"].values()) == 0
    for role in other["ledger"].values():
        assert role["requests"] <= role["calls"], "a call was sent in more than one wave"

    first = sorted(order_key(row["id"]) for row in rows(whole / "run", "sft"))[:target]
    assert sorted(order_key(row["id"]) for row in rows(tmp_path / "a", "sft")) == first
    wanted = [row["id"] for row in rows(whole / "run", "rl") if order_key(row["id"]) < first[-1]]
    assert [row["id"] for row in rows(tmp_path / "a", "rl")] == wanted != []


def test_the_main_recipe_meets_its_target(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo / "runs/demo/cache", tmp_path / "cache")
    found = run(tmp_path / "run", tmp_path / "cache", "--target-sft", "5", recipe="grounded_cot")
    assert (found["target"]["sft"], found["counts"]["sft"], found["target"]["reached"]) == (5, 5, True)
    check_balance(tmp_path / "run", found)


@pytest.mark.slow
def test_a_target_beyond_the_input(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run(tmp_path / "run", whole / "cache", "--target-sft", "1000")
    found = summary["counts"]["sft"]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"target not reached: {found} of 1000; the input is used up"
    assert summary["target"]["reached"] is False
    assert digests(tmp_path / "run") == digests(whole / "run")
    check_balance(tmp_path / "run", summary)


@pytest.mark.slow
def test_a_budget_that_ends_before_the_target(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], run_beam: Callable[..., Any]
) -> None:
    config = tmp_path / "far.toml"  # nothing listens there, and nothing is sent: one token pays for no request
    config.write_text(
        'allow_embedded = true\n[endpoints.far]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[roles]\npolicy = "far"\n'
    )
    limits = ("--limit", "50", "--target-sft", "2", "--budget-tokens", "1", "--config", str(config))
    ran = run_beam(SAMPLE, tmp_path / "run", *limits, pipeline=str(RECIPE))
    assert ran.code == 0, ran.err
    summary = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    left = summary["counts"]["rejected"]["attempt"]["budget"]
    assert summary["budget"] | {"left": left, "used_up": True, "tokens": 1, "usd": None} == summary["budget"]
    assert left > 0
    assert ran.out.splitlines()[-1] == "target not reached: 0 of 2; the budget is used up"
    assert f"{left} records rejected as budget; the same command with a larger budget continues" in ran.out
    ran.check_balance(50)
    assert run(tmp_path / "run", whole / "cache", "--target-sft", "2")["target"]["reached"]


@pytest.mark.slow
def test_a_pipeline_that_does_not_cut(whole: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    text = RECIPE.read_text("utf-8")
    own = tmp_path / "own_uncut.py"
    own.write_text(text.replace("CutToTarget(run.draw.target_sft, run.draw.last)", "CutToTarget()"), "utf-8")
    cached = ("--limit", str(LIMIT), "--cache", str(whole / "cache"))
    ran = run_beam(SAMPLE, tmp_path / "run", "--target-sft", "2", *cached, pipeline=str(own))
    assert (ran.code, ran.out) == (2, "")
    assert "does not use the stage CutToTarget" in ran.err.splitlines()[-1]
    assert not (tmp_path / "run/run.json").exists()
