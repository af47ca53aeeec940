"""Beam's log messages are hidden during a run of the library, and no others."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundtrace.pipelines.running.beam_logs import BEAM, without_beam_logs

SAMPLE = Path(__file__).resolve().parents[3] / "data/sample"
INSIDE, ELSEWHERE = "/site-packages/apache_beam/typehints/typehints.py", "/home/me/apache_beam.py"
ENGINE = "/site-packages/apache_beam/runners/portability/portable_runner.py"


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """The messages that reach a handler of the root logger; the logger of Beam has no level, as in a new process."""
    found = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    root, beam = logging.getLogger(), logging.getLogger(BEAM)
    before = beam.level, list(root.filters)
    root.addHandler(handler)
    beam.setLevel(logging.NOTSET)
    root.filters[:] = []
    yield found
    root.removeHandler(handler)
    beam.setLevel(before[0])
    root.filters[:] = before[1]


def log(name: str, level: int, path: str) -> None:
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(logger.name, level, path, 1, "told", (), None))


@pytest.mark.parametrize(
    ("name", "level", "path", "is_shown"),
    [
        ("", logging.WARNING, INSIDE, False),
        ("", logging.ERROR, INSIDE, True),
        ("", logging.ERROR, ENGINE, False),
        ("", logging.WARNING, ELSEWHERE, True),
        ("apache_beam.runners", logging.ERROR, INSIDE, False),
        ("apache_beam.runners", logging.CRITICAL, INSIDE, True),
        ("groundtrace.inference", logging.WARNING, ELSEWHERE, True),
        ("mine", logging.WARNING, ELSEWHERE, True),
    ],
)
def test_only_beams_messages_are_hidden(name: str, level: int, path: str, is_shown: bool, seen: list[str]) -> None:
    with without_beam_logs():
        log(name, level, path)
    assert seen == (["told"] if is_shown else [])
    log(name, level, path)
    assert len(seen) == is_shown + 1, "afterwards all is as before"


def test_a_level_of_beams_logger_is_the_users_choice(seen: list[str]) -> None:
    logging.getLogger(BEAM).setLevel(logging.WARNING)
    with without_beam_logs():
        log("", logging.WARNING, INSIDE)
        log("apache_beam.runners", logging.WARNING, INSIDE)
    assert seen == ["told"] * 2 and logging.getLogger(BEAM).level == logging.WARNING


RUN = f"""
import logging, sys
import groundtrace as gt
gt.run("grounded_cot", {str(SAMPLE)!r}, sys.argv[1], limit=1, overrides=["max_failed=1"], replace=True)
logging.getLogger("groundtrace").warning("ours")
logging.basicConfig(format="%(levelname)s %(message)s")
logging.warning("mine")
"""


@pytest.mark.slow
def test_a_run_of_the_library_shows_no_message_of_beam(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    runner, *progress, ours, mine = done.stderr.splitlines()
    assert runner.startswith("runner: this machine") and not [line for line in progress if "WARN" in line]
    assert (ours, mine) == ("ours", "WARNING mine"), "the user can still set up the log"
