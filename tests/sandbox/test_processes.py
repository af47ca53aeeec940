"""The list of the sandbox's processes, which change while they are read."""

import os
import threading
import time

import pytest

from groundtrace.sandbox.inside import processes

pytestmark = pytest.mark.sandbox


def test_a_process_that_ends_while_it_is_read_is_listed_with_its_parent_or_not_at_all() -> None:
    """A thread reaps each child, as a holder does, while the list is read."""
    deadline, listed = time.monotonic() + 2, 0
    while time.monotonic() < deadline:
        child = os.fork()
        if not child:
            os._exit(0)
        reaper = threading.Thread(target=os.waitpid, args=(child, 0))
        reaper.start()
        while parents := processes.running([child]):
            listed += 1
            assert parents == {child: os.getpid()}
        reaper.join()
    assert listed
