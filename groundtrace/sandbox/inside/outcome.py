"""Determines how the code of a call (one execution) ended: its status, and its error as Python prints it."""

import traceback
from collections.abc import Callable

from . import frames

_CV2_OUT_OF_MEMORY = "Insufficient memory"


def ended(act: Callable[[], None]) -> tuple[str, str]:
    """Call ``act``, a function that runs the code of a call (one execution), and return how the code ended.

    The result is the status ("ok", "error" or "memory"), and the error with its traceback ("" if no error occurred).
    The status is "memory" if the code needed more memory than it may use.
    """
    try:
        act()
    except SystemExit as ending:
        good = ending.code in (None, 0)
        return ("ok", "") if good else ("error", _cut(f"SystemExit: {_str(ending.code)}"))
    except MemoryError:
        return "memory", "MemoryError: the call needs more memory than it may use"
    except BaseException as error:
        status = "memory" if _CV2_OUT_OF_MEMORY in _str(error) else "error"
        return status, _text_of(error)
    return "ok", ""


def _text_of(error: BaseException) -> str:
    """Return the error as Python prints it, but with fewer lines.

    Of the traceback, only the lines of the executed code are kept. If the text has more than ``frames.MAX_ERROR_CHARS``
    characters, its middle is cut out. If the error cannot be printed, the name of its class is returned.
    """
    try:
        lines = traceback.TracebackException.from_exception(error, limit=-20)
        lines.stack = traceback.StackSummary.from_list([at for at in lines.stack if at.filename.startswith("<call ")])
        text = "".join(lines.format(chain=False)).strip()
    except BaseException:
        text = type.__getattribute__(type(error), "__name__")  # a metaclass may hide it
    return _cut(text)


def _str(thing: object) -> str:
    """Return ``str(thing)``, or a fixed text if ``str`` raises an error.

    ``str`` can raise any error, since the model may have written the method ``__str__`` of the thing's class.
    """
    try:
        return str(thing)
    except BaseException:
        return "a value that cannot be printed"


def _cut(text: str) -> str:
    half = frames.MAX_ERROR_CHARS // 2 - 2
    return text if len(text) <= frames.MAX_ERROR_CHARS else f"{text[:half]}\n…\n{text[-half:]}"
