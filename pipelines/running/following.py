"""Runs a job and waits for its end; cancels the job if the command is stopped.

Otherwise the job would continue, and cost money.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineResult

from groundtrace.pipelines.running.endings import RunNote
from groundtrace.pipelines.running.errors import JobIncomplete, RunPaused
from groundtrace.pipelines.running.interrupts import stopped_like_an_interrupt
from groundtrace.schemas.text import say

MAX_SAID_CHARS = 200
READER_ENDS_S = 5.0
_READER = "wait_until_finish_read"
"""Beam's name for its thread that reads the messages of a job server."""
_CONSOLE = "https://console.cloud.google.com/dataflow/jobs"


def follow(pipeline: beam.Pipeline, options: PipelineOptions, is_local: bool) -> None:
    """Run the pipeline to its end. Raises its error, and KeyboardInterrupt after Ctrl-C or SIGTERM.

    After a KeyboardInterrupt a job on other machines is cancelled first, and the error has a note on this. If its job
    server becomes unreachable, the job's outcome is unknown: raises
    :class:`groundtrace.pipelines.running.errors.RunPaused`, or
    :class:`groundtrace.pipelines.running.errors.JobIncomplete` if the server returns another error.
    """
    if is_local:
        pipeline.run().wait_until_finish()
        return
    with stopped_like_an_interrupt(), _telling_of_server(options):
        result = pipeline.run()
        if told := _where(result, options):
            say(told, file=sys.stderr)
        try:
            result.wait_until_finish()
        except KeyboardInterrupt as stopped:
            stopped.add_note(RunNote(_cancel(result)))
            raise


@contextlib.contextmanager
def _telling_of_server(options: PipelineOptions) -> Iterator[None]:
    """Replaces gRPC's error of a lost job server, a dump of several lines, by an error of the run."""
    before, threading.excepthook = threading.excepthook, _pass_over_server
    try:
        yield
    except grpc.RpcError as error:
        for thread in threading.enumerate():
            if thread.name == _READER:
                thread.join(READER_ENDS_S)
        raise _meaning(error, options.view_as(PortableOptions).job_endpoint) from error
    finally:
        threading.excepthook = before


def _pass_over_server(failed: threading.ExceptHookArgs) -> None:
    """Ignores gRPC errors of Beam's reader thread: the main thread raises the same error."""
    if not issubclass(failed.exc_type, grpc.RpcError):
        threading.__excepthook__(failed)


def _meaning(error: grpc.RpcError, endpoint: str | None) -> RunPaused | JobIncomplete:
    """The run's error for a failed call to the job server at ``endpoint``."""
    server = f"the job server at {endpoint}" if endpoint else "the job server"
    code, said = _status(error)
    if code is not grpc.StatusCode.UNAVAILABLE:
        return JobIncomplete(f"{server} gave up on the job ({code.name}: {said})")
    return RunPaused(
        f"{server} stopped in the middle of the job ({said}): start it again, see docs/engines.md, then run the same "
        "command again to resume"
    )


def _status(error: Any) -> tuple[grpc.StatusCode, str]:
    """The status code and the message, on one line, of a gRPC error."""
    code = error.code() if callable(getattr(error, "code", None)) else None
    said = error.details() if callable(getattr(error, "details", None)) else None
    return code or grpc.StatusCode.UNKNOWN, " ".join(str(said or "no message").split())[:MAX_SAID_CHARS]


def _cancel(result: PipelineResult) -> str:
    """Cancel the job; returns the outcome in words."""
    job = _job_of(result)
    say(f"beam: cancelling {job}", file=sys.stderr)
    try:
        result.cancel()
    except (Exception, KeyboardInterrupt) as error:  # of any kind: the user must learn that the job may go on
        said = " ".join(str(error).split())[:MAX_SAID_CHARS] or type(error).__name__
        return f"{job} could not be cancelled and may go on: {said}"
    return f"{job} was cancelled"


def _job_of(result: Any) -> str:
    found = result.job_id() if callable(getattr(result, "job_id", None)) else getattr(result, "_job_id", None)
    return f"the job {found}" if found else "the job"


def _where(result: Any, options: PipelineOptions) -> str:
    """A line with Dataflow's page of the job; "" for other engines."""
    google = options.view_as(GoogleCloudOptions)
    if not callable(getattr(result, "job_id", None)):
        return ""
    return f"{_job_of(result)} runs on Dataflow: {_CONSOLE}/{google.region}/{result.job_id()}?project={google.project}"
