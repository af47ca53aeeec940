"""Packs and reads the messages between the three processes that run a trajectory (a series of executions of code).

The processes are the host (which opened the sandbox), the supervisor (the first process in the sandbox) and the holder
(which holds the trajectory's state). A message has three parts: the length of a JSON header, the header, and binary
parts. The header lists the lengths of the binary parts. No process trusts the messages of another process: a reader
raises BadFrame if a message has another form or is too large.
"""

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAX_HEADER = 1 << 20
"""The maximum size of a header in bytes. The texts in a header have much lower limits of their own."""
MAX_ERROR_CHARS = 4000
"""The maximum length of an error's text in a header."""
MAX_PARTS = 4096
_MAX_PART = 1 << 40
"""The maximum size of a part in bytes, which is far more than any reader accepts.

The sizes of the parts are added, and the error about a message that is too large states their sum. Without this
maximum, the sum may have more digits than Python prints.
"""
_LENGTH = struct.Struct("!I")


class BadFrame(Exception):
    """Raised if the bytes that another process sent are not a message, or are a message that is too large."""


def pack(header: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of a message with this header (a JSON object) and these binary parts."""
    sized = {**header, "parts": [len(part) for part in parts]}
    text = json.dumps(sized, ensure_ascii=False).encode("utf-8", "surrogatepass")  # UTF-8 needs a third of \\u's bytes
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def read(
    receive: Callable[[int], bytes], max_bytes: int, max_parts: int = MAX_PARTS
) -> tuple[dict[str, Any], list[bytes]]:
    """Read the next message of a stream, and return its header and its binary parts.

    Args:
        receive: a function that takes a number n, and returns exactly the next n bytes of the stream. It raises
            EOFError at the end of the stream.
        max_bytes: the maximum size of all binary parts together.
        max_parts: the maximum number of binary parts.

    Raises:
        BadFrame: if the header is too large or is not valid, or if the binary parts are too many or too large.
    """
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    header = parse_header(receive(_within(length, MAX_HEADER)))
    sizes = header.pop("parts")
    if len(sizes) > max_parts:
        raise BadFrame(f"the message has {len(sizes)} parts, but at most {max_parts} are allowed")
    _within(sum(sizes), max_bytes)
    return header, [receive(size) for size in sizes]


def parse_header(text: bytes) -> dict[str, Any]:
    """Return the header of a message, parsed from JSON; its field ``parts`` lists the lengths of the binary parts.

    Raises BadFrame if the header is not JSON, or if it has no valid field ``parts``.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is not JSON: {error}") from None
    sizes = header.get("parts") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _MAX_PART for size in sizes):
        raise BadFrame("the header of the message has no valid list of the lengths of its parts")
    return header


def _within(size: int, most: int) -> int:
    if size > most:
        raise BadFrame(f"the message has {size} bytes, but at most {most} are allowed")
    return size
