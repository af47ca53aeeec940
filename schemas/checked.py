"""Checks the types of values that were read from JSON."""

from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
MAX_BITS = 63


def checked_value(kind: type[T], value: object) -> T:
    """Return ``value`` as an instance of ``kind``, such as a dataclass.

    ``value`` consists of dicts, lists and plain values, and has the fields of ``kind``. Raises ValueError if a part of
    it has another type than the field, or is a whole number of more than :data:`MAX_BITS` bits. The message is one line
    and names the field.
    """
    from pydantic import ValidationError  # its import takes long

    _check_numbers(value)
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place:.100}: {first['msg']}") from error


@cache
def _adapter(kind: type[Any]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _check_numbers(value: object) -> None:
    """Raise ValueError if ``value``, which consists of dicts, lists and plain values, contains a number that is too
    large for a database.
    """
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, int) and each.bit_length() > MAX_BITS:
            raise ValueError(f"a whole number has more than {MAX_BITS} bits")
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list | tuple) else ()
