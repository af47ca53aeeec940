"""Reads the objects of a JSON array from a text stream, one at a time, so that RAM never holds a whole large array."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, TextIO

from groundtrace.schemas.json_lines import has_many_brackets
from groundtrace.schemas.safe_files import MAX_BRACKETS, MAX_TEXT_BYTES

CHUNK_CHARS = 2**20
MAX_VALUE_CHARS = MAX_TEXT_BYTES
"""The maximum length of one value, such as an object of the array. It is as large as a text that is read as a whole."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_MAX_LITERAL_CHARS = len("-Infinity")
_DECODER = json.JSONDecoder()


class NotAnArray(ValueError):
    """Raised if a text does not have the expected JSON form, such as an array of objects.

    The message gives the position of the fault (line and entry) and its reason.
    """


def array_entries(stream: TextIO) -> Iterator[dict[str, Any]]:
    """Read a JSON array of objects from a text stream, and yield the objects in order.

    Only a part of the text is in memory at a time. Raises :class:`NotAnArray` at the first error.
    """
    text = _Window(stream)
    if text.next_sign() != "[":
        raise text.wrong("expected a JSON array, which begins with [")
    yield from _entries(text)
    if text.next_sign():
        raise text.wrong("the file has more text after the end of the array")


def named_entries(stream: TextIO, names: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read a JSON object whose values are arrays, and yield the entries of some of these arrays.

    ``names`` are the names of the wanted arrays; their entries must be objects. Each entry is yielded with the name of
    its array, in the order of the file. For example, ``{"images": [{"id": 1}], "info": {}}`` with the name "images"
    yields ``("images", {"id": 1})``. Other values are skipped. Memory holds only one entry of an array, or one skipped
    value, at a time. Raises :class:`NotAnArray` at the first error.
    """
    text = _Window(stream)
    if text.next_sign() != "{":
        raise text.wrong("expected { at the beginning of a JSON object that holds arrays")
    text.pass_sign()
    while text.next_sign() == '"':
        name = text.next_value()
        if text.next_sign() != ":":
            raise text.wrong("expected a colon after a key of the JSON object")
        text.pass_sign()
        if name in names and text.next_sign() == "[":
            yield from ((name, entry) for entry in _entries(text))
        else:
            text.next_sign()
            text.next_value()
        if text.next_sign() == "}":
            break
        if text.next_sign() != ",":
            raise text.wrong("expected a comma or } after a value")
        text.pass_sign()
    if text.next_sign() != "}":
        raise text.wrong("expected a key of the JSON object, in double quotes")
    text.pass_sign()
    if text.next_sign():
        raise text.wrong("the file has more text after the end of the object")


def _entries(text: "_Window") -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON array that begins at the next character of ``text``.

    At the end, the next character of ``text`` is the one after the array.
    """
    text.pass_sign()
    while text.next_sign() != "]":
        yield text.next_object()
        if text.next_sign() == "]":
            break
        if text.next_sign() != ",":
            raise text.wrong("expected a comma or ] after this entry")
        text.pass_sign()
        if text.next_sign() == "]":
            text.next_object()  # an object must follow a comma
    text.pass_sign()


class _Window:
    """Reads JSON values from a text stream.

    Only a part of the text is in memory at a time. ``entry`` is the number of the last object whose reading began.
    """

    def __init__(self, stream: TextIO) -> None:
        self.entry = 0
        self._stream, self._text, self._at, self._line = stream, "", 0, 1

    def next_sign(self) -> str:
        """Skip whitespace, and return the next character without moving past it; "" at the end of the text."""
        while True:
            found = _BLANKS.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._grow():
                return self._text[self._at : self._at + 1]

    def pass_sign(self) -> None:
        """Move past the next character."""
        self._at += 1

    def next_object(self) -> dict[str, Any]:
        """Read and return the object at the next character. Raises :class:`NotAnArray` if no object begins there."""
        self.entry += 1
        if self.next_sign() != "{":
            raise self.wrong("expected a JSON object in braces")
        return self.next_value()

    def next_value(self) -> Any:
        """Read and return the JSON value that begins at the next character, which must not be whitespace."""
        while True:
            begins = self._at
            try:
                found, self._at = _DECODER.raw_decode(self._text, begins)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - _MAX_LITERAL_CHARS or error.msg.startswith("Unterminated string")
                if not (cut and self._grow()):
                    raise self.wrong(f"the JSON is invalid: {error.msg}", self._at + error.pos - begins) from error
            except ValueError as error:  # a number with more digits than Python reads
                raise self.wrong(f"a number cannot be read: {str(error).partition(';')[0]}") from error
            except RecursionError as error:
                raise self.wrong("the value is nested too deeply") from error
            else:
                if isinstance(found, int | float) and self._at == len(self._text):  # more digits may follow
                    self._at = begins
                    if self._grow():
                        continue
                    self._at = len(self._text)
                return found

    def wrong(self, why: str, at: int | None = None) -> NotAnArray:
        """Return an error whose message has a line number, the number of the latest entry, and the reason ``why``.

        An entry is an object of the array. The line is that of the character at offset ``at`` of the text in memory.
        Without ``at``, it is the line of the next character to read.
        """
        line = self._line + self._text.count("\n", 0, self._at if at is None else at)
        return NotAnArray(f"line {line}, entry {self.entry}: {why}")

    def _grow(self) -> bool:
        """Discard the text that was parsed, read more text, and return whether the stream had more text.

        Each call reads at least as many characters as are in memory, so that a large object needs few reads. Raises
        :class:`NotAnArray` if one value has more than :data:`MAX_VALUE_CHARS` characters, or more than
        :data:`groundtrace.schemas.safe_files.MAX_BRACKETS` lists and objects.
        """
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MAX_VALUE_CHARS:
            raise self.wrong(f"one value has more than {MAX_VALUE_CHARS} characters")
        if has_many_brackets(self._text):  # the text in memory is the beginning of one value
            raise self.wrong(f"one value has more than {MAX_BRACKETS} lists and objects")
        more = self._stream.read(max(CHUNK_CHARS, len(self._text)))
        self._text += more
        return bool(more)
