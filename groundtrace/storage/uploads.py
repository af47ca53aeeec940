"""Exchanges data with stores in the background while a process works. One thread runs all jobs, such as uploads."""

import logging
import threading
from collections.abc import Callable

EVERY_S = 5.0
_log = logging.getLogger(__name__)


class Uploads:
    """Runs all jobs every ``every_s`` seconds, one after the other, in a thread that starts with the first job.

    A job that fails is run again at the next interval. Of its consecutive failures, only the first is logged.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        if every_s <= 0:
            raise ValueError(f"every_s must be positive, got {every_s}")
        self._every_s = every_s
        self._jobs: list[tuple[str, Callable[[], object]]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, what: str, job: Callable[[], object]) -> None:
        """Run ``job`` at each interval from now on.

        ``what`` describes the job in the log if the job fails, such as "upload the notes" in "cannot upload the notes".
        """
        self._jobs.append((what, job))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread. If a round of jobs has begun, it is finished first.

        There is no further round, so the code that added a job must do the rest of the job's work itself.
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
                        _log.warning("cannot %s, trying again: %s", what, error)
                    failing.add(what)
