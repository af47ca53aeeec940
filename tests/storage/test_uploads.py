"""What a process does in the background for its stores: all jobs in turn, again after an error, none after the end."""

import threading
import time

import pytest

from groundtrace.storage.uploads import Uploads


def test_jobs_are_done_again_and_again_and_a_failing_one_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("fail")
        if len(done) < 20:
            raise OSError("away")

    uploads = Uploads(0.01)
    uploads.add("fail", fail)
    uploads.add("work", lambda: done.append("work"))
    end_s = time.monotonic() + 20
    while len(done) < 30:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    uploads.close()
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count and done[-4:] in (["fail", "work"] * 2, ["work", "fail"] * 2)
    assert [record.getMessage() for record in caplog.records] == ["cannot fail (away): trying again"]


def test_without_a_job_there_is_no_thread() -> None:
    before = threading.active_count()
    Uploads().close()
    assert threading.active_count() == before


def test_an_interval_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Uploads(0)
