"""Starts worker processes as forks of one process, the template, which has imported the modules of a run.

So these modules are imported once for all workers, and the workers share one copy of them in memory. Beam's local
runner starts a shell command for each worker. Here, this shell command starts a small program, the client. The client
sends its environment to the template. The template forks, and the fork does the work of the worker. The client ends
when the fork ends.

The template must not have other threads when it forks. The user's modules may start threads. So the template does not
import them, and each fork imports them itself.

There are two ways to start the template. If the user starts the run with ``beam``, the process of ``beam`` forks
(:func:`fork_template`), and the fork is the template. The process forks after it has imported the package's modules,
and before it starts threads or imports a module of the user. So the package's modules are imported only once for
``beam`` and all workers. If a Python program starts the run, the template is started as a new process.
"""

import atexit
import json
import os
import shlex
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from groundtrace.pipelines.running.execute.last_replies import LastReplies
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import printable

CHECK_EVERY_S = 0.5
END = signal.SIGUSR1
DONE = b"\n"
"""The byte that a worker process (a fork) sends to its client at the end of its work.

The client is the process that Beam starts for the worker. If the client receives no byte, the worker failed or was
killed.
"""
MAX_FORKS = 10_000
_MAX_TEMP_CHARS = 60
"""The maximum length of the path of the temporary folder. If the path is longer, ``/tmp`` is used instead.

The reason is that the system limits the path of a socket in such a folder to 100 characters.
"""
_FAILURE = "failure"
_CLIENT = """
import json, os, signal, socket, sys
for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(stop, signal.SIG_IGN)
try:
    with socket.socket(socket.AF_UNIX) as forks:
        forks.connect(sys.argv[1])
        forks.sendall(json.dumps(dict(os.environ)).encode())
        forks.shutdown(socket.SHUT_WR)
        sys.exit(0 if forks.recv(1) else 1)
except OSError:
    sys.exit(1)
"""
"""The Python program of a client, i.e. of the process that Beam starts for a worker.

The program ignores the signals that stop a command, because the run ends it: if the template (the process from which
workers are forked) or the fork ends, the connection ends, and so does the program.
"""
_TEMPLATE = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
for stop in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(stop, lambda *_: None)
sys.path[:] = {path!r}
from {module} import serve_forks
serve_forks({socket_fd}, **{given!r})
"""
"""The Python program of a template (the process from which workers are forked) that is started as a new process.

The program must import modules only from the parent's paths. Therefore its process is started with ``-P``. The program
first sets the handlers of the signals, as :func:`_ignore_stop_signals` does.
"""


_forked: tuple[int, socket.socket] | None = None
"""The template (the process from which workers are forked) that this process has forked and no run has used yet.

The pair holds the template's process id, and the socket to the template. The value is None if there is no such
template.
"""


def fork_template() -> None:
    """Fork a template, i.e. a process from which workers are forked later, from this process.

    The next :class:`Template` uses the forked process. The forked process ends if this process ends. Call this function
    before this process imports a module of the user. Nothing is done if this process has several threads, or if an
    unused template already exists.
    """
    global _forked
    if _forked is not None or threading.active_count() > 1:
        return
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        process_id = os.fork()
    except OSError:  # the run starts a new process instead
        ours.close()
        theirs.close()
        return
    if process_id:
        theirs.close()
        _forked = process_id, ours
        return
    try:
        ours.close()
        _forget_exit_handlers()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        data, sockets, *_ = socket.recv_fds(theirs, 2**16, 1)
        while more := theirs.recv(2**16):
            data += more
        if data:  # else the command has ended without a run
            given = json.loads(data)
            _ignore_stop_signals()
            sys.path[:] = given.pop("path")
            serve_forks(socket_fd=sockets[0], **given)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def end_unused_template() -> None:
    """End the process that :func:`fork_template` forked as a template for workers, if no run has used the process."""
    global _forked
    if _forked is not None:
        (process_id, control), _forked = _forked, None
        control.close()
        _wait_for(process_id)


def _forget_exit_handlers() -> None:
    """Remove the parent's exit handlers, such as those that remove its temporary folders, from this process."""
    atexit._clear()
    weakref.finalize._registry.clear()  # pyright: ignore[reportAttributeAccessIssue]
    weakref.finalize._registered_with_atexit = False  # pyright: ignore[reportAttributeAccessIssue]


def _wait_for(process_id: int, end: signal.Signals | None = None) -> None:
    """Wait until the child process with the id ``process_id`` ends. If a signal ``end`` is given, first send it."""
    with suppress(ProcessLookupError, ChildProcessError):  # it has ended, or the system waits for it
        if end is not None:
            os.kill(process_id, end)
        os.waitpid(process_id, 0)


