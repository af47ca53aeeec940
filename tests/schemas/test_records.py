"""Every record type crosses a Beam shuffle unchanged: None, empty tuples and nested records included."""

import dataclasses
import pickle
import types
import typing
from typing import Any

import pytest
from apache_beam.coders.typecoders import registry
from hypothesis import given, settings
from hypothesis import strategies as st

import groundtrace.stages.plumbing.packing  # noqa: F401 (it registers the types below)
from groundtrace.grading.input_record import InputRecord
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import (
    Attempt,
    Call,
    Draft,
    MediaRef,
    Overlay,
    Question,
    RawRecord,
    Rejected,
    Rubric,
    Trace,
    Verdict,
)
from groundtrace.schemas.usage import Usage

TYPES = (
    Attempt,
    Box,
    Call,
    Draft,
    InputRecord,
    MediaRef,
    Overlay,
    Point,
    Question,
    RawRecord,
    Rejected,
    Rubric,
    Trace,
    Usage,
    Verdict,
)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return st.one_of(*(st.none() if inner is type(None) else values_of(inner) for inner in arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    return records_of(hint) if dataclasses.is_dataclass(hint) else LEAVES[hint]


def records_of(cls: Any) -> st.SearchStrategy[Any]:
    """Instances of a record type."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)})


def smallest(cls: Any) -> Any:
    """The record with None and the empty tuple wherever its types allow them."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(cls).items():
        if typing.get_origin(hint) is types.UnionType:
            found[name] = None
        elif typing.get_origin(hint) is tuple:
            found[name] = ()
        else:
            found[name] = smallest(hint) if dataclasses.is_dataclass(hint) else hint()
    return cls(**found)


def coded(value: Any) -> Any:
    """The record after the coder that Beam uses between stages."""
    coder = registry.get_coder(type(value))
    return coder.decode(coder.encode(value))


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_a_record_is_the_same_after_a_shuffle(cls: Any, data: st.DataObject) -> None:
    value = data.draw(records_of(cls))
    again = coded(value)
    assert type(again) is cls
    assert again == value
    assert hash(again) == hash(value)


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_nothing_stays_nothing(cls: Any) -> None:
    value = smallest(cls)
    assert coded(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_a_record_is_frozen(cls: Any) -> None:
    value = smallest(cls)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(cls)[0].name, None)


def test_none_and_empty_are_told_apart() -> None:
    asked = Question("q", "s", "l", (), "?", "a", "text", None, (), None)
    again = coded(Draft(asked, entities=None))
    assert (again.question.choices, again.question.opened_choices) == (None, ())
    assert (again.entities, again.best) == (None, None)
    assert coded(Draft(asked, entities=(), best=0)) == Draft(asked, entities=(), best=0)


def test_floats_keep_their_last_bit() -> None:
    assert coded(Point("p", 0.1 + 0.2, 1e-300, 1, 7, 29.97)) == Point("p", 0.30000000000000004, 1e-300, 1, 7, 29.97)


@pytest.mark.parametrize(
    ("correct", "k", "rate"),
    [((), 0, None), ((None,), 0, None), ((True, False, None), 2, 0.5), ((True,), 1, 1.0), ((False, False), 2, 0.0)],
)
def test_an_unscored_attempt_is_not_counted(correct: tuple[bool | None, ...], k: int, rate: float | None) -> None:
    attempts = tuple(Attempt("t", "a", value, "exact", "") for value in correct)
    draft = Draft(smallest(Question), attempts=attempts)
    assert (draft.scored_attempts, draft.pass_rate) == (k, rate)


@pytest.mark.parametrize(
    ("entities", "pointed", "pointable"),
    [
        ((), (), ()),
        (("cat", "dog"), (), ()),
        (("cat", "dog"), ("dog", "dog"), ("dog",)),
        (("cat", "dog"), ("dog", "cat"), ("cat", "dog")),
        ((), ("dog",), ()),
    ],
)
def test_what_can_be_pointed_at_is_what_the_pointer_found(
    entities: tuple[str, ...], pointed: tuple[str, ...], pointable: tuple[str, ...]
) -> None:
    points = tuple(Point(label, n, n) for n, label in enumerate(pointed))
    assert Draft(smallest(Question), entities=entities, points=points).pointable == pointable


def test_a_verdict_has_not_failed_unless_it_says_so() -> None:
    assert not Verdict("spatial", None, "nothing to point at").failed
    assert coded(Verdict("spatial", None, "no reply", failed=True)).failed
