"""A call that runs, as the supervisor sees it: what its process printed and answered, and why it was ended."""

import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from . import frames

_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 20
NOT_AN_ANSWER = "the process sent what is no answer"
_MAX_COUNT = 1 << 31
ENDINGS = ("ok", "error", "memory")
"""What a process may answer on its end; all else is the supervisor's to find."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets; the first receives the credentials of those who send."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def receive_credited(control: socket.socket, size: int = _CHUNK) -> tuple[bytes, int]:
    """The next bytes, empty at the end, and the process that sent them, as the kernel reports it."""
    data, ancillary, _, _ = control.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
    return data, 0


@dataclass
class Call:
    """``streams`` holds what was printed, by the file descriptors that stdout and stderr are read from; ``dropped`` the
    bytes of each beyond ``max_output``. ``pid`` is the process that sent last, 0 before the first byte.
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

    def __post_init__(self) -> None:
        self.streams, self.dropped = {self.out: bytearray(), self.err: bytearray()}, {self.out: 0, self.err: 0}
        self.control.setblocking(False)
        for fd in self.streams:
            os.set_blocking(fd, False)

    def end(self, status: str, error: str) -> None:
        """Note why the call has not ended well."""
        self.status, self.error = status, error

    @property
    def is_over(self) -> bool:
        """Whether it has answered or has to be ended."""
        return self.answered or bool(self.status)

    def read_stream(self, fd: int) -> bool:
        """Take what was printed; returns False where nothing more is there now, or ever."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        kept = data[: max(0, self.max_output - len(self.streams[fd]))]
        self.streams[fd] += kept
        self.dropped[fd] += len(data) - len(kept)
        return bool(data)

    def read_answer(self) -> None:
        """Take what the process sent: a byte as it starts, and its answer. ``is_closed`` is set if it ends before."""
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
        at = 0

        def exactly(size: int) -> bytes:
            nonlocal at
            at += size
            if at > len(self._answer):
                raise EOFError
            return bytes(self._answer[at - size : at])

        try:
            header, self.pixels = frames.read(exactly, self.max_answer)
        except EOFError:
            return
        except frames.BadFrame as error:
            self.end("killed", f"{NOT_AN_ANSWER}: {error}")
            return
        if len(self.pixels) > self.max_images or not _is_answer(header, self.pixels):
            self.end("killed", NOT_AN_ANSWER)
            return
        self.answered, self.header = True, {name: header[name] for name in ("status", "error", "sizes", "left_out")}


def _is_answer(header: dict[str, Any], pixels: list[bytes]) -> bool:
    """Whether it is what :mod:`inside.holder` answers: model-written code may have sent anything else in its place."""
    sizes, left_out, error = header.get("sizes"), header.get("left_out"), header.get("error")
    if not isinstance(sizes, list) or len(sizes) != len(pixels):
        return False
    if type(left_out) is not int or not 0 <= left_out <= _MAX_COUNT:
        return False
    if header.get("status") not in ENDINGS or not isinstance(error, str) or len(error) > frames.MAX_ERROR_CHARS:
        return False
    areas = [size[0] * size[1] for size in sizes if isinstance(size, list) and [type(n) for n in size] == [int, int]]
    return areas == [len(part) // 3 for part in pixels] and all(len(part) % 3 == 0 and part for part in pixels)
