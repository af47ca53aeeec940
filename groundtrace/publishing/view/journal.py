"""Appends lines to a file in a run folder, and reads them. Each line is a JSON object."""

import fcntl
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from groundtrace.publishing.reading import InspectError
from groundtrace.schemas.safe_files import opened_for_writing, opened_regular, refuse_links
from groundtrace.schemas.text import whole

T = TypeVar("T")
MAX_LINES = 1_000_000
MAX_LINE_BYTES = 16 * 2**20


def append_line(run: Path, name: Path, fields: Mapping[str, Any]) -> None:
    """Append one line to a file of a run: the ``fields`` as a JSON object.

    The line is on the disk when the function returns. ``name`` is the file's path in the run folder ``run``. Raises the
    errors of :func:`locked`.
    """
    with locked(run, name) as opened:
        write_lines(opened, [fields])


@contextmanager
def locked(run: Path, name: Path) -> Iterator[BinaryIO]:
    """Open a file of a run for appending, and let other processes wait until the ``with`` block ends.

    ``name`` is the file's path in the run folder ``run``. The file and its folder are created if they are missing.
    Raises OSError if the file cannot be written, and :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file or
    its folder is a link.
    """
    refuse_links(run, str(name))
    (run / name).parent.mkdir(exist_ok=True)
    with opened_for_writing(run, str(name)) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # until the file is closed
        yield opened


def write_lines(opened: BinaryIO, lines: Iterable[Mapping[str, Any]]) -> None:
    """Append lines to a file that :func:`locked` has opened, each with the fields of a mapping as a JSON object.

    A killed process, or a full disk, may have left an incomplete last line, which is removed first.
    """
    text = "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in lines)
    _end_last_line(opened)
    opened.write(text.encode("utf-8", "backslashreplace"))
    opened.flush()
    os.fsync(opened.fileno())


def _end_last_line(opened: BinaryIO) -> None:
    """Remove the last line of an open file if the line is incomplete; add a line break if only this is missing."""
    size = opened.seek(0, os.SEEK_END)
    if size == 0 or os.pread(opened.fileno(), 1, size - 1) == b"\n":
        return
    last = os.pread(opened.fileno(), MAX_LINE_BYTES, max(size - MAX_LINE_BYTES, 0)).rpartition(b"\n")[2]
    if _is_json(last):
        opened.write(b"\n")
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
                    raise InspectError(
                        f"{file} has more than {MAX_LINES} lines: remove outdated lines. A line is outdated if a later "
                        "line has the same `id` and, in judgements.jsonl, the same `about` and `reviewer`"
                    )
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
