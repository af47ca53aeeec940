import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.pointing import NoPoints, RawPoint, UnparsablePointing, parse_pointer_reply

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "pointing.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_golden(case: dict) -> None:
    if case["points"] is not None:
        assert parse_pointer_reply(case["text"]) == tuple(RawPoint(*point) for point in case["points"])
    elif case["none"]:
        assert parse_pointer_reply(case["text"]) == NoPoints(case["text"])
    else:
        with pytest.raises(UnparsablePointing):
            parse_pointer_reply(case["text"])


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["<points ", 'coords="', "1 2 3 4", ";", '">', "</points>", "none", "."])).map("".join)
)
def test_points_none_or_a_typed_error(text: str) -> None:
    try:
        reply = parse_pointer_reply(text)
    except UnparsablePointing:
        return
    assert isinstance(reply, NoPoints) or len(reply) > 0


@given(
    st.lists(
        st.tuples(
            st.integers(1, 30),
            st.lists(
                st.tuples(st.integers(1, 9), st.integers(0, 1000), st.integers(0, 1000)),
                min_size=1,
                max_size=4,
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_molmo2_round_trip(groups: list[tuple[int, list[tuple[int, int, int]]]]) -> None:
    coords = ";".join(" ".join(map(str, [anchor, *sum(triples, ())])) for anchor, triples in groups)
    expected = tuple(RawPoint("dog", x, y, anchor, n) for anchor, triples in groups for n, x, y in triples)
    assert parse_pointer_reply(f'<points coords="{coords}">dog</points>') == expected


@pytest.mark.parametrize(
    "unit",
    ['<points coords="', "<tracks ", "1 2 3 ", "coords=", '<points coords="1 1 2 3">', "there are no "],
)
def test_hostile_text_ends(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    try:
        assert parse_pointer_reply(text)
    except UnparsablePointing as error:
        assert len(str(error)) < 200
