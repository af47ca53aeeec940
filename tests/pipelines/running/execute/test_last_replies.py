"""A stopped command waits for its workers as long as they wait for their last replies."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from groundtrace.pipelines.running.execute import last_replies
from groundtrace.pipelines.running.execute.last_replies import LastReplies, await_workers


def test_workers_that_have_ended_are_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    (tmp_path / str(ended.pid)).touch()
    began_s = time.monotonic()
    await_workers(tmp_path)
    assert time.monotonic() - began_s < 5


def test_a_worker_is_waited_for_until_its_replies_have_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    come, ended = threading.Event(), []

    def end_process(limit_s: float) -> None:
        assert come.wait(limit_s)
        ended.append(limit_s)

    monkeypatch.setattr(last_replies, "end_process", end_process)
    worker = LastReplies(tmp_path)
    worker.check()
    assert not ended, "nobody has stopped the run"
    waiting = threading.Thread(target=await_workers, args=(tmp_path,))
    waiting.start()
    time.sleep(last_replies.SILENT_S + 0.3)
    worker.check()
    worker.check()
    assert waiting.is_alive()
    come.set()
    waiting.join(10)
    assert ended == [last_replies.LAST_REPLIES_S]
    assert capsys.readouterr().err == (
        "beam: stopping; waiting up to 20 s for in-flight requests (Ctrl-C ends at once)\n"
    )


def test_a_worker_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_replies, "LAST_REPLIES_S", 0.2)
    monkeypatch.setattr(last_replies, "CLOSE_S", 0.2)
    LastReplies(tmp_path)
    await_workers(tmp_path)
    assert [path.name for path in tmp_path.glob("[0-9]*")]
