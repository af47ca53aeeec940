"""Implements the holder: the process that holds the state of a trajectory, which is a series of executions of code.

The state is the variables that the code has created. A call is one execution of code. A holder waits for requests of
the supervisor, the first process in the sandbox. For a request to run code, the holder forks, and the fork runs the
code. If the call succeeds, a fork of the process that ran the code becomes the next holder. So a call that fails, is
killed or times out does not change the state. Model-written code may change anything in the process that runs it.
Therefore another process, the supervisor, enforces limits and timeouts. The supervisor also decides which process
becomes the next holder.
"""

import array
import ast
import builtins
import contextlib
import fcntl
import io
import linecache
import os
import signal
import socket
import stat
import sys
import time
import types
from os import _exit  # model-written code may replace it in os
from typing import Any, NoReturn

from . import figures, frames, kernel, outcome
from .processes import MAX_OPEN_FILES

FOLDER = "/tmp"
"""The folder where the code of a trajectory (a series of executions of code) reads and writes files.

It is a tmpfs, so its files are in RAM and not on a disk.
"""
MAX_FDS = 3
"""The maximum number of file descriptors in a message from the supervisor (the first process in the sandbox).

A request to run code has three: a pipe for stdout, a pipe for stderr, and a socket. The holder forks for the request,
and the new process then uses this socket to exchange messages with the supervisor.
"""
_THREADS_END_S = 0.05


class _State:
    """Holds the state of a series of executions of code (a trajectory), except the variables of the code.

    A call is one execution of code. ``module`` is the module in which the code runs. ``folder`` is the current
    directory in which the next call starts. ``calls`` is the number of successful calls, plus 1 while a call runs.
    ``drawn`` maps the number of each open figure of matplotlib to the pixels that the figure had when it was last
    shown. ``shown`` holds the images of the running call; it is None between calls.
    """

    module: types.ModuleType
    folder = FOLDER
    calls = 0
    drawn: dict[int, bytes]
    shown: figures.Shown | None = None


state = _State()


