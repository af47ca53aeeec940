"""A value that several processes change, some of which are killed."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from groundtrace.inference.flow.shared_state import SharedState

CHILD = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from groundtrace.inference.flow.shared_state import SharedState

@dataclass
class Count:
    number: int = 0
    firsts: int = 0

def first(count):
    count.firsts += 1

def one_more(count):
    count.number += 1
    if sys.argv[3] == "hang":
        print("inside", flush=True)
        time.sleep(60)

state = SharedState(Path(sys.argv[1]), Count, first)
for _ in range(int(sys.argv[2])):
    state.change(one_more)
"""


@dataclass
class Count:
    number: int = 0
    firsts: int = 0


def child(path: Path, changes: int, how: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path), str(changes), how], stdout=-1, text=True)


def opened(path: Path, **changes: bool) -> SharedState[Count]:
    def first(count: Count) -> None:
        count.firsts += 1

    return SharedState(path, Count, first, **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def test_no_change_of_several_processes_is_lost(path: Path) -> None:
    state = opened(path)
    children = [child(path, 300) for _ in range(2)]
    for each in children:
        each.communicate(timeout=60)
    assert [each.returncode for each in children] == [0, 0]
    count = state.change(lambda count: count)
    assert (count.number, count.firsts) == (600, 1)
    state.close()


def test_a_process_killed_within_a_change_holds_nobody_up(path: Path) -> None:
    killed = child(path, 1, "hang")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "inside\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    state = opened(path)
    assert state.change(lambda count: count) == Count(0, 2)  # its change was not carried out
    state.close()


def test_the_first_one_alone_puts_right_what_is_there(path: Path) -> None:
    one = opened(path)
    two = opened(path)
    assert two.change(lambda count: count.firsts) == 1
    one.close()
    two.close()
    two.close()
    assert opened(path).change(lambda count: count.firsts) == 2


def test_a_value_may_become_shorter(path: Path) -> None:
    state = opened(path)
    state.change(lambda count: setattr(count, "number", 10**15))
    state.change(lambda count: setattr(count, "number", 1))
    assert state.change(lambda count: count.number) == 1


@pytest.mark.parametrize("text", ["[", '{"number": "many"}', "\0" * 10, '{"number": 1, "firsts": 0}}'])
def test_a_file_that_holds_something_else(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"state\.json does not hold what was written there"):
        opened(path)
    mended = opened(path, mend=True)
    assert mended.change(lambda count: count) == Count(0, 1)
    mended.close()


def test_a_change_that_fails_changes_nothing(path: Path) -> None:
    def fail(count: Count) -> None:
        count.number = 5
        raise KeyError("a defect")

    state = opened(path)
    with pytest.raises(KeyError):
        state.change(fail)
    assert state.change(lambda count: count.number) == 0
