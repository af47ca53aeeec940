"""Appends lines to a file in a run folder, and reads them. Each line is a JSON object."""

import fcntl
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from groundtrace.publishing.reading import InspectError
from groundtrace.schemas.safe_files import opened_for_writing, opened_regular, refuse_links
from groundtrace.schemas.text import whole

T = TypeVar("T")
MAX_LINES = 1_000_000
MAX_LINE_BYTES = 16 * 2**20
_REMEDY = (
    "remove outdated lines. A line is outdated if a later line has the same `id` and, in judgements.jsonl, the same "
    "`about` and `reviewer`"
)


class TooManyLines(ValueError):
    """Raised instead of a write after which the file would have more than :data:`MAX_LINES` lines."""


def append_line(run: Path, name: Path, fields: Mapping[str, Any]) -> None:
    """Append one line to a file of a run: the ``fields`` as a JSON object.

    The line is on the disk when the function returns. ``name`` is the file's path in the run folder ``run``. Raises the
    errors of :func:`locked` and :func:`write_lines`.
    """
    with locked(run, name) as opened:
        write_lines(opened, run / name, [fields])


@contextmanager
def locked(run: Path, name: Path) -> Iterator[BinaryIO]:
    """Open a file of a run for appending, and let other processes wait until the ``with`` block ends.

    ``name`` is the file's path in the run folder ``run``. The file and its folder are created if they are missing.
    Raises OSError with the path of the file if the file cannot be written, also within the ``with`` block. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file or its folder is a link.
    """
    refuse_links(run, str(name))
    (run / name).parent.mkdir(exist_ok=True)
    with opened_for_writing(run, str(name)) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # until the file is closed
        try:
            yield opened
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(run / name)) from error


def write_lines(opened: BinaryIO, file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines to a file that :func:`locked` has opened, each with the fields of a mapping as a JSON object.

    ``file`` is the path of the file, for messages. A killed process may have left an incomplete last line, which is
    removed first. If the lines cannot be written, for example because the disk is full, the file has none of them.
    Raises TooManyLines if the file would have more than :data:`MAX_LINES` lines, and OSError if the lines cannot be
    written.
    """
    data = "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in lines).encode(
        "utf-8", "backslashreplace"
    )
    _end_last_line(opened)
    size = os.fstat(opened.fileno()).st_size
    if size + len(lines) > MAX_LINES and (held := _count_lines(opened)) + len(lines) > MAX_LINES:
        raise TooManyLines(f"{file} has {held} lines, and may have at most {MAX_LINES}: {_REMEDY}")
    try:
        while data:
            data = data[os.write(opened.fileno(), data) :]
        os.fsync(opened.fileno())
    except OSError:
        os.ftruncate(opened.fileno(), size)
        raise


def _count_lines(opened: BinaryIO) -> int:
    opened.seek(0)
    return sum(block.count(b"\n") for block in iter(lambda: opened.read(2**20), b""))


def _end_last_line(opened: BinaryIO) -> None:
    """Remove the last line of an open file if the line is incomplete; add a line break if only this is missing."""
    size = os.fstat(opened.fileno()).st_size
    if size == 0 or os.pread(opened.fileno(), 1, size - 1) == b"\n":
        return
    last = os.pread(opened.fileno(), MAX_LINE_BYTES, max(size - MAX_LINE_BYTES, 0)).rpartition(b"\n")[2]
    if _is_json(last):
        os.write(opened.fileno(), b"\n")
    else:
        os.ftruncate(opened.fileno(), size - len(last))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def read_lines(run: Path, name: Path, make: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Yield one object for each line of a file of a run, in order. Yield nothing if the file is missing.

    ``name`` is the file's path in the run folder ``run``. Each line is a JSON object. The function ``make`` converts
    this object to the object that is yielded. ``make`` may raise TypeError, KeyError or ValueError for an invalid line.
    A killed process may leave an incomplete last line, so an invalid last line without a line break is skipped. U+FFFD
    replaces each half of a character (lone surrogate), which an earlier version wrote as an escape such as ``\\ud83d``.

    Raises :class:`groundtrace.publishing.reading.InspectError` for any other invalid line, for more than
    :data:`MAX_LINES` lines, and if the file cannot be read. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file or its folder is a link, and if the file is a pipe or
    a device.
    """
    file = run / name
    refuse_links(run, str(name))
    try:
        with opened_regular(file) as stream:
            for number in itertools.count(1):
                line = stream.readline(MAX_LINE_BYTES)
                if not line:
                    return
                if number > MAX_LINES:
                    raise InspectError(f"{file} has more than {MAX_LINES} lines: {_REMEDY}")
                if line != b"\n":
                    yield from _entry(file, number, line, make)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InspectError(
            f"cannot read {file} ({error.strerror or error}): make this path a file that you can read, or remove it"
        ) from error


def _entry(file: Path, number: int, line: bytes, make: Callable[[Any], T]) -> Iterator[T]:
    """Yield the object that ``make`` returns for the JSON of a line. Raises InspectError for an invalid line.

    There is one exception: for an invalid last line without a line break, nothing is yielded and no error is raised. A
    killed process may have left this line incomplete.
    """
    try:
        fields = json.loads(line)
        found = make(_whole(fields) if b"\\u" in line else fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if line.endswith(b"\n") or len(line) == MAX_LINE_BYTES:
            raise InspectError(f"{file} is damaged at line {number}: remove this line") from error
        return
    yield found


def _whole(value: Any) -> Any:
    """Return a value of JSON with U+FFFD in place of each half of a character (lone surrogate) in its texts."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): _whole(each) for name, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value
