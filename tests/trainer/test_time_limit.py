"""Code that computes without end is interrupted, and all else goes on as before."""

import signal
import threading
import time

import pytest

from groundtrace.trainer.time_limit import TooLong, at_most


def test_a_loop_without_end() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(TooLong), at_most(0.05):
        while True:
            pass
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_waiting_is_not_computing() -> None:
    with at_most(0.05):
        time.sleep(0.2)
    with pytest.raises(ZeroDivisionError), at_most(0.05):
        raise ZeroDivisionError
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_another_thread_has_no_limit() -> None:
    done: list[bool] = []

    def compute() -> None:
        with at_most(0.01):
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                pass
        done.append(True)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert done == [True]
