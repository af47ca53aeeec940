r"""Reads JSON Lines: files with one JSON object on each line.

Lines end with LF or CRLF. A byte order mark at the start of the file is dropped. Lines that hold only blanks (space,
tab, line ends) are skipped but counted. Bytes that are not UTF-8 become the JSON escapes of lone surrogates
(``\udc80`` to ``\udcff``): the line can still be parsed, and the validation of the record rejects its text.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from groundtrace.schemas.text import storable

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANKS = " \t\r\n"


class NotAnObject(ValueError):
    """Raised if a line is not a JSON object. The message begins with "not" and states the fault, e.g. "not JSON: …"."""


def read_lines(stream: Iterable[bytes], first_number: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank. ``stream`` yields the lines of a file as bytes.
    ``first_number`` is the number of the first line that ``stream`` yields. The line numbers also count blank lines.
    """
    for number, line in enumerate(stream, first_number):
        line = line.removeprefix(BYTE_ORDER_MARK) if number == first_number else line
        text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        if text.strip(BLANKS):
            yield number, storable(text)


def read_objects(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one for each line. ``stream`` yields the lines as bytes. Lines that are not
    JSON objects are skipped without an error, since other code reports them.
    """
    for _, text in read_lines(stream):
        try:
            found = parse_object(text)
        except NotAnObject:
            continue
        yield found


def parse_object(text: str) -> dict[str, Any]:
    """Parse ``text``, one line of a file, and return its JSON object as a dict.

    Raises :class:`NotAnObject` if the line is not a JSON object, or if the object is nested too deeply.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAnObject(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise NotAnObject("not a JSON object")
    return found
