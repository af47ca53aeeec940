"""Following a job to its end, and cancelling it where the command is stopped: it would go on, and be paid for."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.runner import PipelineResult

from pipelines.running.endings import RunNote
from schemas.text import say

_CONSOLE = "https://console.cloud.google.com/dataflow/jobs"


def follow(result: PipelineResult, options: PipelineOptions, is_local: bool) -> None:
    """Wait until the job has ended. Raises what it failed with, and KeyboardInterrupt after Ctrl-C or SIGTERM.

    A job on other machines is then cancelled first, which the error's note tells of.
    """
    if is_local:
        result.wait_until_finish()
        return
    with _stopped_by_sigterm():
        if told := _where(result, options):
            say(told, file=sys.stderr)
        try:
            result.wait_until_finish()
        except KeyboardInterrupt as stopped:
            stopped.add_note(RunNote(_cancel(result)))
            raise


def _cancel(result: PipelineResult) -> str:
    """Cancel the job; returns what became of that."""
    job = _job_of(result)
    say(f"beam: cancelling {job}", file=sys.stderr)
    try:
        result.cancel()
    except (Exception, KeyboardInterrupt) as error:  # whatever it is, the user has to hear that the job may go on
        said = " ".join(str(error).split())[:200] or type(error).__name__
        return f"{job} could not be cancelled and may go on: {said}"
    return f"{job} was cancelled"


def _job_of(result: Any) -> str:
    found = result.job_id() if callable(getattr(result, "job_id", None)) else getattr(result, "_job_id", None)
    return f"the job {found}" if found else "the job"


def _where(result: Any, options: PipelineOptions) -> str:
    """Where Dataflow shows the job; "" for other engines."""
    google = options.view_as(GoogleCloudOptions)
    if not callable(getattr(result, "job_id", None)):
        return ""
    return f"{_job_of(result)} runs on Dataflow: {_CONSOLE}/{google.region}/{result.job_id()}?project={google.project}"


@contextlib.contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM stop the body as Ctrl-C does; in the main thread, the only one that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
