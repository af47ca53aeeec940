"""One thread of a process for all that it exchanges with stores while it works."""

import logging
import threading
from collections.abc import Callable

EVERY_S = 5.0
_log = logging.getLogger(__name__)


class Uploads:
    """Runs jobs one after the other, every ``every_s`` seconds. A job that fails is tried again; only its first failure
    in a row is logged. The thread starts with the first job.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        if every_s <= 0:
            raise ValueError(f"every_s must be positive, got {every_s}")
        self._every_s = every_s
        self._jobs: list[tuple[str, Callable[[], object]]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, what: str, job: Callable[[], object]) -> None:
        """Run ``job`` from now on; ``what`` says in the log what could not be done, such as "upload the notes"."""
        self._jobs.append((what, job))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop after the present job. Whoever added a job does the rest of its work."""
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