def receive(control: socket.socket, max_bytes: int) -> tuple[dict[str, Any], list[bytes], list[int]]:
    """Wait for the next message on a socket, and return its header, its binary parts, and its file descriptors.

    ``max_bytes`` is the maximum size of all binary parts together. Raises EOFError if the other end has closed the
    socket, and BadFrame for a message that is not valid.
    """
    fds = array.array("i")

    def exactly(size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            data, ancillary, _, _ = control.recvmsg(min(size - len(found), 1 << 20), socket.CMSG_SPACE(MAX_FDS * 4))
            if not data:
                raise EOFError
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(content[: len(content) - len(content) % 4])
            found += data
        return bytes(found)

    header, parts = frames.read(exactly, max_bytes)
    return header, parts, list(fds)


def serve(control: socket.socket, limits: dict[str, Any]) -> NoReturn:
    """Answer the supervisor's requests until the supervisor ends; the function never returns.

    The supervisor is the first process in the sandbox. The process that calls this function holds the variables of the
    code that was executed before. For the request "images", this process opens the images itself. For each other
    request, it forks a new process. The new process does the work, such as executing code. Then the new process holds
    the changed variables, and answers further requests on its own socket to the supervisor.

    ``control`` is the socket to the supervisor. ``limits`` holds the limits by name, such as ``memory_mb``
    (:attr:`groundtrace.sandbox.settings.SandboxSettings.limits`).
    """
    positions: dict[int, tuple[int, int]] = {}
    while True:
        try:
            header, _, fds = receive(control, frames.MAX_HEADER * 64)
        except (EOFError, OSError):
            _exit(0)
        if header["do"] == "images":
            _open_images(header["names"], limits)
            control.sendall(frames.pack({"done": True}))
            continue
        if header["do"] == "run":
            _seek(positions)
        if not _is_fork():
            for fd in fds:
                os.close(fd)
            continue
        control.close()
        control = socket.socket(fileno=fds[0])
        if header["do"] == "run":
            os.dup2(fds[1], 1)
            os.dup2(fds[2], 2)
            os.close(fds[1])
            os.close(fds[2])
            control.sendall(b".")
            control.sendall(_run(header["code"], limits))
        else:
            positions = _positions()
            control.sendall(frames.pack({"done": True}))


def _positions() -> dict[int, tuple[int, int]]:
    """Return the position and the flags of each open regular file, by file descriptor.

    A process that this process forks shares the open files. Code in the new process can change their positions and
    flags, and this process then has the changed values, too. So the values are restored before each call (execution of
    code).
    """
    found = {}
    for fd in range(MAX_OPEN_FILES):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                found[fd] = os.lseek(fd, 0, os.SEEK_CUR), fcntl.fcntl(fd, fcntl.F_GETFL)
    return found


def _seek(positions: dict[int, tuple[int, int]]) -> None:
    for fd, (position, flags) in positions.items():
        with contextlib.suppress(OSError):
            os.lseek(fd, position, os.SEEK_SET)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _is_fork() -> bool:
    """Fork this process, and return True in the new process and False in this one.

    The process forks twice, so that the supervisor becomes the parent of the new process.

    Python gives the module ``random`` a new seed in a fork. The new process sets ``random`` back to its state before
    the fork. So if the code of an earlier call has set a seed, the next random numbers still depend on it.
    """
    random = sys.modules.get("random")
    numbers = random.getstate() if random else None
    middle = os.fork()
    if middle:
        with contextlib.suppress(ChildProcessError):  # the code may ignore SIGCHLD
            os.waitpid(middle, 0)
        return False
    if os.fork():
        _exit(0)
    if random:
        random.setstate(numbers)
    return True


def _open_images(names: list[str], limits: dict[str, Any]) -> None:
    """Open the question's images for the code: set the variables ``input_image``, ``input_image_2``, … to these images.

    ``names`` are the names of the image files in :data:`FOLDER`. The name of a variable is the name of its file without
    the ending. ``limits`` holds the maximum number of pixels of an image.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = limits["max_input_pixels"]
    for name in names:
        with Image.open(os.path.join(FOLDER, name)) as image:
            vars(state.module)[name.partition(".")[0]] = image.convert("RGB")


def prepare() -> None:
    """Prepare this process for model-written code, before the first code runs.

    This creates the module ``__main__`` in which the code runs, seeds the random generators, and sets up functions that
    show images in the sandbox, such as ``display`` and ``Image.show``.
    """
    import random

    import numpy as np
    from PIL import Image

    random.seed(0)
    np.random.seed(0)
    state.module, state.drawn = types.ModuleType("__main__"), {}
    sys.modules["__main__"] = state.module
    Image.Image.show = lambda self, *_, **__: _show(self)  # type: ignore[method-assign]
    sys.meta_path.insert(0, figures.ShowInsteadOfWindows(_show))
    builtins.display = _display  # type: ignore[attr-defined]
    builtins.exit = builtins.quit = sys.exit


def _show(shown: Any) -> bool:
    return state.shown is not None and state.shown.add(shown)


def _display(*things: Any) -> None:
    """Show each of ``things`` that is an image, and print all others; the code calls this function as ``display``."""
    for thing in things:
        if not _show(thing):
            print(thing)


def show_open_figures() -> None:
    """Add pyplot's open figures to the images that the running code shows, and close the figures.

    ``plt.show()`` in the sandbox does the same. While no code runs, this function does nothing.
    """
    if state.shown is not None:
        figures.show_figures(state.shown)


def _run(code: str, limits: dict[str, Any]) -> bytes:
    """Run the code of a call (one execution), and return the answer to the supervisor as bytes.

    The answer holds the status, the error and the images. The supervisor is the first process in the sandbox.
    """
    state.calls += 1
    state.shown = shown = figures.Shown(limits["max_images"], limits["max_image_pixels"])
    with contextlib.suppress(OSError):
        os.chdir(state.folder)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    before = figures.files_at(FOLDER)
    _open_streams()
    status, error = outcome.ended(lambda: _execute(code, f"<call {state.calls}>", shown))
    if status == "ok":
        status, error = outcome.ended(lambda: _show_rest(shown, before))
    _await_threads()
    with contextlib.suppress(Exception):  # the code may have closed them
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):  # its folder may be gone
        state.folder = os.getcwd()
    _quiet()
    sizes = [[height, width] for height, width, _ in shown.images]
    header = {"status": status, "error": error, "sizes": sizes, "left_out": shown.left_out}
    return frames.pack(header, [pixels for _, _, pixels in shown.images])


def _await_threads() -> None:
    """Wait until the other threads end, but at most ``_THREADS_END_S`` seconds, after the code has run.

    Without this wait, a thread that is about to end would be counted as a thread that still runs. An example is the
    thread of a timer that was cancelled.
    """
    threading = sys.modules.get("threading")
    deadline = time.monotonic() + _THREADS_END_S
    if threading is None:
        return
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with contextlib.suppress(Exception):
                thread.join(max(0.0, deadline - time.monotonic()))


def _quiet() -> None:
    """Block all signals and clear all timers of this process, after it has run model-written code.

    This process or its fork becomes the holder: the process that keeps the variables of the code for the next call.
    Signal handlers and timers that the code has set must not run in the holder.
    """
    state.shown = None
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)


def _open_streams() -> None:
    """Open new standard streams for an execution of code, since earlier code may have closed or replaced them."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", write_through=False)
        setattr(sys, name, stream)
    sys.stdin = io.TextIOWrapper(io.BytesIO(), "utf-8")


