"""Starts worker processes on this machine that end with their run, and ends the run if a worker is killed.

This is needed for two reasons. Beam's own runner waits forever for a killed process, for example one that used too much
RAM. And if the command is killed, Beam's workers continue their calls for minutes.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from groundtrace.pipelines.running.endings import RunPaused
from groundtrace.pipelines.running.execute.last_replies import await_workers
from groundtrace.pipelines.running.execute.worker_forks import Template
from groundtrace.pipelines.running.plan.loading import PipelineError

_THREAD = "run_worker"
"""The name that Beam gives to its threads that wait for worker processes.

Such a thread raises an error if its process failed.
"""


class WorkersRunner(FnApiRunner):
    """Runs a pipeline on this machine with Beam's local runner, in worker processes that end when the run ends.

    ``python`` is the path of the Python interpreter. ``imports`` is Python code that runs once, before the workers are
    forked. ``work`` is the code that each worker runs
    (:class:`groundtrace.pipelines.running.execute.worker_forks.Template`). ``more`` are further arguments of Beam's
    class. :meth:`run_pipeline` raises :class:`groundtrace.pipelines.running.endings.RunPaused` if a worker process ends
    too early, for example because the system killed it, and
    :class:`groundtrace.pipelines.running.plan.loading.PipelineError` if a worker process cannot import a module of the
    user.
    """

    def __init__(self, python: str, imports: str, work: str, **more: Any) -> None:
        self._template = Template(python, imports, work)
        environment = SubprocessSDKEnvironment.from_command_string(self._template.command)
        super().__init__(default_environment=environment, **more)
        self._failed: list[str] = []
        self._is_at_work = False

    def run_pipeline(self, *arguments: Any, **more: Any) -> Any:
        """Run a pipeline as Beam does, but raise RunPaused if a worker process is killed.

        The arguments and the result are those of Beam's method. Raises PipelineError if a worker process cannot start.
        If this method is called in another thread than the main thread, neither error is raised.
        """
        with self._template.running():
            if threading.current_thread() is not threading.main_thread():  # which alone handles signals
                return super().run_pipeline(*arguments, **more)
            hook_before, threading.excepthook = threading.excepthook, self._on_thread_error
            handled_before = signal.signal(signal.SIGUSR1, self._stop)
            try:
                return super().run_pipeline(*arguments, **more)
            finally:
                signal.signal(signal.SIGUSR1, handled_before)
                threading.excepthook = hook_before

    @contextlib.contextmanager
    def maybe_profile(self) -> Iterator[None]:
        """End the worker processes if the run stops.

        Beam does all work of the run in the body of a ``with`` statement that calls this method. After the body, Beam
        waits until the workers end. So if the body raises RunPaused or KeyboardInterrupt, this method ends the workers
        before Beam waits. After a KeyboardInterrupt, it first waits for the workers' last replies.
        """
        with super().maybe_profile():
            self._is_at_work = True
            try:
                yield
            except RunPaused:
                self._template.folder.cleanup()  # otherwise Beam would wait for the work that they have begun
                raise
            except KeyboardInterrupt:
                try:
                    await_workers(Path(self._template.folder.name))
                finally:
                    self._template.folder.cleanup()
                raise
            finally:
                self._is_at_work = False

    def _on_thread_error(self, failed: threading.ExceptHookArgs) -> None:
        if not Path(self._template.folder.name).is_dir():
            return  # the workers are ending, so Beam's threads lose their connections
        if failed.thread is None or failed.thread.name != _THREAD:
            threading.__excepthook__(failed)
        elif self._is_at_work:
            self._failed.append(str(failed.exc_value))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _stop(self, _: int, __: FrameType | None) -> None:
        if self._is_at_work and self._failed:  # other programs may send the same signal
            if failure := self._template.failure():
                raise PipelineError(
                    f"a worker process cannot start: {failure}; correct this error, and run the same command again"
                )
            raise RunPaused(
                f"a worker process was killed ({self._failed[0]}), usually because memory ran out: run the same "
                "command again; if a worker is killed again, lower --direct_num_workers"
            )
