"""The spool: what was laid down is picked up by any thread and process, and nothing else is taken for it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groundtrace.stages.plumbing.spill import read_spilled, spill, spool_folder, spooling

LONG = bytes(range(256)) * 20


@pytest.mark.parametrize("data", [b"", b"a", b"\1" * 30, LONG, LONG * 500])
@pytest.mark.parametrize("spool", [False, True])
def test_data_comes_back(data: bytes, spool: bool, tmp_path: Path) -> None:
    folder = str(tmp_path) if spool else ""
    with spooling(folder):
        crossed = spill(data, folder)
        assert read_spilled(crossed, folder) == data
    assert len(crossed) <= (64 if spool else len(data) + 1)


def test_the_folder_is_known_inside_and_closed_behind(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    before = sorted(handles.iterdir()) if handles.exists() else []
    assert spool_folder() == ""
    with spooling(str(tmp_path)):
        assert spool_folder() == str(tmp_path)
        slip = spill(LONG, spool_folder())
        assert read_spilled(slip, spool_folder()) == LONG
        with spooling(""):
            assert spool_folder() == ""
    assert spool_folder() == ""
    assert (sorted(handles.iterdir()) if handles.exists() else []) == before


def test_threads_do_not_write_over_each_other(tmp_path: Path) -> None:
    values = [bytes([number % 256]) * (100 + number) for number in range(400)]
    with spooling(str(tmp_path)), ThreadPoolExecutor(8) as pool:
        slips = list(pool.map(lambda value: spill(value, str(tmp_path)), values))
        assert list(pool.map(lambda slip: read_spilled(slip, str(tmp_path)), slips)) == values
    assert len(list(tmp_path.iterdir())) == 1


def test_processes_write_files_of_their_own_and_read_those_of_all(tmp_path: Path) -> None:
    folder = str(tmp_path)
    code = (
        "import sys; from groundtrace.stages.plumbing.spill import spill, read_spilled\n"
        "assert read_spilled(bytes.fromhex(sys.argv[2]), sys.argv[1]) == b'parent' * 20\n"
        "print(spill(b'child' * 20, sys.argv[1]).hex())"
    )
    with spooling(folder):
        mine = spill(b"parent" * 20, folder)
        command = [sys.executable, "-c", code, folder, mine.hex()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert read_spilled(bytes.fromhex(done.stdout), folder) == b"child" * 20
        assert read_spilled(mine, folder) == b"parent" * 20
    assert len(list(tmp_path.iterdir())) == 2


def test_a_forked_process_does_not_write_into_its_parents_file(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with spooling(folder):
        mine = spill(b"parent" * 20, folder)
        child = os.fork()
        if child == 0:
            spill(b"child!" * 20, folder)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        after = spill(b"again!" * 20, folder)
        assert (read_spilled(mine, folder), read_spilled(after, folder)) == (b"parent" * 20, b"again!" * 20)
    assert sorted(file.stat().st_size for file in tmp_path.iterdir()) == [120, 240]


def test_what_no_spool_has_made_is_refused(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with spooling(folder):
        slip = spill(LONG, folder)
        for crossed in (b"", b"\2" + LONG, slip[:-1], slip + b"x"):
            with pytest.raises(ValueError, match="between two steps cannot be read"):
                read_spilled(crossed, folder)
        with pytest.raises(ValueError, match="between two steps cannot be read"):
            read_spilled(slip, "")
        (file,) = tmp_path.iterdir()
        os.truncate(file, len(LONG) - 1)
        with pytest.raises(ValueError, match=f"{file.name} has fewer than {len(LONG)} bytes"):
            read_spilled(slip, folder)
    with spooling(folder), pytest.raises(FileNotFoundError):
        file.unlink()
        read_spilled(slip, folder)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spill(LONG, str(tmp_path / "gone"))
