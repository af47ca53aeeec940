"""A warning names each minimum of the config whose scorer judged no trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_minimums_that_are_defaults_cause_no_warning(
    run_beam: Callable[..., Any], write_questions: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    """Images have no times, so the scorer temporal, which has a default minimum, judges no trace."""
    ran = run_beam(write_questions(tmp_path / "q", 6), tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "judged none of" not in ran.out


def test_a_run_warns_of_a_minimum_that_decided_nothing(
    run_beam: Callable[..., Any], write_questions: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    floors = ("--set", "verify.floors.temporal=0.9", "--set", "verify.floors.spatial=0.9")
    ran = run_beam(write_questions(tmp_path / "q", 6), tmp_path / "run", *floors)
    assert ran.code == 0, ran.err
    warned = [line for line in ran.out.splitlines() if "judged none of" in line]
    assert len(warned) == 1 and warned[0].startswith("warning: temporal judged none of the ")
    assert "so its minimum 0.9 rejected none" in warned[0]