def _ignore_stop_signals() -> None:
    """Ignore SIGINT, SIGTERM and SIGHUP, which stop a command, because the parent process handles them.

    SIGTERM and SIGHUP get an empty handler instead of SIG_IGN. The reason is that the programs that a worker starts
    would inherit SIG_IGN, and would then ignore these two signals as well.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda *_: None)


class Template:
    """Controls the template of one run, i.e. the process from which the run's workers are forked.

    ``folder`` is a temporary folder that exists as long as the run needs workers. ``command`` is the shell command that
    starts a worker. The command ends with exit code 0 if the worker finishes its work.
    """

    def __init__(self, python: str, imports: str, work: str) -> None:
        """Prepare the start of a template, i.e. of the process from which workers are forked. Nothing is started here.

        ``python`` is the path of the Python interpreter. ``imports`` is the Python code that the template runs first,
        and ``work`` is the code that each worker runs.
        """
        place = tempfile.gettempdir()
        fits = place.isascii() and len(place) <= _MAX_TEMP_CHARS  # the path is also a part of Beam's UTF-8 command
        self.folder = tempfile.TemporaryDirectory(prefix="groundtrace-workers-", dir=place if fits else "/tmp")
        self._address = str(Path(self.folder.name) / "forks")
        self._given = {"folder": self.folder.name, "imports": imports, "work": work}
        self._python = python
        self.command = f"exec {shlex.join([python, '-I', '-S', '-c', _CLIENT, self._address])}"

    def failure(self) -> str:
        """Return the error that ended a worker, in one line; "" if no error is known, e.g. if a worker was killed."""
        try:
            return (Path(self.folder.name) / _FAILURE).read_text("utf-8")
        except OSError:
            return ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the template (the process from which workers are forked) during the body of the ``with`` statement."""
        with socket.socket(socket.AF_UNIX) as forks:  # workers can connect from now on, and fail if the template fails
            forks.bind(self._address)
            forks.listen(MAX_FORKS)
            end = self._begin(forks.fileno())
        try:
            yield
        finally:
            end()

    def _begin(self, socket_fd: int) -> Callable[[], object]:
        """Start the template, and return a function that ends it.

        The template forks a worker for each connection to the listening socket ``socket_fd``.
        """
        global _forked
        given = {"parent": os.getpid(), **self._given}
        if _forked is not None:
            (process_id, control), _forked = _forked, None
            try:
                with control:
                    socket.send_fds(control, [b" "], [socket_fd])
                    control.sendall(json.dumps({"path": sys.path, **given}).encode())
                return lambda: _wait_for(process_id, END)
            except OSError:  # it was killed
                _wait_for(process_id)
        code = _TEMPLATE.format(path=sys.path, module=__name__, socket_fd=socket_fd, given=given)
        template = subprocess.Popen([self._python, "-P", "-c", code], stdin=subprocess.DEVNULL, pass_fds=[socket_fd])
        return lambda: (template.send_signal(END), template.wait())


def serve_forks(socket_fd: int, parent: int, folder: str, imports: str, work: str) -> None:
    """Fork a worker for each client until the signal :data:`END` arrives; then wait until all workers have ended.

    A client is the process that Beam starts for a worker; it connects to the listening socket with the file descriptor
    ``socket_fd``. This process and its workers end immediately if the parent of this process (with the id ``parent``)
    ends, or if ``folder`` is removed. ``imports`` is Python code that runs once, before the first fork. ``work`` is the
    Python code that each worker runs.
    """
    signal.signal(END, lambda *_: sys.exit())
    exec(imports, {"__name__": "template"})
    with _Forks("", _Worker, bind_and_activate=False) as forks:
        forks.socket.close()
        forks.socket = socket.socket(fileno=socket_fd)
        forks.parent, forks.folder, forks.work = parent, Path(folder), work
        forks.serve_forever(CHECK_EVERY_S)


class _Forks(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks a worker process for each connection of a client, i.e. of the process that Beam starts for a worker.

    ``parent`` is the id of the run's main process. ``folder`` is the temporary folder for the run's workers. ``work``
    is the Python code that each worker runs.
    """

    parent: int
    folder: Path
    work: str
    max_children = MAX_FORKS

    def service_actions(self) -> None:
        """End this process if its run has ended; the server calls this method twice a second.

        ``folder`` is the temporary folder for the run's workers. The run has ended if its main process (the parent
        process) has ended, or if ``folder`` was removed. If the main process was killed, ``folder`` is still there.
        Then this method removes ``folder``.
        """
        super().service_actions()
        if os.getppid() != self.parent:
            shutil.rmtree(self.folder, ignore_errors=True)
        if not self.folder.is_dir():
            os._exit(1)


class _Worker(socketserver.StreamRequestHandler):
    """Does the work of one Beam worker for a client, in the process that :class:`_Forks` forked for this client.

    The client is a small program that Beam starts in place of the worker. The client sends its environment variables to
    the forked process, and ends when the forked process ends.
    """

    disable_nagle_algorithm = False  # a Unix socket has none, and other code may change the default of the base class

    server: _Forks

    def handle(self) -> None:
        """Set the environment variables that the client sent, do the work of the worker, and end this process."""
        os.environ.clear()
        os.environ.update(json.loads(self.rfile.read()))
        signal.signal(END, lambda *_: None)
        end_with(os.getppid(), self.server.folder)
        try:
            exec(self.server.work, {"__name__": "worker"})
        except BaseException as error:  # also sys.exit in a module of the user
            text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            written = self.server.folder / f"{_FAILURE}-{os.getpid()}"
            written.write_text(" ".join(printable(text).split()), "utf-8")
            written.replace(self.server.folder / _FAILURE)  # several workers fail at once, and the run reads this file
            os._exit(1)
        self.wfile.write(DONE)
        leave()


def leave() -> None:
    """Run the exit handlers of this process, and then end the process without freeing its objects.

    Freeing the objects would take a second for each worker, and Beam waits for one worker after another.
    """
    atexit._run_exitfuncs()
    os._exit(0)


def end_with(parent: int, folder: Path) -> None:
    """Start a thread that ends this worker process when its run ends.

    Twice a second, the thread checks whether the run has ended. The run has ended if the process with the id ``parent``
    has ended, or if ``folder`` was removed. If the user stops the run, its main process removes ``folder``, but first
    waits for the replies of models to this worker's last requests.
    """
    last = LastReplies(folder)

    def check() -> None:
        while os.getppid() == parent and folder.is_dir():
            last.check()
            time.sleep(CHECK_EVERY_S)
        os._exit(1)

    threading.Thread(target=check, name="end_with", daemon=True).start()
