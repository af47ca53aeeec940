r"""Reads JSON Lines: files with one JSON object on each line.

Lines end with LF or CRLF. A byte order mark at the start of the file is dropped. Lines that hold only blanks (space,
tab, line ends) are skipped but counted. A byte that is not UTF-8 becomes the JSON escape of a lone surrogate (half of a
character), from ``\udc80`` to ``\udcff``. So the line can still be parsed. Later, the validation of the record rejects
the text with this escape.

A file may come from a stranger, who can put gigabytes into one line. So a line of more than :data:`MAX_LINE_BYTES`
bytes is an error.
"""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import MAX_BRACKETS, MAX_TEXT_BYTES
from groundtrace.schemas.text import storable

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANKS = " \t\r\n"
MAX_LINE_BYTES = MAX_TEXT_BYTES
"""The maximum size of a line. Few lines have more than some megabytes, even with images in base64.

The limit is needed, because a sparse file can be larger than the RAM and yet take no space on the disk.
"""
_PIECE_BYTES = 65536


class NotAnObject(ValueError):
    """Raised if a line is not a JSON object. The message begins with "not" and states the fault, e.g. "not JSON: …"."""


class LongLine(UserError):
    """Raised if a line has more than :data:`MAX_LINE_BYTES` bytes, so that it might fill the memory."""


def bounded_lines(stream: Iterable[bytes], max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Return an iterator over the lines of an open file. It raises :class:`LongLine` if a line is too long.

    ``stream`` is a file that is opened for reading bytes. If it is another iterable, its items are returned unchanged.
    A line is too long if it has more than ``max_bytes`` bytes. A file of at most ``max_bytes`` bytes has no such line,
    so it is read by Python's iterator, the fastest way. The lines of this file keep their line feeds. The lines of a
    larger file are returned without line feeds.
    """
    if not isinstance(stream, io.BufferedIOBase):
        return iter(stream)
    begin = stream.tell()
    size = stream.seek(0, io.SEEK_END) - begin
    stream.seek(begin)
    return iter(stream) if size <= max_bytes else _lines_in_pieces(stream, max_bytes)


def _lines_in_pieces(stream: io.BufferedIOBase, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file without their line feeds.

    The file is read in pieces. If a line is unfinished, the next piece is at least as long as the part of the line that
    was read already. So a long line needs few reads. No more than ``max_bytes`` + 1 bytes of a line are read. Raises
    LongLine for a line of more than ``max_bytes`` bytes.
    """
    number, held = 1, b""
    while piece := stream.read(min(max(_PIECE_BYTES, len(held)), max_bytes + 1 - len(held))):
        *lines, held = (held + piece).split(b"\n")
        yield from lines
        number += len(lines)
        if len(held) > max_bytes:
            name = getattr(stream, "name", None)  # it is a number if the file was opened by its file descriptor
            where = f"line {number} of {name if isinstance(name, str) else 'the file'}"
            raise LongLine(f"{where} has more than {max_bytes} bytes: shorten this line, or remove it")
    if held:
        yield held


def read_lines(stream: Iterable[bytes], first_number: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank. ``stream`` yields the lines of a file as bytes.
    ``first_number`` is the number of the first line that ``stream`` yields. The line numbers also count blank lines.
    Raises :class:`LongLine` if ``stream`` is an open file with a line of more than :data:`MAX_LINE_BYTES` bytes.
    """
    for number, line in enumerate(bounded_lines(stream), first_number):
        line = line.removeprefix(BYTE_ORDER_MARK) if number == first_number else line
        text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        if text.strip(BLANKS):
            yield number, storable(text)


def read_objects(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one for each line. ``stream`` yields the lines as bytes. Lines that are not
    JSON objects are skipped without an error, since other code reports them. Raises :class:`LongLine` as
    :func:`read_lines` does.
    """
    for _, text in read_lines(stream):
        try:
            found = parse_object(text)
        except NotAnObject:
            continue
        yield found


def has_many_brackets(text: str) -> bool:
    """Return whether a JSON text may have more than :data:`groundtrace.schemas.safe_files.MAX_BRACKETS` lists and
    objects. All opening brackets are counted, including those inside strings.
    """
    return len(text) > MAX_BRACKETS and text.count("[") + text.count("{") > MAX_BRACKETS


def parse_object(text: str) -> dict[str, Any]:
    """Parse ``text``, one line of a file, and return its JSON object as a dict.

    Raises :class:`NotAnObject` if the line is not a JSON object, if the object is nested too deeply, or if it has more
    than :data:`groundtrace.schemas.safe_files.MAX_BRACKETS` lists and objects, which would fill the memory.
    """
    if has_many_brackets(text):
        raise NotAnObject(f"the line has more than {MAX_BRACKETS} lists and objects")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAnObject(f"the line is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise NotAnObject("the line is not a JSON object")
    return found
