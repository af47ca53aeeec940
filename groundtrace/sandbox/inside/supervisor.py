"""Implements the supervisor: the first process in the sandbox of a trajectory (a series of executions of code).

The supervisor enforces limits, and decides which process is the holder (the process that holds the trajectory's state).
It does not run model-written code, and does not trust the processes that run such code. So it learns the sender of each
message from the kernel. At the end of a call (an execution of code), the supervisor kills all processes of the
trajectory except the holder. Between calls the holder is stopped (SIGSTOP), so that nothing continues to run after a
call.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from . import folder, frames, holder, processes
from .call import RunningCall, pair
from .holder_process import Holder, TooMuchMemory, TrajectoryLost, answer_of

FOLDER = holder.FOLDER.encode()
_WATCH_S = 0.03
"""The interval, in seconds, at which the supervisor measures the memory and the files of a call while its code runs."""
_PART_S = 3.0
"""The time in seconds within which the process that executed a call must fork.

The fork keeps the variables of the code. There is a limit because model-written code may have made forking impossible.
"""
_FORKING = 3
"""The factor by which the memory limit is raised while a process forks twice. Up to three processes then share their
memory, and the shared memory is counted in full for each of them.
"""
_CLOSED_S = 0.2
_END_S = 5.0
"""The time in seconds within which the processes of a trajectory must end after they are killed.

