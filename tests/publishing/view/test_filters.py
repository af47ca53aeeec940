"""Addresses of a view, read as filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.publishing.view.filters import BadFilter, Dimension, Filters, read_filters

SET, RATE, ODD = Dimension("set", False), Dimension("pass_rate", True), Dimension('a "b" c', False)
POINTS, SCORE, OWN_SCORE = Dimension("trace points", True), Dimension("score a", True), Dimension("score_a", True)
DIMENSIONS = (SET, RATE, ODD)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], Filters()),
        ([("q", "  red box ")], Filters(text="red box")),
        ([("set", "sft"), ("set", "rl")], Filters(classes={SET: ("sft", "rl")})),
        ([("set", "")], Filters(classes={SET: ("",)})),
        ([("pass_rate", "0.25..1")], Filters(ranges={RATE: (0.25, 1.0)})),
        ([("pass_rate", "..0.5")], Filters(ranges={RATE: (None, 0.5)})),
        ([("pass_rate", "-1e3..")], Filters(ranges={RATE: (-1000.0, None)})),
        ([("sort", "-pass_rate")], Filters(sort=RATE, descends=True)),
        ([("sort", "set")], Filters(sort=SET)),
        ([("pass_rate", "0.5")], Filters(ranges={RATE: (0.5, 0.5)})),
        ([("trace_points", "1..")], Filters(ranges={POINTS: (1.0, None)})),
        ([("sort", "-trace_points")], Filters(sort=POINTS, descends=True)),
        ([("score a", "1"), ("score_a", "2")], Filters(ranges={SCORE: (1.0, 1.0), OWN_SCORE: (2.0, 2.0)})),
        ([("id", "a"), ("view", "table"), ("offset", "48"), ("set", "rl")], Filters(classes={SET: ("rl",)})),
    ],
)
def test_an_address_is_read(items: list[tuple[str, str]], expected: Filters) -> None:
    assert read_filters(items, (*DIMENSIONS, POINTS, SCORE, OWN_SCORE)) == expected


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("colour", "red")], "the run has no column 'colour'"),
        ([("sort", "-")], "the run has no column ''"),
        ([("pass_rate", "")], "or as LOW..HIGH"),
        ([("pass_rate", "a..b")], "or as LOW..HIGH"),
        ([("pass_rate", "nan..1")], "or as LOW..HIGH"),
        ([("pass_rate", "0..0"), ("pass_rate", "1..1")], "^pass_rate is given several times: give it once$"),
        ([("trace points", "0"), ("trace_points", "1")], "trace points is given several times"),
        ([("q", "a"), ("q", "a")], "q is given several times"),
        ([("sort", "set"), ("sort", "-set")], "sort is given several times"),
        ([("id", "a"), ("id", "b")], "id is given several times"),
        ([("set", "\udcff")], "of set is not a text in UTF-8"),
    ],
)
def test_a_malformed_address_is_refused(items: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(BadFilter, match=message):
        read_filters(items, (*DIMENSIONS, POINTS))


@given(st.lists(st.tuples(st.sampled_from([each.name for each in DIMENSIONS] + ["q", "sort"]), st.text(max_size=20))))
def test_values_never_become_part_of_the_condition(items: list[tuple[str, str]]) -> None:
    try:
        filters = read_filters(items, DIMENSIONS)
    except BadFilter:
        return
    where, values = filters.where()
    assert where.count("?") == len(values)
    bare = where.replace("?", "").replace(RATE.column, "").replace(SET.sql, "").replace(ODD.sql, "")
    assert set(bare) <= set("true AND IN (),<>= ")


def test_the_filter_of_one_dimension_can_be_left_out() -> None:
    filters = read_filters([("set", "sft"), ("pass_rate", "0..1")], DIMENSIONS)
    assert filters.where(without="set") == ('true AND "pass_rate" >= ? AND "pass_rate" <= ?', [0.0, 1.0])
