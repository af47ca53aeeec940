"""Executes model-written Python in isolation.

A trajectory is a series of calls (executions of code) that share their state. Each trajectory has its own isolated
processes. An example::

    with Sandbox() as sandbox, sandbox.open([image]) as session:
        session.run("crop = input_image.crop((0, 0, 90, 90))").status  # "silent"
        session.run("display(crop); print(crop.size)").images
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from groundtrace.sandbox import groups
from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.requirements import check
from groundtrace.sandbox.session import Process, Session
from groundtrace.sandbox.settings import SandboxSettings

_STARTERS = 2
_POLL_S = 0.01
_CLOSED = "the sandbox is closed, so it runs no more code: create another Sandbox"


class Sandbox:
    """Runs trajectories, each in its own isolated processes.

    A trajectory is a series of calls (executions of code) that share their state. At most ``settings.sessions``
    trajectories are open at the same time. In addition, the processes of further trajectories are started in advance,
    so that :meth:`open` is fast; ``settings.warm`` is the number of these trajectories. If ``settings`` is None, the
    default settings are used.

    Close the sandbox, or use it in a ``with`` statement. Use it only in the process that created it: do not pickle it,
    and do not use it after a fork. Raises :class:`groundtrace.sandbox.errors.SandboxRefused` if this machine cannot
    isolate code.
    """

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self.settings = settings or SandboxSettings()
        check()
        groups.remove_left_over()
        self._places = threading.BoundedSemaphore(self.settings.sessions)
        self._lock = threading.Lock()
        # bubblewrap ends with the thread that started it, so only threads of the pool start it.
        self._starters = ThreadPoolExecutor(_STARTERS, thread_name_prefix="sandbox")
        self._callers = ThreadPoolExecutor(self.settings.sessions, thread_name_prefix="sandbox-call")
        self._warm: deque[Future[Process]] = deque()
        self._open: set[Session] = set()
        self._is_closed = False
        self._warm_up()

    def _warm_up(self) -> None:
        while not self._is_closed and len(self._warm) < self.settings.warm:
            self._warm.append(self._starters.submit(Process.start, self.settings))

    def open(self, images: Sequence[bytes] = (), timeout_s: float | None = None) -> Session:
        """Open a new trajectory, and return it as a session that runs code.

        A trajectory is a series of executions of code that share their state. Its code gets the images as the variables
        ``input_image``, ``input_image_2``, ….

        Args:
            images: the bytes of the image files.
            timeout_s: how many seconds to wait while the maximum number of trajectories (the setting ``sessions``) is
                open. None means that the waiting time has no limit.

        Raises:
            TimeoutError: if no other trajectory was closed within ``timeout_s`` seconds.
            SandboxLost: if the trajectory cannot be started, or if an image cannot be opened.
        """
        if not self._places.acquire(timeout=timeout_s):
            raise self._no_free_session(timeout_s)
        return self._start(images)

    async def open_async(self, images: Sequence[bytes] = (), timeout_s: float | None = None) -> Session:
        """Open a new session as :meth:`open` does, but as a coroutine; the arguments and errors are the same.

        While the coroutine waits until another session is closed, it blocks no thread.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._places.acquire(blocking=False):
            if deadline is not None and time.monotonic() > deadline:
                raise self._no_free_session(timeout_s)
            await asyncio.sleep(_POLL_S)
        try:
            starting = self._callers.submit(self._start, images)
        except RuntimeError:  # the sandbox was closed meanwhile
            self._places.release()
            raise SandboxLost(_CLOSED) from None
        try:
            return await asyncio.wrap_future(starting)
        except BaseException:  # cancelled, or the event loop has ended (GeneratorExit)
            starting.add_done_callback(self._drop)
            raise

    def _no_free_session(self, timeout_s: float | None) -> TimeoutError:
        return TimeoutError(
            f"the sandbox has {self.settings.sessions} open trajectories, and none was closed in {timeout_s} s: "
            "close one, or raise the sandbox's setting sessions"
        )

    def _drop(self, starting: "Future[Session]") -> None:
        """Close the session that a cancelled call of :meth:`open_async` has started and not returned.

        ``starting`` is the future of the session's start, which has already ended. The setting ``sessions`` limits the
        number of open sessions, and this session was counted before its start. There are three cases:

        - The start succeeded. Then the session is closed, and is no longer counted.
        - The start was cancelled before it began. Then there is no session to close, and only the count is lowered.
        - The start failed. Then nothing is done, because the failed start has already lowered the count.
        """
        if starting.cancelled():
            self._places.release()
        elif starting.exception() is None:
            starting.result().close()

    def _start(self, images: Sequence[bytes]) -> Session:
        """Open a trajectory (a series of executions of code), and return it as a session.

        The setting ``sessions`` limits the number of open trajectories. The caller has already counted this trajectory
        as open. If the trajectory cannot be opened, it is no longer counted. ``images`` holds the bytes of the image
        files.
        """
        starting = None
        try:
            starting = self._next()
            session = Session(starting.result(), self.settings, images, self._release, self._callers)
        except BaseException:  # also KeyboardInterrupt while the process is starting
            if starting is not None:
                starting.add_done_callback(_end)
            self._places.release()
            raise
        with self._lock:
            self._open = {each for each in self._open if each.is_open} | {session}
            is_closed = self._is_closed
        if is_closed:  # another thread has closed the sandbox
            session.close()
            raise SandboxLost(_CLOSED)
        return session

    def _next(self) -> Future[Process]:
        """Return the isolated process for a new session as a future, because the process may still be starting.

        Raises SandboxLost if the sandbox was closed.
        """
        with self._lock:
            if self._is_closed:
                raise SandboxLost(_CLOSED)
            started = self._warm.popleft() if self._warm else self._starters.submit(Process.start, self.settings)
            self._warm_up()
            return started

    def _release(self) -> None:
        """Allow one more session, because a session (an open trajectory) was closed.

        The setting ``sessions`` limits the number of open sessions.

        Each open session keeps a reference to this method, and calls the method when it is closed. Because of this
        reference, Python does not delete the sandbox while a session is open. If Python deleted the sandbox, the
        threads of its pool would end, and all sessions would end with these threads.
        """
        self._places.release()

    def close(self) -> None:
        """End all open trajectories (series of executions of code), and wait until their processes have ended."""
        with self._lock:
            self._is_closed = True
            warm, self._warm = list(self._warm), deque()
        for session in self._open:
            session.close()
        for started in warm:
            started.cancel()
            started.add_done_callback(_end)
        self._starters.shutdown()
        self._callers.shutdown(wait=False)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(starting: Future[Process]) -> None:
    """End a process that was started in advance and not used; if its start failed or was cancelled, do nothing."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().end()
