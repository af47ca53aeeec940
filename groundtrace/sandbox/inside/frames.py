"""The messages between host, supervisor and holder: the length of a JSON header, the header, and binary parts.

The header lists the lengths of the parts. Neither end trusts the other: a reader limits the size of what it accepts,
and raises BadFrame for anything else.
"""

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAX_HEADER = 1 << 20
"""Bytes of a header: texts in it are capped far below."""
MAX_ERROR_CHARS = 4000
"""Of the text of an error in a header."""
_LENGTH = struct.Struct("!I")


class BadFrame(Exception):
    """The other end sent bytes that are not a message, or a message that is too large."""


def pack(header: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """Returns the message as bytes."""
    text = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def read(receive: Callable[[int], bytes], max_bytes: int) -> tuple[dict[str, Any], list[bytes]]:
    """Returns the header and the parts of a stream's next message.

    ``receive(n)`` must return exactly n bytes, and raise EOFError at the end of the stream. Raises BadFrame for a
    header that is not JSON of the known form, or is too large, and for parts of more than ``max_bytes`` together.
    """
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    header = parse_header(receive(_within(length, MAX_HEADER)))
    sizes = header.pop("parts")
    _within(sum(sizes), max_bytes)
    return header, [receive(size) for size in sizes]


def parse_header(text: bytes) -> dict[str, Any]:
    """Returns the parsed header; its ``parts`` is a list of lengths. Raises BadFrame if it is not valid."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is not JSON: {error}") from None
    sizes = header.get("parts") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise BadFrame("the header has no list of parts")
    return header


def _within(size: int, most: int) -> int:
    if size > most:
        raise BadFrame(f"a message of {size} bytes, of {most} allowed")
    return size
