"""Work that a runner does twice, or a writer that dies in the middle, changes nothing of what a run says and leaves."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running import run
from groundtrace.pipelines.running.account import finishing
from groundtrace.pipelines.running.execute import job, job_folder, outputs
from groundtrace.pipelines.running.plan import local_run
from groundtrace.stages import write_shards
from groundtrace.stages.plumbing import shard_files

pytestmark = pytest.mark.faults

SAMPLE = Path(__file__).resolve().parents[3] / "data/sample"
LIMIT, FEW = 40, 6
KILLED = 9


def beam(recipe: str, output: Path, cache: Path, limit: int = LIMIT) -> int:
    words = ["run", recipe, "--input", str(SAMPLE), "--output", str(output), "--cache", str(cache)]
    return main([*words, "--limit", str(limit), "--set", "write.shards=2"])


def shards(output: Path) -> dict[str, str]:
    return {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("sft", "rl", "rejected")
        for path in sorted((output / name).glob("*"))
    }


def summary(output: Path) -> dict[str, Any]:
    """What ``run.json`` says of the records, the stages and the calls, and not of this one run's time and place."""
    told = json.loads((output / "run.json").read_text("utf-8"))
    for figures in told["stages"].values():
        del figures["wall_s"], figures["in_flight_s"]
    return {name: told.get(name) for name in ("counts", "stages", "ledger", "judges", "files", "details")}


@pytest.mark.parametrize("recipe", ["grounded_cot", "judge_think_answer"])
def test_every_bundle_of_every_stage_is_run_three_times(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with an empty cache: what the first try of a bundle has asked, the others find there.

    A request that brought no reply, such as those of the judge for traces that it cannot read, is sent each time.
    """
    once, thrice = tmp_path / "once", tmp_path / "thrice"
    assert beam(recipe, once, tmp_path / "cache-once") == 0
    monkeypatch.setattr(job, "choose_runner", lambda *_: FnApiRunner(bundle_repeat=2))
    assert beam(recipe, thrice, tmp_path / "cache-thrice") == 0
    assert shards(once) == shards(thrice)
    told, again = summary(once), summary(thrice)
    requests = [ledger["judge"]["stages"].pop("judges", {}) for ledger in (told["ledger"], again["ledger"])]
    repeated = requests[1].get("requests", 0) - requests[0].get("requests", 0)
    assert requests[0].get("calls") == requests[1].get("calls")
    for ledger in (told["ledger"], again["ledger"]):
        del ledger["judge"]["requests"]
    assert told == again
    assert (repeated > 0) == (recipe == "judge_think_answer")
    assert again["ledger"]["policy"]["requests"] > 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a few records, with its cache beside it."""
    folder = tmp_path_factory.mktemp("whole")
    assert beam("grounded_cot", folder / "run", folder / "cache", FEW) == 0
    return folder


STEPS: list[tuple[object, str, bool]] = [
    (write_shards, "_tables", False),  # a shard is open and nothing of it written
    (write_shards, "write_table", False),  # it is whole, and what its ends tell is not
    (write_shards, "entry_line", False),  # both are whole
    (shard_files.pq, "ParquetWriter", True),
    (outputs, "write_manifest", False),  # all are
    (outputs, "write_manifest", True),  # and it is written
    (run, "figures_of", False),
    (job_folder.Job, "take_over", False),
    (job_folder.Path, "rename", True),  # one has its final name
    (finishing, "write_card", True),
    (local_run.LocalRun, "_finish_commit", False),
]


@pytest.mark.parametrize(("where", "step", "after"), STEPS, ids=lambda value: str(getattr(value, "__name__", value)))
def test_a_run_that_is_killed_between_two_steps(
    where: object, step: str, after: bool, whole: Path, tmp_path: Path
) -> None:
    """The finished run stays until the next one is whole, and the same command given again makes it."""
    if (child := os.fork()) == 0:
        try:
            _die_at(where, step, after)
            beam("grounded_cot", tmp_path / "run", whole / "cache", FEW)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    assert not (tmp_path / "run/run.json").exists()
    assert beam("grounded_cot", tmp_path / "run", whole / "cache", FEW) == 0
    assert shards(tmp_path / "run") == shards(whole / "run")
    told = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    assert told["files"] == json.loads((whole / "run/run.json").read_text("utf-8"))["files"]
    assert sum(role["requests"] for role in told["ledger"].values()) == 0, "every reply was kept"


def _die_at(where: object, step: str, after: bool) -> None:
    real = getattr(where, step)

    def dying(*args: Any, **named: Any) -> Any:
        if after:
            real(*args, **named)
        os._exit(KILLED)

    setattr(where, step, dying)
