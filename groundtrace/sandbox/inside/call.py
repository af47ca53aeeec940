"""Holds the state of a call (an execution of code) while it runs: its output, its answer, and the reason if it failed.

This module is used by the supervisor, which is the first process in the sandbox.
"""

import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from . import frames

_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 20
NOT_AN_ANSWER = "the process sent something other than an answer"
_MAX_COUNT = 1 << 31
ENDINGS = ("ok", "error", "memory")
"""The statuses that the answer of a process may have. Only the supervisor sets other statuses, such as ``timeout``."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets; the first one receives each message with the sender's process id.

    The kernel adds this id to the message, so the sender cannot forge it.
    """
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def receive_credited(control: socket.socket, size: int = _CHUNK) -> tuple[bytes, int]:
    """Return the next bytes of the socket, and the id of the process that sent them, as the kernel reports it.

    ``control`` is the socket. The bytes are b"" at the end of the stream. The id is 0 if the kernel reports no id.
    ``size`` is the maximum number of bytes to return.
    """
    data, ancillary, _, _ = control.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
    return data, 0


@dataclass
class RunningCall:
    """Holds what is known about a call (an execution of code) while it runs.

    Attributes:
        control: the socket from which the answer of the call's process is read.
        out: the file descriptor from which stdout is read.
        err: the file descriptor from which stderr is read.
        max_output: the maximum number of bytes that are kept of each of the two streams, stdout and stderr.
        max_answer: the maximum number of bytes of all images in the answer.
        max_images: the maximum number of images in the answer.
        pid: the id of the process that sent the last message; 0 before the first message.
        status: why the call has failed, such as ``timeout``; "" as long as it has not failed.
        error: a text that explains the failure; "" as long as it has not failed.
        answered: whether a complete, valid answer has arrived.
        is_closed: whether the process closed the socket.
        header: the answer without its images.
        pixels: the pixels of each image of the answer.

    Two more attributes are dicts whose keys are the file descriptors ``out`` and ``err``. ``streams`` holds the output
    that was read, and ``dropped`` the number of bytes beyond ``max_output``.
    """

    control: socket.socket
    out: int
    err: int
    max_output: int
    max_answer: int
    max_images: int
    pid: int = 0
    status: str = ""
    error: str = ""
    answered: bool = False
    is_closed: bool = False
    header: dict[str, Any] = field(default_factory=dict)
    pixels: list[bytes] = field(default_factory=list)
    _answer: bytearray = field(default_factory=bytearray)
    _needed: int = 0

    def __post_init__(self) -> None:
        self.streams, self.dropped = {self.out: bytearray(), self.err: bytearray()}, {self.out: 0, self.err: 0}
        self.control.setblocking(False)
        for fd in self.streams:
            os.set_blocking(fd, False)

    def end(self, status: str, error: str) -> None:
        """Record that the call (an execution of code) has failed.

        ``status`` is a word for the reason, such as ``timeout``, and ``error`` is a text that explains it.
        """
        self.status, self.error = status, error

    @property
    def is_over(self) -> bool:
        """Return whether the call (an execution of code) has ended: it has sent its answer, or it has failed."""
        return self.answered or bool(self.status)

    def read_stream(self, fd: int) -> bool:
        """Read more output from the file descriptor ``fd``, which is ``out`` or ``err``.

        Returns True if output was read, and False if none is available now or the output has ended.
        """
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        kept = data[: max(0, self.max_output - len(self.streams[fd]))]
        self.streams[fd] += kept
        self.dropped[fd] += len(data) - len(kept)
        return bool(data)

    def read_answer(self) -> None:
        """Read the bytes that have arrived from the process that executes the code.

        The first byte reports that the process has started; the later bytes are its answer. Sets ``is_closed`` if the
        process has closed the socket.
        """
        try:
            data, pid = receive_credited(self.control, _CHUNK if self.pid else 1)
        except BlockingIOError:
            return
        except OSError:
            data, pid = b"", 0
        if not data:
            self.is_closed = True
        elif not self.pid:
            self.pid = pid
        else:
            self.pid = pid
            self._answer += data
            self._take_answer()

    def _take_answer(self) -> None:
        """Parse the bytes that have been received, and store the answer if these bytes hold the complete answer.

        The bytes may arrive one by one. If the answer is incomplete, ``_needed`` becomes the number of bytes up to the
        end of its next part. The method does nothing until this number of bytes has arrived. If the bytes are not an
        answer, the call (the execution of code) fails with the status ``killed``.
        """
        if len(self._answer) < self._needed:
            return
        at = 0

        def exactly(size: int) -> bytes:
            nonlocal at
            at += size
            if at > len(self._answer):
                self._needed = at
                raise EOFError
            return bytes(self._answer[at - size : at])

        try:
            header, self.pixels = frames.read(exactly, self.max_answer, self.max_images)
        except EOFError:
            return
        except frames.BadFrame as error:
            self.end("killed", f"{NOT_AN_ANSWER}: {error}")
            return
        if not _is_answer(header, self.pixels, self.max_answer // (3 * self.max_images)):
            self.end("killed", NOT_AN_ANSWER)
            return
        self.answered, self.header = True, {name: header[name] for name in ("status", "error", "sizes", "left_out")}


def _is_answer(header: dict[str, Any], pixels: list[bytes], max_pixels: int) -> bool:
    """Return whether ``header`` and ``pixels`` have the form of an answer of the process that executes code.

    The check is needed because model-written code may have sent other data instead of an answer. ``pixels`` holds the
    RGB pixels of each image, and ``max_pixels`` is the maximum number of pixels of one image.
    """
    sizes, left_out, error = header.get("sizes"), header.get("left_out"), header.get("error")
    if not isinstance(sizes, list) or len(sizes) != len(pixels):
        return False
    if type(left_out) is not int or not 0 <= left_out <= _MAX_COUNT:
        return False
    if header.get("status") not in ENDINGS or not isinstance(error, str) or len(error) > frames.MAX_ERROR_CHARS:
        return False
    if header["status"] == "ok" and error:
        return False
    return all(_is_image(size, part, max_pixels) for size, part in zip(sizes, pixels, strict=True))


def _is_image(size: Any, part: bytes, max_pixels: int) -> bool:
    if not isinstance(size, list) or [type(side) for side in size] != [int, int] or min(size) < 1:
        return False
    return size[0] * size[1] <= max_pixels and len(part) == 3 * size[0] * size[1]
