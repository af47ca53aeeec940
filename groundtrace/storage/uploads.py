"""Runs jobs that exchange data with object stores, e.g. uploads, in a background thread while a process works."""

import logging
import threading
from collections.abc import Callable

EVERY_S = 5.0
_log = logging.getLogger(__name__)


class Uploads:
    """Runs a list of jobs every ``every_s`` seconds in a background thread. A job is a function without arguments.

    In each round, the jobs run one after the other. The thread starts when the first job is added. A job that fails is
    run again in the next round. If a job fails several times in succession, only the first failure is logged.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        if every_s <= 0:
            raise ValueError(f"every_s must be positive, got {every_s}")
        self._every_s = every_s
        self._jobs: list[tuple[str, Callable[[], object]]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, what: str, job: Callable[[], object]) -> None:
        """Run the function ``job`` in each round from now on.

        ``what`` describes the job in the log if the job fails. For example, if ``what`` is "upload the results", the
        log message is "cannot upload the results".
        """
        self._jobs.append((what, job))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread. A round of jobs that has begun is finished first.

        No further round is run. If a job still has work to do, e.g. a last upload, the caller must do it.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        failing = set[str]()
        while not self._ended.wait(self._every_s):
            for what, job in self._jobs:
                try:
                    job()
                    failing.discard(what)
                except Exception as error:  # any error of a store: the last attempt, at the end, raises
                    if what not in failing:
                        _log.warning("cannot %s (%s): trying again", what, error)
                    failing.add(what)
