"""Defines columns that only some recipes (pipelines for one kind of training data) have, in addition to the core
columns of all rows, and holds a record's values in these columns.

The description of a stage (a step of the pipeline) lists the columns that the stage adds (:class:`Column`, in
``adds``). The stage sets their values with ``draft.with_added(COLUMN, value)``. Here, ``draft`` is the record that the
stage changes. The shards (Parquet files of rows) of a recipe hold the columns that its stages add. Code that reads the
rows gets the values with ``context.added(COLUMN)``, where ``context`` is a :class:`groundtrace.rewards.case.Context`.
No other code depends on a column.

A record holds the values as JSON texts. Therefore records of all recipes have the same type, Beam can shuffle them as
rows, and records with equal values are equal.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, cast

import pyarrow as pa

from groundtrace.schemas.coding import record
from groundtrace.schemas.text import excerpt

T = TypeVar("T")


class ColumnError(ValueError):
    """Raised if a stage (a step of the pipeline) must not add a column, or if a value does not have the type of its
    column. The message names the column.
    """


@dataclass(frozen=True)
class Column(Generic[T]):
    """Describes a column of the shards (Parquet files of rows). ``T`` is the type of the values that stages (pipeline
    steps) and scorers (checks of a response) use.

    Attributes:
        name: its name in the shards; this must be a Python identifier if a stage adds the column.
        type: its Arrow type; a stage may use only texts, numbers, booleans, and lists and structs of these.
        meaning: one sentence that describes its content, for the data card.
        read: a function that converts the plain value (texts, numbers, lists, dicts) to a ``T``; it raises ValueError
            or TypeError for an invalid value. If it is None, the plain value is used.
        for_training: whether trainers and exports read the column.
        is_class: whether its values (texts, or lists of texts) are classes, i.e. categories of rows. If so, the data
            card, the report and ``beam inspect`` show the number of rows of each class.
    """

    name: str
    type: pa.DataType
    meaning: str
    read: Callable[[Any], T] | None = None
    for_training: bool = True
    is_class: bool = False

    def check(self) -> None:
        """Check that a stage (a step of the pipeline) may add this column to the rows. Raises ColumnError if its name,
        meaning or type is not allowed.
        """
        if not self.name.isidentifier():
            raise ColumnError(f"the name of the column {self.name!r} must be a Python identifier, such as word_count")
        if not self.meaning.strip():
            raise ColumnError(
                f"the `meaning` of the column {self.name} is empty: describe in one sentence what the column holds"
            )
        if not isinstance(self.type, pa.DataType):
            raise ColumnError(f"the type of the column {self.name} must be an Arrow type, got {excerpt(self.type)}")
        if not is_plain(self.type):
            raise ColumnError(
                f"the column {self.name} is of type {self.type}, which is not allowed: use texts, numbers, booleans, "
                "or lists and structs of these (store an image as an overlay)"
            )
        texts = pa.types.is_list(self.type) and self.type.value_type == pa.string()
        if self.is_class and not (texts or self.type == pa.string()):
            raise ColumnError(
                f"the column {self.name} has is_class=True, so it must hold texts or lists of texts, got {self.type}"
            )

    def value_of(self, value: object) -> "Value":
        """Convert ``value`` to the form in which a record holds it (:class:`Value`). Raises ColumnError if the value
        does not have the column's type.
        """
        try:
            return Value(self.name, as_json(_plain(value, self.type, "")))
        except _Unfit as error:
            raise ColumnError(f"the column {self.name} ({self.type}) cannot hold this value: {error}") from error


@record
class Value:
    """Holds a record's value in one column. ``column`` is the column's name, and ``json`` is the value as JSON text."""

    column: str
    json: str

    @property
    def plain(self) -> Any:
        """Return the value as plain Python data: a text, number, boolean, list or dict."""
        return json.loads(self.json)


class HasValues:
    """Provides access to values in added columns, which only some recipes (pipelines) have. This class is the base of
    frozen dataclasses with a field ``values``, which holds one value for each column that was set.
    """

    values: tuple[Value, ...]

    def with_added(self, column: Column[T], value: T | None) -> Self:
        """Return a copy of this object in which ``column`` has the value ``value``. If ``value`` is None, the column
        has no value in the copy. Raises ColumnError if the value does not have the column's type.
        """
        found = {each.column: each for each in self.values}
        if value is None:
            found.pop(column.name, None)
        else:
            found[column.name] = column.value_of(value)
        return dataclasses.replace(self, values=tuple(found.values()))  # type: ignore[type-var]

    def added(self, column: Column[T]) -> T | None:
        """Return this object's value in ``column``, converted by the column's ``read``. Returns None if the column has
        no value. If ``read`` raises an error, it is passed on.
        """
        for each in self.values:
            if each.column == column.name:
                return each.plain if column.read is None else column.read(each.plain)
        return None


def is_plain(kind: pa.DataType) -> bool:
    """Return whether a stage (a step of the pipeline) may use the Arrow type ``kind`` for a column.

    Texts, numbers and booleans are allowed, and also lists and structs (with at least one field) of allowed types.
    """
    if pa.types.is_list(kind):
        return is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        names = {field.name for field in kind}  # Parquet has no empty structs, and an object has each field once
        return 0 < len(names) == kind.num_fields and all(is_plain(field.type) for field in kind)
    is_number = pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())
    return is_number or kind in (pa.string(), pa.bool_())


def as_json(plain: object) -> str:
    """Return ``plain``, a value of texts, numbers, lists and dicts, as JSON text. The order of keys is not changed."""
    return json.dumps(plain, ensure_ascii=False, default=str)


class _Unfit(ValueError):
    """Raised if a value does not have the type of its column. The message names the wrong part and the reason."""


def _plain(value: object, kind: pa.DataType, where: str) -> Any:
    """Convert the value of a column, or a part of the value, to lists, dicts, texts, numbers and booleans for Arrow.

    ``value`` is the whole value or the part, and ``kind`` is its Arrow type. NumPy's numbers, booleans and arrays are
    accepted, too. A dict in the result has its fields in the order of ``kind``. ``where`` is the path of the part in
    the whole value, such as ``[2].label``, for error messages. Raises _Unfit if ``value`` does not have this type.
    """
    if type(value).__module__ == "numpy":
        value = cast(Any, value).tolist()  # a number of NumPy becomes one of Python, and an array becomes a list
    if value is None:
        return None
    if pa.types.is_list(kind):
        if not isinstance(value, list | tuple):
            raise _unfit(value, "a list", where)
        return [_plain(each, kind.value_type, f"{where}[{index}]") for index, each in enumerate(value)]
    if pa.types.is_struct(kind):
        return _struct(value, kind, where)
    if kind == pa.string():
        return _text(value, where)
    if kind == pa.bool_():
        if not isinstance(value, bool):
            raise _unfit(value, "true or false", where)
        return value
    if pa.types.is_integer(kind):
        return _integer(value, kind, where)
    return _number(value, kind, where)


def _struct(value: object, kind: pa.StructType, where: str) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, Mapping):
        raise _unfit(value, "an object", where)
    known = [field.name for field in kind]
    if unknown := [name for name in value if name not in known]:
        raise _Unfit(
            f"{where or 'the value'} has the field {excerpt(unknown[0])}, but its type has only the fields "
            f"{', '.join(known)}"
        )
    return {name: _plain(value.get(name), kind.field(name).type, f"{where}.{name}") for name in known}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _unfit(value, "a text", where)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _unfit(value, "a text that UTF-8 can hold", where) from error
    return str(value)


def _integer(value: object, kind: pa.DataType, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unfit(value, "a whole number", where)
    try:
        pa.scalar(value, kind)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise _unfit(value, f"a whole number that fits into {kind}", where) from error
    return int(value)


def _number(value: object, kind: pa.DataType, where: str) -> float:
    """Return ``value``, a number of the Arrow type ``kind``, as a finite float. ``where`` is the path of the number in
    the whole value of the column, for error messages.

    Raises _Unfit if ``value`` is not a number, is NaN or infinite, or is too large for ``kind``. NaN and infinity are
    refused, because exports write JSON, which lacks them.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(value, "a number", where)
    try:
        if math.isfinite(pa.scalar(float(value), kind).as_py()):
            return float(value)
    except OverflowError:  # an int may be too large for a float
        pass
    raise _unfit(value, f"a finite number that fits into {kind}", where)


def _unfit(value: object, expected: str, where: str) -> _Unfit:
    return _Unfit(f"expected {expected}{f' at {where}' if where else ''}, got {excerpt(value)}")
