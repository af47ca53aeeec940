import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.responses.pointing import NoPoints
from groundtrace.inference.families.json_reply import (
    box_reader,
    coordinates,
    json_items,
    json_values,
    key,
    label_of,
    point_reader,
)
from groundtrace.inference.grounding import BadReply

BOX = key("bbox_2d")
ONE, TWO = {"bbox_2d": [1, 2, 3, 4], "label": "a"}, {"bbox_2d": [5, 6, 7, 8]}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("no brackets", []),
        ("prose [as it is] and {so on}", []),
        ("[1] and [2, 3]", [[1], [2, 3]]),
        ('```json\n[{"a": 1}]\n```', [[{"a": 1}]]),
        ("[{'a': 1,},]", [[{"a": 1}]]),
        ('{"a": "[not a list"}', [{"a": "[not a list"}]),
        ('{"a": 1, "a": 1}', [{"a": 1}]),
        ("{'a': 1, 'a': 1}", [{"a": 1}]),
        ("{'a': 1, \"a\": 2}", BadReply),
        ("[{'b': {'a': [1], 'a': [2]}}]", BadReply),
        (r"{'a': '\ud83d'}", [{"a": "\ufffd"}]),
        (r'["\ud83d"]', [["\ufffd"]]),
        ("[[x1, y1]", BadReply),
        ('[{"a": 1}, {"a"', BadReply),
        ("[1, 2", BadReply),
        ('{"a": "b "c" d"}', BadReply),
        ("[" * 100_000, BadReply),
        ("[1," * 5_000, BadReply),
    ],
)
def test_json_in_a_text(text: str, values: Any) -> None:
    if values is BadReply:
        with pytest.raises(BadReply):
            list(json_values(text))
    else:
        assert list(json_values(text)) == values


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (json.dumps([ONE, TWO]), [ONE, TWO]),
        (json.dumps(ONE), [ONE]),
        (f"{json.dumps(ONE)}, {json.dumps(TWO)}", [ONE, TWO]),
        (json.dumps({"boxes": [ONE]}), [ONE]),
        (f"{json.dumps([ONE])} as I said: {json.dumps([ONE])}", [ONE]),
        ("[]", []),
        ('{"boxes": []}', []),
        ("There is no a.", []),
        ("see [1]: [] it is", []),
        (json.dumps([[ONE], [TWO]]), [ONE, TWO]),
    ],
)
def test_items(text: str, items: list[Any]) -> None:
    assert json_items(text, BOX, ("boxes",)) == items


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prose",
        json.dumps({"boxes": ONE}),
        json.dumps({"boxes": [ONE, {}]}),
        json.dumps({"masks": [ONE]}),
        json.dumps([ONE, {"label": "b"}]),
        f"{json.dumps([ONE])} {json.dumps([TWO])}",
        f"[] or {json.dumps([TWO])}",
        "[[1, 2, 3, 4]]",
        '{"bbox_2d": [1, 2, 3, 4], "bbox_2d": [5, 6, 7, 8]}',
    ],
)
def test_texts_that_are_no_answer(text: str) -> None:
    with pytest.raises(BadReply):
        json_items(text, BOX, ("boxes",))


def test_an_item_may_hold_several_boxes() -> None:
    found = box_reader(BOX)('{"bbox_2d": [[1, 2, 3, 4], [5, 6, 7, 8]], "label": "a"}')
    assert [(box.corners, box.label) for box in found] == [((1, 2, 3, 4), "a"), ((5, 6, 7, 8), "a")]


@pytest.mark.parametrize(
    "row", ['["a", 1, 2, 3]', "[true, 1, 2, 3]", "[1, 2, 3, null]", "1", '"1234"', "{}", "[1, 2, 3, [4]]"]
)
def test_a_row_of_something_else(row: str) -> None:
    with pytest.raises(BadReply):
        box_reader(BOX)(f'[{{"bbox_2d": {row}}}]')


def test_a_coordinate_that_is_missing() -> None:
    with pytest.raises(BadReply):
        point_reader(coordinates(2))('{"x": 0.5}')
    assert isinstance(point_reader(coordinates(2))("[]"), NoPoints)


@pytest.mark.parametrize(
    ("item", "count", "y_first", "row"),
    [
        ({"x": 1, "y": 2}, 2, False, [1, 2]),
        ({"y": 2, "x": 1}, 2, True, [2, 1]),
        ({"point": [1, 2], "x": 9, "y": 9}, 2, False, [1, 2]),
        ({"point": {"x": 1, "y": 2}}, 2, True, [2, 1]),
        ({"x": 1, "y": 2, "radius": 3}, 2, False, [1, 2]),
        ({"x": 1, "y": 2, "width": 3, "height": 4}, 2, False, None),
        ({"x": 1, "y": 2, "width": 3, "height": 4}, 4, False, [1, 2, 4, 6]),
        ({"x": 1, "y": 2, "w": 3, "h": 4}, 4, True, [2, 1, 6, 4]),
        ({"x1": 1, "y1": 2, "x2": 3, "y2": 4}, 4, False, [1, 2, 3, 4]),
        ({"xmin": 1, "ymin": 2, "xmax": 3, "ymax": 4}, 4, True, [2, 1, 4, 3]),
        ({"left": 1, "top": 2, "right": 3, "bottom": 4}, 4, False, [1, 2, 3, 4]),
        ({"x_min": 1, "y_min": 2, "x_max": 3}, 4, False, None),
        ({"x": 1, "y": 2}, 4, False, None),
        ([1, "2"], 2, False, [1, "2"]),
        (["0", 0.5], 2, False, ["0", 0.5]),
        ([1, "2px"], 2, False, None),
        ([1, 2, 3], 2, False, None),
        ("1, 2", 2, False, None),
    ],
)
def test_coordinates_of_an_item(item: Any, count: int, y_first: bool, row: object) -> None:
    assert coordinates(count, "point", y_first=y_first)(item) == row


@pytest.mark.parametrize(
    ("item", "label"), [(ONE, "a"), (TWO, ""), ({"label": 3, "name": "b"}, "b"), ({"class": "c"}, "c"), ([1], "")]
)
def test_labels(item: Any, label: str) -> None:
    assert label_of(item) == label


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["bbox_2d", "label", "x"]), inner),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.text(alphabet="[]{}\",:1a '", max_size=40) | JSON.map(json.dumps))
def test_any_text_is_boxes_or_a_bad_reply(text: str) -> None:
    try:
        found = box_reader(BOX, "boxes")(text)
    except BadReply:
        return
    assert all(len(box.corners) == 4 for box in found)
