"""Columns that stages add: what a declaration must be, which values it takes, and what comes back."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.columns import Column, ColumnError, HasValues, Value, is_plain
from groundtrace.schemas.records import Rubric

BOXED = pa.list_(pa.struct([("label", pa.string()), ("x", pa.float64()), ("n", pa.int8())]))
TEXTS = pa.list_(pa.string())


@dataclass(frozen=True)
class Holder(HasValues):
    """The least that has values."""

    values: tuple[Value, ...] = ()


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        (pa.string(), "ß 猫", "ß 猫"),
        (pa.int32(), 7, 7),
        (pa.float64(), 0.1 + 0.2, 0.1 + 0.2),
        (pa.float64(), 1, 1.0),
        (pa.bool_(), False, False),
        (pa.float64(), np.float32(0.5), 0.5),
        (pa.int32(), np.uint8(7), 7),
        (pa.bool_(), np.bool_(True), True),
        (pa.list_(pa.float64()), np.array([0.5, 1.0]), [0.5, 1.0]),
        (TEXTS, ("a", None), ["a", None]),
        (TEXTS, (), []),
        (BOXED, [{"x": 1, "label": "a"}], [{"label": "a", "x": 1.0, "n": None}]),
        (BOXED, [{"label": "a", "x": 0.5, "n": 127}], [{"label": "a", "x": 0.5, "n": 127}]),
    ],
)
def test_a_value_comes_back_plain(kind: pa.DataType, value: Any, back: Any) -> None:
    column = Column[Any]("added", kind, "something")
    holder = Holder().with_added(column, value)
    assert holder.added(column) == back
    assert pa.array([holder.added(column)], kind).to_pylist() == [back], "a shard takes it as it is"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (pa.string(), 3, "expected a text, got 3"),
        (pa.string(), "\ud800", "expected a text that UTF-8 can hold"),
        (pa.int32(), "3", "expected a whole number, got '3'"),
        (pa.int32(), 3.0, "expected a whole number, got 3.0"),
        (pa.int32(), True, "expected a whole number, got True"),
        (pa.int8(), 128, "expected a whole number that fits into int8, got 128"),
        (pa.float64(), True, "expected a number, got True"),
        (pa.float64(), math.nan, "expected a finite number that fits into double, got nan"),
        (pa.float64(), -math.inf, "expected a finite number that fits into double, got -inf"),
        (pa.float64(), 10**400, "expected a finite number that fits into double, got 1000"),
        (pa.float32(), 1e39, "expected a finite number that fits into float, got 1e\\+39"),
        (pa.bool_(), 1, "expected true or false, got 1"),
        (TEXTS, "ab", "expected a list, got 'ab'"),
        (TEXTS, ["a", 1], r"expected a text at \[1\], got 1"),
        (pa.int32(), np.float64(3), "expected a whole number, got 3.0"),
        (pa.float64(), np.float32("nan"), "expected a finite number"),
        (BOXED, [3], r"expected an object at \[0\], got 3"),
        (BOXED, [{"label": "a", "y": 1}], r"\[0\] has the field 'y', but its type has only the fields label, x, n"),
        (BOXED, [{"label": "a", "x": "1"}], r"expected a number at \[0\].x, got '1'"),
    ],
)
def test_a_value_of_another_type_is_refused_where_it_is_set(kind: pa.DataType, value: Any, said: str) -> None:
    with pytest.raises(ColumnError, match=rf"the column added \(.*\) cannot hold this value: {said}"):
        Holder().with_added(Column[Any]("added", kind, "something"), value)


@pytest.mark.parametrize(
    ("name", "kind", "meaning", "is_class", "said"),
    [
        ("two words", pa.string(), "m", False, "the name of the column 'two words' must be a Python identifier"),
        ("a.b", pa.string(), "m", False, "the name of the column 'a.b' must be a Python identifier"),
        ("added", pa.string(), " ", False, "the `meaning` of the column added is empty"),
        ("added", pa.binary(), "m", False, "is of type binary, which is not allowed: use texts, numbers"),
        ("added", pa.list_(pa.struct([("t", pa.timestamp("s"))])), "m", False, "use texts, numbers"),
        ("added", "string", "m", False, "the type of the column added must be an Arrow type, got 'string'"),
        ("added", pa.struct([]), "m", False, "use texts, numbers"),
        ("added", pa.list_(pa.struct([])), "m", False, "use texts, numbers"),
        ("added", pa.struct([("a", pa.string()), ("a", pa.int8())]), "m", False, "use texts, numbers"),
        ("added", pa.float64(), "m", True, "has is_class=True, so it must hold texts or lists of texts, got double"),
    ],
)
def test_what_no_stage_can_declare(name: str, kind: pa.DataType, meaning: str, is_class: bool, said: str) -> None:
    with pytest.raises(ColumnError, match=said):
        Column(name, kind, meaning, is_class=is_class).check()


def test_values_are_set_again_in_their_place_and_emptied() -> None:
    a, b = Column[int]("a", pa.int32(), "m"), Column[str]("b", pa.string(), "m")
    both = Holder().with_added(a, 1).with_added(b, "x")
    again = both.with_added(a, 2)
    assert ([value.column for value in again.values], again.added(a)) == (["a", "b"], 2)
    assert both.added(a) == 1
    emptied = again.with_added(a, None)
    assert (emptied.added(a), emptied.added(b)) == (None, "x")
    assert emptied == Holder().with_added(b, "x")


def test_a_column_reads_what_it_declares() -> None:
    kinds = pa.struct([(name, pa.string()) for name in ("id", "description", "criteria", "stratum")])
    fields = [*kinds, pa.field("applicability", pa.float64()), pa.field("pass_rate", pa.float64())]
    rubrics = Column[list]("rubrics", pa.list_(pa.struct(fields)), "m", read=lambda rows: [Rubric(**r) for r in rows])
    given_rubrics = [Rubric("r", "d", "c", 1.0, None, "easy")]
    assert Holder().with_added(rubrics, given_rubrics).added(rubrics) == given_rubrics


SCALARS = {pa.string(): st.text(st.characters(codec="utf-8"))}
SCALARS |= {pa.float64(): st.floats(allow_nan=False, allow_infinity=False)}
SCALARS |= {pa.int64(): st.integers(-(2**63), 2**63 - 1), pa.bool_(): st.booleans()}


@given(st.data())
def test_equal_values_are_equal_texts_and_come_back(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1))
    kinds = {name: data.draw(st.sampled_from([*SCALARS])) for name in names}
    kind = pa.list_(pa.struct([*kinds.items()]))
    assert is_plain(kind)
    rows = data.draw(st.lists(st.fixed_dictionaries({name: st.none() | SCALARS[kinds[name]] for name in names})))
    column = Column[Any]("added", kind, "m")
    shuffled = [dict(reversed(row.items())) for row in rows]
    first, second = (Holder().with_added(column, each) for each in (rows, shuffled))
    assert first == second
    assert first.added(column) == rows
