"""The wheel, the environments that it is installed into, and the table of what worked in them."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .environments import SAMPLE, Installed, build_wheel, install


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An environment without any extra, for all that runs in it."""
    folder = tmp_path_factory.mktemp("core")
    yield install(folder, wheel)
    shutil.rmtree(folder)


@pytest.fixture
def with_extra(wheel: Path, tmp_path: Path) -> Iterator[Callable[[str], Installed]]:
    """Makes an environment with one extra, which is removed at the end: those with torch are large."""
    yield lambda extra: install(tmp_path / extra, wheel, extra)
    for folder in tmp_path.glob("*/venv"):
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def demo(core: Installed) -> Path:
    """The run folder of the main recipe's demo, made with the core alone."""
    core.run("beam", "run", "grounded_cot", "--input", SAMPLE, "--output", "demo")
    return core.home / "demo"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print each cell of the matrix with its seconds, setting up included, and its result."""
    seconds: dict[str, float] = defaultdict(float)
    worked: dict[str, bool] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if "tests/installs/" in getattr(report, "nodeid", "") and hasattr(report, "duration"):
                cell = report.nodeid.partition("::test_")[2]
                seconds[cell] += report.duration
                worked[cell] = worked.get(cell, True) and report.outcome == "passed"
    if not worked:
        return
    terminalreporter.section("installed")
    width = max(map(len, worked))
    for cell, works in worked.items():
        terminalreporter.write_line(f"{cell:<{width}}  {seconds[cell]:7.1f} s  {'works' if works else 'FAILS'}")
    terminalreporter.write_line(f"{sum(worked.values())} of {len(worked)} work, {sum(seconds.values()):.0f} s")