def _execute(code: str, name: str, shown: figures.Shown) -> None:
    """Run the code of one call (one execution) in the Python module that earlier and later calls use, too.

    ``name`` is the file name of the code in tracebacks. ``shown`` collects the images of the call. If the value of the
    code's last line is an image, this image is added to ``shown``.
    """
    linecache.cache[name] = (len(code), None, f"{code}\n".splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    scope = vars(state.module)
    exec(compile(tree, name, "exec"), scope)
    if isinstance(last, ast.Expr):
        shown.add(eval(compile(ast.Expression(last.value), name, "eval"), scope))


def _show_rest(shown: figures.Shown, before: dict[str, tuple[int, int, int]]) -> None:
    """Add images to ``shown`` at the end of a call (an execution of code): open figures and written image files.

    ``shown`` already has the images that the code has shown by its own calls, such as ``plt.show()``. An open figure is
    added if it is new or has changed since the previous successful call. An image file is added if the call has written
    it. ``before`` maps the path of each image file to its state before the call.
    """
    for figure in figures.open_figures():
        number, count = figure.number, len(shown.images)
        shown.add(figure)
        drawn = shown.images[-1][2] if len(shown.images) > count else b""
        if drawn and state.drawn.get(number) == drawn:
            shown.images.pop()
        state.drawn[number] = drawn or state.drawn.get(number, b"")
    figures.add_saved(shown, before, FOLDER)


def start(control: socket.socket, limits: dict[str, Any], program: bytes, readable: list[str]) -> NoReturn:
    """Turn this process into the first holder, which is the process that holds the trajectory's state; never returns.

    A trajectory is a series of executions of code that share their state. The process loads the packages that each
    trajectory needs, drops all rights, and answers requests.

    Args:
        control: the socket to the supervisor, which is the first process in the sandbox.
        limits: the limits by name, such as ``memory_mb`` (:attr:`groundtrace.sandbox.settings.SandboxSettings.limits`).
        program: the seccomp filter as BPF instructions.
        readable: the paths that the code may read.
    """
    prepare()
    kernel.hide_memory(False)
    with open("/proc/self/oom_score_adj", "w") as file:  # if memory runs out, the kernel kills this process first
        file.write("1000")
    kernel.hide_memory()
    version = kernel.restrict_files(readable, [FOLDER, "/dev/null"])
    kernel.set_filter(program)
    control.sendall(frames.pack({"landlock": version}))
    serve(control, limits)
