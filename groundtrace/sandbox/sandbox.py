"""Isolated execution of model-written Python: trajectories of calls that share state, each in a process of its own.

with Sandbox() as sandbox, sandbox.open([image]) as session:
    session.run("crop = input_image.crop((0, 0, 90, 90))").status  # "silent"
    session.run("display(crop); print(crop.size)").images
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from groundtrace.sandbox import groups
from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.requirements import check
from groundtrace.sandbox.session import Process, Session
from groundtrace.sandbox.settings import SandboxSettings

_STARTERS = 2


class Sandbox:
    """A bounded pool of trajectories, some of which are started before they are asked for.

    Close it, or use it in ``with``. It is one process's: it is neither pickled nor used after a fork. Raises
    :class:`groundtrace.sandbox.errors.SandboxRefused` on a machine that cannot isolate.
    """

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self.settings = settings or SandboxSettings()
        check()
        groups.remove_left_over()
        self._places = threading.BoundedSemaphore(self.settings.sessions)
        self._lock = threading.Lock()
        # bubblewrap ends with the thread that started it, so that threads of the pool start all of them.
        self._starters = ThreadPoolExecutor(_STARTERS, thread_name_prefix="sandbox")
        self._warm: deque[Future[Process]] = deque()
        self._open: set[Session] = set()
        self._is_closed = False
        self._warm_up()

    def _warm_up(self) -> None:
        while not self._is_closed and len(self._warm) < self.settings.warm:
            self._warm.append(self._starters.submit(Process.start, self.settings))

    def open(self, images: Sequence[bytes] = (), timeout_s: float | None = None) -> Session:
        """A new trajectory on these images, each an encoded file: ``input_image``, ``input_image_2``, …

        Waits while as many are open as may be, for ``timeout_s`` at most. Raises TimeoutError, SandboxLost where none
        can be started or an image cannot be opened.
        """
        if not self._places.acquire(timeout=timeout_s):
            raise TimeoutError(f"{self.settings.sessions} trajectories are open, and none was closed in {timeout_s} s")
        process = None
        try:
            process = self._next().result()
            session = Session(process, self.settings, images, self._places.release)
        except BaseException:
            if process is not None:
                process.end()
            self._places.release()
            raise
        with self._lock:
            self._open = {each for each in self._open if each.is_open} | {session}
            is_closed = self._is_closed
        if is_closed:  # meanwhile, by another thread
            session.close()
            raise SandboxLost("the sandbox is closed")
        return session

    def _next(self) -> Future[Process]:
        """A started process, or one that starts. Raises SandboxLost after ``close``."""
        with self._lock:
            if self._is_closed:
                raise SandboxLost("the sandbox is closed")
            started = self._warm.popleft() if self._warm else self._starters.submit(Process.start, self.settings)
            self._warm_up()
            return started

    def close(self) -> None:
        """End all trajectories and wait until their processes have ended."""
        with self._lock:
            self._is_closed = True
            warm, self._warm = list(self._warm), deque()
        for session in self._open:
            session.close()
        for started in warm:
            if not started.cancel() and started.exception() is None:
                started.result().end()
        self._starters.shutdown()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
