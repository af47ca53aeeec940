"""Finds the place at which the user's own code raised an error: the file, the line, and the id of the record.

This module imports no slow module, because every command needs it.
"""

import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from groundtrace.schemas.errors import RecordNote, ResponseNote, causes
from groundtrace.schemas.text import printable

_OURS = ("groundtrace", "pipelines", "stages", "schemas", "prompts", "data_cards")
"""The folders with the code of this package, which is not a user's own code.

In a wheel, the folder ``groundtrace`` contains the other folders.
"""


def place_of(error: BaseException) -> str:
    """Return, as one text, where a user's own code raised an error, and what it was working on, as far as this is
    known.

    The text has the file and the line, the record, and the start of the response that a scorer (code that checks a
    response) read.

    For example, the result is "in parts.py, line 9, for the record q1, for the response '<think>It…'", or "".
    """
    place = place_in_own_code(error)
    parts = [f"in {place}"] * bool(place)
    parts += [f"for the record {printable(each)[:80]}" for each in _notes(error, RecordNote)]
    return ", ".join([*parts, *(f"for the response {each!r}" for each in _notes(error, ResponseNote))])


def hint_of(error: BaseException) -> str:
    """Return the text in brackets behind the message of an unexpected error: its place, and the option ``--verbose``.

    The place is that of :func:`place_of`.
    """
    where = place_of(error)
    return f"{where}; --verbose shows more" if where else "--verbose shows where"


def place_in_own_code(error: BaseException) -> str:
    """Return the file and the line of a user's own code at which an error was raised; "" if there are none.

    If both the root cause and an error that it caused were raised in the user's own code, the result is for the root
    cause. Code of Groundtrace, of Python and of installed packages is not the user's own. An error of another process
    has no traceback here, so the result for it is "".
    """
    others = _other_folders()
    for each in _from_the_root(error):
        for frame in reversed(traceback.extract_tb(each.__traceback__)):
            try:
                file = Path(frame.filename).resolve()
                is_own = file.is_file() and not any(file.is_relative_to(other) for other in others)
            except (OSError, RuntimeError, ValueError):  # not the name of a file
                continue
            if is_own:
                return f"{frame.filename}, line {frame.lineno}"
    return ""


def _other_folders() -> list[Path]:
    """Return the folders of Groundtrace, Python and installed packages. Code in other folders is the user's own."""
    here, package = Path(__file__).resolve().parents[1], Path(str(sys.modules["groundtrace"].__file__)).parent
    installed = [*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()]
    folders = [package, *(here / name for name in _OURS), sys.prefix, sys.base_prefix, *installed]
    return [Path(folder).resolve() for folder in folders]


def _notes(error: BaseException, kind: type[str]) -> list[str]:
    """Return a list with the first note of the class ``kind`` on an error or on the errors that led to it.

    The list is empty if there is no such note.
    """
    notes = (note for each in _from_the_root(error) for note in getattr(each, "__notes__", ()))
    return [note for note in notes if isinstance(note, kind)][:1]


def _from_the_root(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that led to it, the most useful ones for the user first.

    There are three groups, in this order:

    1. The root cause. It is found by following ``__cause__`` from ``error`` to the end. The user gets its message.
    2. The errors on the way from the root cause back to ``error``. ``error`` is the last of them.
    3. The error that was being handled when the root cause was raised (``__context__``), then the error that led to
       this error, and so on.

    For example, a stage raises A. Beam handles A, and raises B without ``from``. Later, C is raised from B. For the
    error C, the function yields B, C, A.
    """
    *outer, root = causes(error)
    yield root
    yield from reversed(outer)
    seen, each = {id(root)}, None if root.__suppress_context__ else root.__context__
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
