"""Questions to run over, and the ``beam`` command with the short recipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COLOURS = ("red", "blue", "yellow", "black")


@pytest.fixture(scope="session")
def write_questions(
    write_records: Callable[..., Path], write_scene: Callable[..., Path]
) -> Callable[[Path, int], Path]:
    """Write a folder with so many questions about as many images, no two of them alike (64 at most)."""

    def write(folder: Path, number: int) -> Path:
        for each in range(number):
            squares = [COLOURS[each // 4**place % 4] for place in range(3)]
            write_scene(folder / f"{each}.png", squares, width=160 + 8 * each)
        return write_records(folder, [{"id": f"q{each}", "media": f"{each}.png"} for each in range(number)])

    return write


@pytest.fixture(scope="session")
def run_beam(run_short: Callable[..., Any]) -> Callable[..., Any]:
    """Here a run is of the short recipe unless a test names another."""
    return run_short
