"""Commands in front of one that stops reading."""

import argparse
import os
import subprocess
import sys

import pytest

from groundtrace.pipelines.commands import dispatch
from groundtrace.pipelines.commands.streams import NOBODY_READS

pytestmark = pytest.mark.faults

BEAM = (sys.executable, "-m", "groundtrace")


def unread(*words: str, both: bool = False) -> tuple[int, bytes]:
    """The exit code of a command whose output nobody reads, ``both`` of its outputs where so, and what it said."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*BEAM, *words], stdout=writing, stderr=writing if both else subprocess.PIPE, check=False, timeout=120
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr or b""


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("words", ["config", "--print-completion bash"])
def test_a_command_whose_output_nobody_reads_ends_quietly(words: str, both: bool) -> None:
    code, said = unread(*words.split(), both=both)
    assert (code, said) == (NOBODY_READS, b"")


@pytest.mark.parametrize("words", ["init no_such.csv", "no_command"])
def test_a_mistake_is_told_where_it_is_read(words: str) -> None:
    code, said = unread(*words.split())
    assert (code, said.count(b"\n")) == (2, 1), said
    assert unread(*words.split(), both=True)[0] in (2, NOBODY_READS)


def test_a_broken_pipe_of_something_else_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def act(*_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(dispatch, "_act", act)
    with capfd.disabled():
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as out:
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setattr(sys, "stderr", out)
            assert dispatch.dispatch(argparse.Namespace(verbose=False), []) == 1
        with os.fdopen(reading) as said:
            line = said.read()
            assert line.startswith("beam: BrokenPipeError: [Errno 32] Broken pipe (in ") and line.endswith(
                "; --verbose shows more)\n"
            )


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_without_an_output(closing: str) -> None:
    done = subprocess.run(["sh", "-c", f"{' '.join(BEAM)} config {closing}"], capture_output=True, check=False)
    assert done.returncode == 0
    assert (not done.stdout) == closing.startswith(">")