The holder, which is the process with the code's variables, is not killed. Code that forks starts many processes, and
processes with much memory end slowly.
"""


class Supervisor:
    """Supervises one trajectory: starts the processes that run its code, and enforces the given limits.

    A trajectory is a series of executions of code that share their state. ``limits`` holds the limits by name, such as
    ``memory_mb`` (:attr:`groundtrace.sandbox.settings.SandboxSettings.limits`).
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self.limits = limits
        self.copy: folder.Copy = ()
        self.ended: dict[int, int] = {}

    def start(self, program: bytes, readable: list[str]) -> int:
        """Start the first holder, which is the process that holds the trajectory's state.

        A trajectory is a series of executions of code that share their state. Returns the version of the interface of
        Landlock (a Linux security module) that restricts the holder; 0 without Landlock. ``program`` is the seccomp
        filter as BPF instructions, and ``readable`` are the paths that the code may read.
        """
        ours, theirs = pair()
        pid = os.fork()
        if not pid:
            ours.close()
            self._hold(theirs, program, readable)
        theirs.close()
        self.holder, self.group = Holder(pid, ours), pid  # a group that no process can leave
        header, _ = answer_of(ours)
        self.holder.stop()
        return int(header["landlock"])

    def _hold(self, control: socket.socket, program: bytes, readable: list[str]) -> NoReturn:
        """Turn this forked process into the first holder; the method never returns.

        A holder is the process that holds the state of executed code, such as its variables. ``control`` is the socket
        between the holder and the supervisor. ``program`` is the seccomp filter, and ``readable`` are the paths that
        the code may read.
        """
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        os.setsid()
        try:
            processes.limit(self.limits)
            holder.start(control, self.limits, program, readable)
        except BaseException as error:
            with contextlib.suppress(BaseException):  # a fork of it that runs code has closed this socket
                control.sendall(frames.pack({"lost": f"{type(error).__name__}: {error}"[:500]}))
        finally:
            os._exit(1)

    def open(self, images: list[bytes]) -> None:
        """Give the code its images: write them to the folder of the code, and make the holder open them as variables.

        The holder is the process that holds the variables of the code. The variables are ``input_image``,
        ``input_image_2``, …. ``images`` are the bytes of the image files. Raises TrajectoryLost if the holder cannot
        open them.
        """
        names = [f"input_image{'' if number == 1 else f'_{number}'}.jpg" for number in range(1, len(images) + 1)]
        for name, image in zip(names, images, strict=True):
            with open(os.path.join(FOLDER, name.encode()), "xb") as file:
                file.write(image)
        self.holder.resume()
        self.holder.send({"do": "images", "names": names}, [])
        answer_of(self.holder.control)
        self.holder.stop()
        self.copy = folder.copied(FOLDER, self.limits["folder_mb"] << 20)

    def run(self, code: str, timeout_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """Run the code of a call (one execution), and return the header and the binary parts of the answer.

        The parts are stdout, stderr, and the pixels of each image. If the call fails, the next call begins with the
        state before the failed call: the previous holder (the process with the variables) is used again, and the
        content of the code's folder is restored.

        ``timeout_s`` is the time limit of the call. Raises TrajectoryLost if no further code can be run with this
        state.
        """
        started = time.monotonic()
        call = self._forked({"do": "run", "code": code})
        try:
            self._wait(call, started + timeout_s)
            survivor = Holder(call.pid, call.control) if call.answered else None
            if survivor:
                survivor.stop()
            children = self._end_all_but(self.holder, survivor)
            for fd in call.streams:
                while call.read_stream(fd):
                    pass
            header = call.header or {"status": call.status, "error": call.error, "sizes": [], "left_out": 0}
            header["ended"] = [0, max(0, children - (0 if survivor else 1))]
            if survivor and header["status"] == "ok":
                self._keep(survivor, header)
            if header["status"] != "ok":
                self._end_all_but(self.holder)
                folder.restore(FOLDER, self.copy)
                header["sizes"], call.pixels = [], []
        finally:
            for fd in call.streams:
                os.close(fd)
            if self.holder.control is not call.control:
                call.control.close()
        header |= {"duration_s": time.monotonic() - started, "dropped": list(call.dropped.values())}
        return header, [*map(bytes, call.streams.values()), *call.pixels]

    def settle(self) -> None:
        """Wait until the previous holder has ended.

        The holder is the process with the variables of the code. A successful execution replaces the holder by a new
        one. The previous holder is killed, and needs some milliseconds to release its memory; meanwhile the host reads
        the answer. Raises TrajectoryLost if the previous holder does not end.
        """
        self._end_all_but(self.holder)

    def _forked(self, request: dict[str, Any]) -> RunningCall:
        """Send the request to the holder, which then forks a process that runs the request; return the running call.

        The holder is the process with the variables of the code, and a call is one execution of code.
        """
        self.ended.clear()  # the kernel reuses process ids
        ours, theirs = pair()
        (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()
        try:
            self.holder.resume()
            self.holder.send(request, [theirs.fileno(), out_w, err_w], self._watch_memory)
        finally:
            theirs.close()
            os.close(out_w)
            os.close(err_w)
        limits = self.limits
        return RunningCall(
            ours, out_r, err_r, limits["max_output_bytes"], limits["max_answer_bytes"], limits["max_images"]
        )

    def _wait(self, call: RunningCall, deadline: float) -> None:
        """Read the output and the answer of a running call (an execution of code) until it has answered or failed.

        The call fails if its process ends or closes its socket before the answer has arrived. The call also fails if it
        exceeds the limit on time, memory or files. ``deadline`` is the end of its time, as a value of
        ``time.monotonic``.
        """
        poll = select.poll()
        for fd in (0, call.control.fileno(), *call.streams):
            poll.register(fd, select.POLLIN)
        watch = time.monotonic() + _WATCH_S
        while not call.is_over:
            for fd, event in poll.poll(1000 * _WATCH_S):
                if fd == 0:
                    sys.exit(0)  # the host has ended: it sends a request only after the previous answer
                elif fd == call.control.fileno():
                    was_started = call.pid
                    call.read_answer()
                    if call.pid == self.holder.pid:
                        raise TrajectoryLost(
                            "the code ran in the process that keeps the variables of all calls, and not in a "
                            "copy of this process, so the variables are lost"
                        )
                    if not was_started and call.pid:
                        self.holder.stop()
                    if call.is_closed:
                        call.end("killed", self._how_it_ended(call.pid))
                elif not call.read_stream(fd) and event & select.POLLHUP:
                    poll.unregister(fd)
            now = time.monotonic()
            if not call.is_over and now >= deadline:
                call.end("timeout", "the call took longer than it may")
            elif not call.is_over and now >= watch:
                watch = now + _WATCH_S
                self._watch(call)

    def _watch(self, call: RunningCall) -> None:
        """Mark the call (an execution of code) as failed if its process has ended, or if it exceeds a limit.

        There are two limits: on the memory of all processes of the call together, and on the number of files.
        """
        self._reap()
        if call.pid in self.ended:
            call.end("killed", self._how_it_ended(call.pid))
            return
        try:
            self._watch_memory(self.holder.pid if call.pid else 0, 1 if call.pid else _FORKING)
        except TooMuchMemory as error:
            call.end("memory", str(error))
        found = os.statvfs(FOLDER)
        if found.f_files - found.f_ffree > 4 * folder.MAX_ENTRIES:
            call.end("memory", "the call writes more files than it may")

    def _watch_memory(self, without: int = 0, times: int = _FORKING) -> None:
        """Raise TooMuchMemory if the processes together use more than ``times`` times the memory that code may use.

        ``times`` is above 1 while a process forks: the processes then share memory, and the shared memory is counted
        for each of them (:data:`_FORKING`). The process with the id ``without`` is not counted; 0 means that all
        processes are counted.
        """
        held = sum(map(processes.memory_kib, processes.others() - {without})) + processes.sockets_kib()
        if held > times * self.limits["memory_mb"] * 1024:
            raise TooMuchMemory("the call needs more memory than it may use")

    def _how_it_ended(self, pid: int) -> str:
        """Return a message for a failed call: how the process that executes the code ended.

        ``pid`` is the id of this process. If the process does not end within ``_CLOSED_S`` seconds, the message states
        that the process closed its connection to this supervisor.
        """
        deadline = time.monotonic() + _CLOSED_S
        while pid not in self.ended and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.001)
        if pid not in self.ended:
            return "the process closed its connection before the code ended"
        ending = self.ended[pid]
        how = f"signal {os.WTERMSIG(ending)}" if os.WIFSIGNALED(ending) else f"exit code {os.WEXITSTATUS(ending)}"
        return f"the process ended before the code did: {how}"

    def _keep(self, survivor: Holder, header: dict[str, Any]) -> None:
        """Replace the holder by a fork of the process that executed code, so that the changes of this call are kept.

        A holder is the process that holds the state, such as the variables of the code. A call is one execution of
        code. The fork has only one thread, so that no thread of the code continues. ``survivor`` is the process that
        executed the code. ``header`` holds the call's result. If no fork can be made, or the folder of the code cannot
        be kept, the call fails: its status and its error are written into ``header``.
        """
        try:
            threads = processes.threads_of(survivor.pid) - 1
            fresh = self._parted(survivor)
            fresh.stop()
            self._end_all_but(self.holder, fresh)
            copy = folder.copied(FOLDER, self.limits["folder_mb"] << 20)
        except TrajectoryLost as error:
            status = "memory" if isinstance(error, TooMuchMemory) else "killed"
            header |= {"status": status, "error": str(error)}
        except (folder.FolderError, OSError) as error:
            header |= {"status": "error", "error": f"the folder cannot be kept: {error}"}
        else:
            before, self.holder, self.copy = self.holder, fresh, copy
            before.kill()
            before.control.close()
            header["ended"] = [max(0, threads), header["ended"][1]]

    def _parted(self, running: Holder) -> Holder:
        """Ask ``running``, the process that executed code, to fork, and return the fork.

        A fork has only the thread that forked, so other threads that the executed code started do not continue in it.
        Raises TrajectoryLost if the process does not fork.
        """
        ours, theirs = pair()
        try:
            running.resume()
            running.send({"do": "part"}, [theirs.fileno()], self._watch_memory)
        finally:
            theirs.close()
        _, pid = answer_of(ours, _PART_S, self._watch_memory)
        running.control.close()
        if pid == running.pid:
            raise TrajectoryLost(
                "the variables of the call cannot be kept, because its process did not make a copy of itself (fork)"
            )
        return Holder(pid, ours)

    def _end_all_but(self, *kept: Holder | None) -> int:
        """Kill all processes that run code except the holders ``kept``, and return how many were killed.

        A holder is a process that holds the state, such as the variables of the code. A child of the current holder is
        killed, but not counted. The reason is that the code did not start it: a holder forks a child, and this child
        forks the process that runs the code. Raises TrajectoryLost if the processes do not end.
        """
        found: set[int] = set()
        # All processes, also the holder, are stopped at once. Otherwise one could fork and end before its turn.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGSTOP)
        deadline, attempt = time.monotonic() + _END_S, 0
        while time.monotonic() < deadline:
            attempt += 1
            self._reap()
            running = processes.running(processes.others() - {each.pid for each in kept if each})
            if not running:
                return len(found)
            # The process between a holder and its fork is the holder's child; the code did not start it.
            found |= {pid for pid, parent in running.items() if parent != self.holder.pid}
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0 if attempt < 10 else 0.005)
        raise TrajectoryLost("the processes of the call were killed, but did not end in time")

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, ending = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self.ended[pid] = ending
