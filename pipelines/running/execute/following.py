"""Starts a Beam job and waits until it ends, until the user stops the command, or until a worker ends the run.

If the user stops the command, the job is cancelled. Otherwise the job would continue, and cost money.
"""

import contextlib
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineResult

from groundtrace.inference.errors import stop_in
from groundtrace.pipelines.running.endings import JobIncomplete, RunNote, RunPaused
from groundtrace.pipelines.running.execute.interrupts import stopped_like_an_interrupt
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import say
from groundtrace.storage.places import StorageError, StoreUnavailable

MAX_MESSAGE_CHARS = 200
READER_ENDS_S = 5.0
_READER = "wait_until_finish_read"
"""The name that Beam gives to its thread that reads the messages of a job server."""
_CONSOLE = "https://console.cloud.google.com/dataflow/jobs"
_STORES_ERROR = re.compile(
    rf"^{StorageError.__module__}\.({StorageError.__name__}|{StoreUnavailable.__name__}): (.*)$", re.MULTILINE
)
_WHERE = re.compile(r" \[while running '.*'\]$")


class EndpointUnusable(UserError):
    """Raised if the run cannot continue until the user changes something. The message states what to change.

    For example, an endpoint (model server) refuses the run's requests or mostly fails, and its config must be changed.
    """


def follow(pipeline: beam.Pipeline, options: PipelineOptions, is_local: bool) -> None:
    """Run a Beam pipeline to its end. Raises the error of the pipeline, and KeyboardInterrupt if the user stops the
    command.

    The user stops the command by Ctrl-C or by the signals SIGTERM or SIGHUP. A job on other machines is then cancelled,
    and a note on the error states whether this succeeded. If the job server becomes unreachable, the job's outcome is
    unknown, and :class:`groundtrace.pipelines.running.endings.RunPaused` is raised. If the server returns another
    error, :class:`groundtrace.pipelines.running.endings.JobIncomplete` is raised.

    ``options`` are the options of the job. ``is_local`` is True if all workers run on this machine.
    """
    if is_local:
        pipeline.run().wait_until_finish()
        return
    with stopped_like_an_interrupt(), _with_plain_errors(options):
        result = pipeline.run()
        if where := _where(result, options):
            say(where, file=sys.stderr)
        try:
            result.wait_until_finish()
        except KeyboardInterrupt as stopped:
            stopped.add_note(RunNote(_cancel(result)))
            raise


def stop_of(error: BaseException) -> Exception | None:
    """Return the error for the user if a worker stopped the run because an endpoint (model server) or a store (remote
    storage) failed.

    ``error`` is the error that Beam raised. The result is None if the error has another cause. The returned error is a
    :class:`groundtrace.pipelines.running.endings.RunPaused` if the same command resumes the run. Otherwise it is an
    :class:`EndpointUnusable` or a :class:`groundtrace.storage.places.StorageError`.
    """
    seen: set[int] = set()  # a chain of causes may be a cycle
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if (stop := stop_in(str(each))) is not None:
            return RunPaused(stop.message) if stop.resumable else EndpointUnusable(stop.message)
        if (away := _STORES_ERROR.search(_typed_text(each))) is not None:
            message = _WHERE.sub("", away[2])
            return StorageError(message) if away[1] == StorageError.__name__ else RunPaused(message)
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return None


def _typed_text(error: BaseException) -> str:
    """Return the error's type and text in the form of a traceback's last line, such as ``builtins.OSError: disk full``.

    Some runners of Beam raise the worker's own error. Others raise an error whose text is the worker's traceback. In
    either case, the result has a line with the type and the text of the worker's error. :func:`stop_of` searches for
    this line.
    """
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


@contextlib.contextmanager
def _with_plain_errors(options: PipelineOptions) -> Iterator[None]:
    """Replace a gRPC error in the body of the ``with`` statement with RunPaused or JobIncomplete (:func:`_meaning`).

    ``options`` are the options of the Beam job, which name the job server.

    gRPC raises an error if the job server becomes unreachable or fails. The message of a gRPC error has several lines.
    The message of the new error has one line.
    """
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
    """Ignore a gRPC error that ended a thread, since the main thread raises the same error.

    Other errors are reported as usual. ``failed`` describes the error; Python passes it to ``threading.excepthook``.
    """
    if not issubclass(failed.exc_type, grpc.RpcError):
        threading.__excepthook__(failed)


def _meaning(error: grpc.RpcError, endpoint: str | None) -> RunPaused | JobIncomplete:
    """Return the error that a run raises because a call to its job server failed.

    The result is RunPaused if the server is unreachable, and JobIncomplete if the server returned another error.
    ``error`` is the gRPC error of the call. ``endpoint`` is the address of the server, for the message; None if it is
    unknown.
    """
    server = f"the job server at {endpoint}" if endpoint else "the job server"
    code, message = _status(error)
    if code is not grpc.StatusCode.UNAVAILABLE:
        return JobIncomplete(f"{server} ended the job with an error ({code.name}: {message}): see the server's log")
    return RunPaused(
        f"{server} stopped in the middle of the job ({message}): start it again, see docs/engines.md, then run the "
        "same command again to resume"
    )


def _status(error: Any) -> tuple[grpc.StatusCode, str]:
    """Return the status code and the message of the gRPC error ``error``. The message is on one line.

    If the error has no code or no message, the result holds UNKNOWN or "no message" instead.
    """
    code = error.code() if callable(getattr(error, "code", None)) else None
    message = error.details() if callable(getattr(error, "details", None)) else None
    return code or grpc.StatusCode.UNKNOWN, " ".join(str(message or "no message").split())[:MAX_MESSAGE_CHARS]


def _cancel(result: PipelineResult) -> str:
    """Cancel a Beam job, and return a text that states whether it was cancelled.

    ``result`` is the object that Beam returned when the job was started.
    """
    job = _job_of(result)
    say(f"beam: cancelling {job}", file=sys.stderr)
    try:
        result.cancel()
    except (Exception, KeyboardInterrupt) as error:  # of any kind: the user must learn that the job may go on
        message = " ".join(str(error).split())[:MAX_MESSAGE_CHARS] or type(error).__name__
        return f"{job} could not be cancelled and may go on: {message}"
    return f"{job} was cancelled"


def _job_of(result: Any) -> str:
    found = result.job_id() if callable(getattr(result, "job_id", None)) else getattr(result, "_job_id", None)
    return f"the job {found}" if found else "the job"


def _where(result: Any, options: PipelineOptions) -> str:
    """Return a line with the address of the web page of a Dataflow job; "" if another runner executes the job.

    ``result`` is the object that Beam returned when the job was started. ``options`` are the job's options.
    """
    google = options.view_as(GoogleCloudOptions)
    if not callable(getattr(result, "job_id", None)):
        return ""
    return f"{_job_of(result)} runs on Dataflow: {_CONSOLE}/{google.region}/{result.job_id()}?project={google.project}"
