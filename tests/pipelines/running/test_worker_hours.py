"""The forecast of workers, and when it is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.worker_hours import worker_hours, workers_text


def test_hours_grow_with_records_and_calls() -> None:
    assert worker_hours(0, 0) == (0, 0)
    least, most = worker_hours(3_600_000, 0)
    assert (least, most) == (pytest.approx(1000 / 104.9), pytest.approx(1000 / 11.2))
    assert worker_hours(0, 3_600_000) == (pytest.approx(1.1), pytest.approx(2.2))


def test_the_line() -> None:
    assert workers_text(3_600_000, 3_600_000).startswith("  workers: 10.63 to 91.49 hours of one core")


@pytest.mark.parametrize(("flags", "shown"), [([], False), (["--workers"], True)])
def test_it_is_shown_when_asked(
    flags: list[str],
    shown: bool,
    run_beam: Callable[..., Any],
    write_questions: Callable[[Path, int], Path],
    tmp_path: Path,
) -> None:
    ran = run_beam(write_questions(tmp_path / "q", 4), tmp_path / "run", "--records=3", *flags, command="preview")
    assert ran.code == 0
    assert ("hours of one core" in ran.out) is shown
