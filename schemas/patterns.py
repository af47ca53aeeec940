"""Compiles regular expressions at their first use.

The modules of a run have some 470 regular expressions. To compile all of them takes 0.14 s in each process, but a
command uses only a part of them: for example, patterns for model responses are used only if there are responses.
"""

import re
from typing import Any, cast


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an object with the methods and attributes of ``re.compile(pattern, flags)``.

    The pattern is compiled at the first use of the object. An invalid pattern raises ``re.error`` then. The functions
    of the module ``re`` do not accept the object: call its methods instead.
    """
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


class _LatePattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return the attribute ``name`` of the compiled pattern. The attribute is also stored in this object, so that
        Python finds it without this method the next time.
        """
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> Any:
        return _LatePattern, (self.pattern, self._flags)
