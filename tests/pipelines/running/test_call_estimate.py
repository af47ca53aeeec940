"""What an earlier run says of the calls to come: which runs count, and which do not."""

from pathlib import Path

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.call_estimate import calls_to_expect
from groundtrace.pipelines.running.plan import RunArguments, make_plan
from groundtrace.publishing.figures import read_summary

ROOT = Path(__file__).resolve().parents[3]
PIPELINE = str(ROOT / "pipelines/grounded_cot.py")
SAMPLE = str(ROOT / "data/sample")


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preview of two records."""
    folder = tmp_path_factory.mktemp("runs") / "look"
    assert main(["preview", PIPELINE, "--input", SAMPLE, "--output", str(folder), "--records", "2"]) == 0
    return folder


@pytest.mark.parametrize("output", ["look", "run"])
def test_a_preview_in_the_folder_or_beside_it_counts(look: Path, output: str) -> None:
    summary = read_summary(look)
    assert summary.usage.calls > 0
    plan = make_plan(RunArguments(PIPELINE, SAMPLE, str(look.parent / output), limit=6))
    assert calls_to_expect(plan) == pytest.approx(3 * summary.usage.calls)


@pytest.mark.parametrize(
    ("output", "overrides"), [("run", ("attempt.k=7",)), ("elsewhere/run", ())], ids=["config", "place"]
)
def test_others_do_not(look: Path, output: str, overrides: tuple[str, ...]) -> None:
    plan = make_plan(RunArguments(PIPELINE, SAMPLE, str(look.parent / output), overrides=overrides))
    assert calls_to_expect(plan) is None
