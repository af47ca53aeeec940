"""From a reply's coordinates to pixels: points, boxes, masks; and every reply of the wrong form is a BadReply."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from groundtrace.grading.responses.pointing import RawPoint
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import (
    BadReply,
    Mask,
    ParsedPointing,
    encode_mask,
    json_object,
    masks_of_reply,
    points_in_px,
)
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import MediaRef

MEDIUM = MediaRef("input:a.png", "image", "a" * 64, "b" * 64, "0" * 16, 1000, 1000, 1, 100)


def medium(width: int = 400, height: int = 200) -> MediaRef:
    return MediaRef("input:a.png", "image", "a" * 64, "b" * 64, "0" * 16, width, height, 1, 100)


POINTS = [
    (CoordinateFrame.PX, '<points x1="10" y1="20" alt="x">x</points>', [(10, 20)]),
    (CoordinateFrame.MOLMO100, '<point x="50.0" y="25.0" alt="x">x</point>', [(200, 50)]),
    (CoordinateFrame.MOLMO100, '<points x1="50" y1="25" x2="100" y2="100" alt="x">x</points>', [(200, 50), (400, 200)]),
    (CoordinateFrame.MOLMO1000, '<points coords="1 1 500 250 2 1000 0">x</points>', [(200, 50), (400, 0)]),
    (CoordinateFrame.NORM1000, '<points x1="500" y1="250" alt="x">x</points>', [(200, 50)]),
    (CoordinateFrame.UNIT, '<points x1="0.5" y1="0.25" alt="x">x</points>', [(200, 50)]),
    (CoordinateFrame.MOLMO100, '<point x="100.9" y="25.0" alt="x">x</point>', [(400, 50)]),
    (CoordinateFrame.PX, "There are none.", []),
]


@pytest.mark.parametrize(("frame", "text", "expected"), POINTS)
def test_points(frame: CoordinateFrame, text: str, expected: list[tuple[float, float]]) -> None:
    found = Family("own", frame).points(text, "red dog", medium(), 1).found
    assert [(point.x, point.y) for point in found] == [pytest.approx(pair) for pair in expected]
    assert {(point.label, point.media_index) for point in found} <= {("red dog", 1)}


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (CoordinateFrame.PX, "I see a dog at the left."),
        (CoordinateFrame.PX, ""),
        (CoordinateFrame.PX, '<point x="405" y="10" alt="x">x</point>'),
        (CoordinateFrame.MOLMO100, '<point x="50" y="-3" alt="x">x</point>'),
        (CoordinateFrame.MOLMO100, '<points x1="50" y1="25" x2="150" y2="1" alt="x">x</points>'),
    ],
)
def test_points_of_the_wrong_form(frame: CoordinateFrame, text: str) -> None:
    with pytest.raises(BadReply):
        Family("own", frame).points(text, "dog", medium(), 0)


def test_points_on_a_picture_too_thin_for_the_frame() -> None:
    with pytest.raises(BadReply):
        points_in_px([RawPoint("x", 1, 1)], "dog", CoordinateFrame.QWEN25_RESIZED_PX, medium(5, 2000), 0)


BOXES = [
    (CoordinateFrame.PX, [[10, 20, 30, 40]], [(10, 20, 30, 40)]),
    (CoordinateFrame.PX, [[30, 40, 10, 20]], [(10, 20, 30, 40)]),
    (CoordinateFrame.NORM1000, [[0, 0, 500, 1000]], [(0, 0, 200, 200)]),
    (CoordinateFrame.GEMINI, [[0, 250, 1000, 500]], [(100, 0, 200, 200)]),
    (CoordinateFrame.PX, [[-2, 0, 402, 201]], [(0, 0, 400, 200)]),
    (CoordinateFrame.PX, [[1, 2, 3, 4], [5, 6, 7, 8]], [(1, 2, 3, 4), (5, 6, 7, 8)]),
    (CoordinateFrame.PX, [], []),
]


@pytest.mark.parametrize(("frame", "rows", "expected"), BOXES)
def test_boxes(frame: CoordinateFrame, rows: list, expected: list[tuple[float, ...]]) -> None:
    found = Family("own", frame, any_corners=True).boxes(json.dumps({"boxes": rows}), "dog", medium(), 2).found
    assert [(box.x1, box.y1, box.x2, box.y2) for box in found] == [pytest.approx(box) for box in expected]
    assert {(box.label, box.media_index) for box in found} <= {("dog", 2)}


BAD_BOXES = {
    "no JSON": "no boxes here",
    "no boxes": "{}",
    "null": '{"boxes": null}',
    "a mapping": '{"boxes": {}}',
    "a text": '{"boxes": ""}',
    "three numbers": '{"boxes": [[1, 2, 3]]}',
    "no numbers": '{"boxes": [[]]}',
    "five numbers": '{"boxes": [[1, 2, 3, 4, 0.9]]}',
    "a box as text": '{"boxes": ["1234"]}',
    "words": '{"boxes": [["a", "b", "c", "d"]]}',
    "a null": '{"boxes": [[1, 2, 3, null]]}',
    "numbers alone": '{"boxes": [1, 2, 3, 4]}',
    "outside": '{"boxes": [[0, 0, 405, 10]]}',
    "NaN": '{"boxes": [[0, 0, NaN, 10]]}',
    "infinite": '{"boxes": [[0, 0, Infinity, 10]]}',
    "beyond a float": json.dumps({"boxes": [[0, 0, 10**400, 10]]}),
}


@pytest.mark.parametrize("case", BAD_BOXES)
def test_boxes_of_the_wrong_form(case: str) -> None:
    with pytest.raises(BadReply):
        PLAIN.boxes(BAD_BOXES[case], "dog", medium(), 0)


MASKS = arrays.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12)))


@settings(max_examples=150)
@given(MASKS, st.integers(0, 50), st.integers(0, 50))
def test_masks_survive_run_lengths(pixels: np.ndarray, x: int, y: int) -> None:
    (mask,) = masks_of_reply(json.dumps({"masks": [encode_mask(x, y, pixels)]}), 1, MEDIUM)
    assert (mask.x, mask.y) == (x, y)
    assert mask.pixels.dtype == bool
    assert np.array_equal(mask.pixels, pixels)


@settings(max_examples=60)
@given(MASKS)
def test_run_lengths_alternate_from_the_background(pixels: np.ndarray) -> None:
    counts = encode_mask(0, 0, pixels)["counts"]
    assert sum(counts) == pixels.size
    assert sum(counts[1::2]) == pixels.sum()
    assert all(count > 0 for count in counts[1:])


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([[0, 0], [0, 0]], [4]),
        ([[1, 1], [1, 1]], [0, 4]),
        ([[0, 1], [1, 0]], [1, 2, 1]),
        ([[1, 0], [0, 1]], [0, 1, 2, 1]),
    ],
)
def test_run_lengths_by_hand(rows: list[list[int]], counts: list[int]) -> None:
    assert encode_mask(3, 4, np.array(rows, bool)) == {"x": 3, "y": 4, "width": 2, "height": 2, "counts": counts}


def mask_reply(**changes: object) -> str:
    return json.dumps({"masks": [{"x": 0, "y": 0, "width": 2, "height": 2, "counts": [1, 2, 1], **changes}]})


BAD_MASKS = {
    "no JSON": "none",
    "no masks": "{}",
    "null": '{"masks": null}',
    "no mask": '{"masks": []}',
    "a mask as text": '{"masks": ["a"]}',
    "a mask as list": '{"masks": [[1]]}',
    "counts missing": '{"masks": [{"x": 0, "y": 0, "width": 2, "height": 2}]}',
    "counts too short": mask_reply(counts=[1, 2]),
    "counts too long": mask_reply(counts=[1, 2, 2]),
    "counts negative": mask_reply(counts=[5, -1]),
    "counts no numbers": mask_reply(counts=["a"]),
    "counts nested": mask_reply(counts=[[1], [2, 1]]),
    "counts beyond 64 bits": mask_reply(counts=[2**70]),
    "width no number": mask_reply(width="wide"),
    "width negative": mask_reply(width=-2, height=-2),
    "x infinite": mask_reply(x=math.inf),
    "x NaN": mask_reply(x=math.nan),
    "two for one box": json.dumps({"masks": [encode_mask(0, 0, np.ones((1, 1), bool))] * 2}),
}


@pytest.mark.parametrize("case", BAD_MASKS)
def test_masks_of_the_wrong_form(case: str) -> None:
    with pytest.raises(BadReply):
        masks_of_reply(BAD_MASKS[case], 1, MEDIUM)


HUGE_MASKS = {
    "counts that overflow to the size": mask_reply(counts=[2**63 - 1, 2**63 - 1, 6]),
    "larger than memory": mask_reply(width=10**9, height=10**8, counts=[10**17]),
}


@pytest.mark.parametrize("case", HUGE_MASKS)
def test_masks_that_could_end_the_process(case: str) -> None:
    """In a process of its own, for run lengths that are taken at their word end it."""
    code = (
        "import sys\nfrom groundtrace.inference.grounding import BadReply, masks_of_reply\n"
        "from groundtrace.schemas.records import MediaRef\n"
        "medium = MediaRef('input:a.png', 'image', '', '', '0', 4000, 3000, 1, 1)\n"
        "try:\n    masks_of_reply(sys.argv[1], 1, medium)\nexcept BadReply:\n    print('bad reply')\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, HUGE_MASKS[case]], capture_output=True, text=True, check=False, timeout=60
    )
    assert (child.returncode, child.stdout) == (0, "bad reply\n"), child.stderr[-300:]


@pytest.mark.parametrize(
    ("x", "y", "inside"),
    [
        (10.0, 20.0, True),
        (10.99, 20.99, True),
        (11.0, 20.0, False),
        (12.5, 21.5, True),
        (9.99, 20.0, False),
        (10.0, 19.99, False),
        (13.0, 20.0, False),
        (10.0, 22.0, False),
        (-10.0, -20.0, False),
    ],
)
def test_argos_eq2_mask_holds_the_pixel_under_the_point(x: float, y: float, inside: bool) -> None:
    assert Mask(10, 20, np.array([[1, 0, 0], [0, 0, 1]], bool)).holds(x, y) is inside


@pytest.mark.parametrize(("x", "y"), [(-0.5, 0.0), (0.0, -0.5), (-0.01, -0.01)])
def test_a_point_left_of_or_above_the_picture_is_in_no_mask(x: float, y: float) -> None:
    assert not Mask(0, 0, np.ones((2, 2), bool)).holds(x, y)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": {"b": 2}}\n```', {"a": {"b": 2}}),
        ('Here it is: {"a": "}"} as asked.', {"a": "}"}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        (r'{"a": ["\ud83d b"]}', {"a": ["\ufffd b"]}),
    ],
)
def test_json_object(text: str, expected: dict) -> None:
    assert json_object(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}{",
        "{",
        "[1]",
        '"a"',
        '{"a": 1} and {"b": 2}',
        '{"a": 1} {"a": 1}',
        '{"score": 1, "score": 0}',
        '{"a": [{"b": 1, "b": 2}]}',
        "{" * 100_000,
        "[" * 100_000,
        r'{"a": "\ud83d", "b": ' + '{"a": ' * 900 + "1" + "}" * 901,
    ],
)
def test_json_object_of_the_wrong_form(text: str) -> None:
    with pytest.raises(BadReply):
        json_object(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_any_text_is_an_object_or_a_bad_reply(text: str) -> None:
    try:
        assert isinstance(json_object(text), dict)
    except BadReply as error:
        assert len(str(error)) < 400


@settings(max_examples=200)
@given(JSON)
def test_any_json_is_boxes_or_a_bad_reply(value: object) -> None:
    try:
        found = PLAIN.boxes(json.dumps({"boxes": value}), "dog", medium(), 0).found
    except BadReply:
        return
    assert all(0 <= box.x1 <= box.x2 <= 400 and 0 <= box.y1 <= box.y2 <= 200 for box in found)


@settings(max_examples=200)
@given(JSON, st.sampled_from(["x", "width", "counts", "masks"]))
def test_any_json_is_masks_or_a_bad_reply(value: object, where: str) -> None:
    text = json.dumps({"masks": value}) if where == "masks" else mask_reply(**{where: value})
    try:
        masks = masks_of_reply(text, 1, MEDIUM)
    except BadReply:
        return
    assert [mask.pixels.ndim for mask in masks] == [2]


def test_points_keep_the_label_that_was_asked_for() -> None:
    reply = '<point x="1" y="2" alt="cat">cat</point>'
    assert PLAIN.points(reply, "dog", medium(), 0) == ParsedPointing((Point("dog", 1.0, 2.0, 0),), "cat")
