"""The caches of all runs beside a run are found, the newest first."""

import os
from pathlib import Path

import pytest

from groundtrace.inference.settings import Neighbour
from groundtrace.pipelines.running.plan.local_run import LocalRun
from groundtrace.pipelines.running.plan.neighbours import MAX_NEIGHBOURS, neighbours_of, unsearched_line
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan

ROOT = Path(__file__).resolve().parents[4]


def test_all_runs_beside_are_found_and_the_newest_first(tmp_path: Path) -> None:
    pipeline, sample = str(ROOT / "pipelines/grounded_cot.py"), str(ROOT / "data/sample")
    plan = make_plan(RunArguments(pipeline, sample, str(tmp_path / "run")))
    for number in range(20):
        folder = LocalRun(tmp_path / f"r{number}")
        folder.prepare("sample", plan.input.fingerprint, resume=True)
        cache = Path(folder.cache_path)
        cache.parent.mkdir()
        cache.touch()
        os.utime(cache, (number, number))
    assert [each.name for each in neighbours_of(plan, "")] == [f"r{number}" for number in reversed(range(20))]
    assert neighbours_of(plan, "2026-01-02T03:04:05+00:00") == ()
    shared = make_plan(RunArguments(pipeline, sample, str(tmp_path / "run"), cache=str(tmp_path / "cache")))
    assert neighbours_of(shared, "") == ()


@pytest.mark.parametrize(("older", "begins"), [(0, ""), (1, "1 older run beside this one is"), (7, "7 older runs")])
def test_a_line_names_the_number_of_runs_that_are_not_searched(older: int, begins: str) -> None:
    lines = unsearched_line([Neighbour("run", "replies.sqlite", "")] * (MAX_NEIGHBOURS + older))
    assert [line[: len(begins)] for line in lines] == [begins] * bool(older)


def test_a_run_is_found_by_its_log_and_not_through_a_link_to_the_run_itself(tmp_path: Path) -> None:
    pipeline, sample = str(ROOT / "pipelines/grounded_cot.py"), str(ROOT / "data/sample")
    plan = make_plan(RunArguments(pipeline, sample, str(tmp_path / "run")))
    for name in (b"run", b"A\xff", b"empty", b"copy"):
        folder = LocalRun(tmp_path / os.fsdecode(name))
        folder.prepare("sample", plan.input.fingerprint, resume=True)
        if name != b"empty":
            (folder.root / "cache/log").mkdir(parents=True)
    (tmp_path / "run/cache/replies.sqlite").touch()
    (tmp_path / "copy/cache/replies.sqlite").hardlink_to(tmp_path / "run/cache/replies.sqlite")
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    assert [each.name for each in neighbours_of(plan, "")] == ["A\\udcff"]
