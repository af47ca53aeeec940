"""Replies of detector, pointer and segmenter as marks of a record's images, and the notes about what is not drawn."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.grounding import encode_mask
from groundtrace.inference.request import TRUNCATED, Completion
from groundtrace.publishing.view.model_marks import (
    MAX_CHARS,
    MAX_MARKS,
    MAX_NOTES,
    ImageOfRow,
    ModelMarks,
    images_of,
    model_marks,
)

from .viewed import image

IMAGES = {"one": ImageOfRow(40, 30, ((0, None),)), "twice": ImageOfRow(40, 30, ((1, None), (2, 3)))}
CAT = [4.0, 5.0, 14.0, 15.0]


def asked(role: str, reply: str, shown: tuple[str, ...] = ("one",), **variables: str) -> tuple[dict[str, Any], str]:
    """A request as the log has it, with its reply. Its cache key is its content."""
    user = [{"text": "Find it."}, *({"media": f"input:{name}", "sha256": name} for name in shown)]
    line = {"stage": "verify", "role": role, "prompt": "some.v1", "user": user, "variables": variables}
    return line | {"stored": [json.dumps([role, shown, variables, reply])]}, reply


def detected(*boxes: list[float], label: str = "cat", shown: tuple[str, ...] = ("one",)) -> tuple[dict[str, Any], str]:
    return asked("detector", json.dumps({"boxes": boxes}), shown, label=label)


def segmented(*masks: object, boxes: list[Any], shown: tuple[str, ...] = ("one",)) -> tuple[dict[str, Any], str]:
    return asked("segmenter", json.dumps({"masks": masks}), shown, boxes=json.dumps(boxes))


def marked(*calls: tuple[dict[str, Any], str], family: str = "plain", cut: bool = False) -> ModelMarks:
    requests = [request for request, _ in calls]
    reason = TRUNCATED if cut else "stop"
    replies = {request["stored"][0]: Completion(reply, finish_reason=reason) for request, reply in calls}
    return model_marks(requests, replies, IMAGES, lambda _: FAMILIES.named(family))


def mask(*rows: str, x: int = 0, y: int = 0) -> dict[str, object]:
    return encode_mask(x, y, np.array([[letter == "#" for letter in row] for row in rows]))


def bounds(ring: list[float]) -> tuple[float, ...]:
    return min(ring[::2]), min(ring[1::2]), max(ring[::2]), max(ring[1::2])


def test_a_box_and_a_point_are_in_pixels_of_the_image() -> None:
    tags = '<points x1="7" y1="9" alt="cat">cat</points>'
    found = marked(detected(CAT, [0, 0, 2, 2]), asked("pointer", tags, entity="cat"))
    assert found.notes == []
    made = [{name: value for name, value in mark.items() if name != "key"} for mark in found.marks]
    about = {"label": "cat", "places": ((0, None),)}
    assert made == [
        {"role": "detector", "kind": "box", "n": 1, "x1": 4, "y1": 5, "x2": 14, "y2": 15} | about,
        {"role": "detector", "kind": "box", "n": 2, "x1": 0, "y1": 0, "x2": 2, "y2": 2} | about,
        {"role": "pointer", "kind": "point", "n": 1, "x": 7, "y": 9} | about,
    ]
    assert "detector" in found.marks[0]["key"] and "pointer" in found.marks[2]["key"]


def test_the_family_of_the_model_defines_the_coordinates() -> None:
    reply = '[{"bbox_2d": [100, 500, 500, 1000], "label": "cat"}]'
    [box] = marked(asked("detector", reply, label="cat"), family="qwen3-vl").marks
    assert (box["x1"], box["y1"], box["x2"], box["y2"]) == (4, 15, 20, 30)


@pytest.mark.parametrize(
    ("drawn", "rings"),
    [
        (mask("##", "##", x=4, y=5), [(4, 5, 6, 7)]),
        (mask("####", x=4, y=5), [(4, 5, 8, 6)]),
        (mask("##..##", "##..##", x=4, y=5), [(4, 5, 6, 7), (8, 5, 10, 7)]),
        (mask("####", "#..#", "#..#", "####", x=4, y=5), [(4, 5, 8, 9), (5, 6, 7, 8)]),
        (mask("#" * 40, *["." * 40] * 28, "#" * 40), [(0, 0, 40, 1), (0, 29, 40, 30)]),
    ],
    ids=["a region", "one pixel wide", "two regions", "a hole", "to the edges of the image"],
)
def test_a_mask_is_polygons_in_pixels_of_the_image(drawn: object, rings: list[tuple[float, ...]]) -> None:
    found = marked(detected(CAT), segmented(drawn, boxes=[CAT]))
    [made] = [mark for mark in found.marks if mark["role"] == "segmenter"]
    assert (made["kind"], made["label"], made["step_px"], found.notes) == ("mask", "cat", 1, [])
    assert sorted(map(bounds, made["rings"])) == rings


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (detected([4, 5, 400, 15]), "A reply of the detector is not drawn: box [4.0, 5.0, 400.0, 15.0]: x = 400 px"),
        (asked("detector", "I see no JSON.", label="cat"), "A reply of the detector is not drawn: the reply"),
        (asked("pointer", "<points", entity="cat"), "A reply of the pointer is not drawn: the reply ends within a tag"),
        (
            detected(CAT, label=""),
            "A reply of the detector is not drawn: the request with the prompt some.v1 names no object",
        ),
        (detected(CAT, shown=()), "A reply of the detector is not drawn: the request does not show exactly one image"),
        (
            detected(CAT, shown=("one", "twice")),
            "A reply of the detector is not drawn: the request does not show exactly one image",
        ),
        (
            detected(CAT, shown=("a crop",)),
            "A reply of the detector is not drawn: the request does not show exactly one image",
        ),
        (segmented(mask("..", ".."), boxes=[CAT]), "Masks of the segmenter are empty: ''"),
        (
            segmented(boxes=[CAT]),
            "A reply of the segmenter is not drawn: the reply's field 'masks' must be a list of 1",
        ),
        (
            segmented({"x": 1, "y": 1, "width": 4, "height": 2, "counts": [3, 4]}, boxes=[CAT]),
            "A reply of the segmenter is not drawn: the 'counts' of a mask must be lengths that add up to 4x2 pixels",
        ),
        (
            segmented({"x": 1, "y": 1, "width": 4, "height": 2, "counts": [3, -1, 6]}, boxes=[CAT]),
            "A reply of the segmenter is not drawn: the 'counts' of a mask",
        ),
        (
            segmented({"x": 38, "y": 1, "width": 4, "height": 2, "counts": [8]}, boxes=[CAT]),
            "A reply of the segmenter is not drawn: a 4x2 mask at (38, 1) is not inside the 40x30 image",
        ),
        (
            asked("segmenter", "{}"),
            "A reply of the segmenter is not drawn: the request with the prompt some.v1 has no list of boxes",
        ),
        (
            asked("segmenter", "{}", boxes="cat"),
            "A reply of the segmenter is not drawn: the request with the prompt some.v1 has no list",
        ),
        (
            asked("segmenter", "{}", boxes="7"),
            "A reply of the segmenter is not drawn: the request with the prompt some.v1 has no list",
        ),
    ],
)
def test_what_cannot_be_drawn_is_a_note(call: tuple[dict[str, Any], str], note: str) -> None:
    found = marked(call)
    assert found.marks == []
    [said] = found.notes
    assert said.startswith(note)


def test_a_reply_without_its_end_is_a_note() -> None:
    found = marked(detected(CAT), cut=True)
    assert (found.marks, found.notes) == ([], ["A reply of the detector is not drawn: the end of the reply is missing"])


def test_an_absent_object_and_the_replies_of_other_roles_are_nothing() -> None:
    calls = [detected(), asked("pointer", "There are none.", entity="cat"), asked("judge", "7", entity="cat")]
    assert marked(*calls) == ModelMarks()


def test_a_mask_has_the_labels_of_its_box_or_point_in_whatever_order_the_calls_are() -> None:
    one, two = mask("#"), mask("##")
    points = asked("segmenter", json.dumps({"masks": [one]}), points="[[7.5, 9.0]]")
    tags = '<points x1="7.5" y1="9" alt="nose">nose</points>'
    found = marked(
        points,
        segmented(one, two, one, boxes=[[1.0, 2.0, 3.0, 4.0], CAT, [0.0, 0.0, 9.0, 9.0]]),
        detected(CAT, [1.0, 2.0, 3.0, 4.0], label="dog"),
        detected(CAT, label="cat"),
        detected([0.0, 0.0, 9.0, 9.0], label="bird", shown=("twice",)),
        asked("pointer", tags, entity="nose"),
    )
    labels = [mark["label"] for mark in found.marks if mark["role"] == "segmenter"]
    assert labels == ["nose", "dog", "dog, cat", ""], "the last box is of another image"
    assert found.notes == []


def test_the_marks_of_an_image_that_is_repeated_have_all_its_places() -> None:
    found = marked(detected(CAT, [0, 0, 2, 2], shown=("twice",)))
    assert [(mark["n"], mark["places"]) for mark in found.marks] == [(n, ((1, None), (2, 3))) for n in (1, 2)]


def test_a_request_that_is_repeated_is_drawn_once() -> None:
    assert len(marked(detected(CAT), detected(CAT)).marks) == 1


def test_the_numbers_of_marks_and_notes_are_limited() -> None:
    many = [[x / 10, y / 10, x / 10 + 1, y / 10 + 1] for x in range(20) for y in range(20)]
    found = marked(detected(*many), detected(CAT, label="dog"), asked("pointer", "(7, 9)", entity="x" * 150))
    by_role = [mark["role"] for mark in found.marks]
    assert by_role.count("detector") == MAX_MARKS and max(mark["n"] for mark in found.marks) == MAX_MARKS
    assert found.notes[0] == f"Of the detector, only the first {MAX_MARKS} objects are drawn."
    bad = [asked("detector", f"{n} {'y' * 500}", label="cat") for n in range(2 * MAX_NOTES)]
    found = marked(*bad, segmented(mask("."), boxes=["x" * 1000]))
    assert len(found.notes) == MAX_NOTES and max(map(len, found.notes)) <= MAX_CHARS


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_images_are_found_by_their_files() -> None:
    first, second, unasked, broken = image(40, 30), image(60, 20), image(8, 8), b"no image"
    files = [first, second, first, unasked, broken]
    row = {"images": [{"bytes": each, "path": ""} for each in files], "frames": None}
    requests = [detected(CAT, shown=(digest(each),))[0] for each in (first, second, broken, b"a crop")]
    other = asked("judge", "7", shown=(digest(unasked),))[0]
    found = images_of(row, [*requests, other])
    assert found == {
        digest(first): ImageOfRow(40, 30, ((0, None), (2, None))),
        digest(second): ImageOfRow(60, 20, ((1, None),)),
    }
    frames = [{"media_index": n // 3, "frame": None if n > 2 else n + 1, "t_s": 0.5} for n in range(5)]
    assert images_of(row | {"frames": frames}, requests)[digest(first)].places == ((0, 1), (0, 3))


def test_the_images_of_a_rejected_row_have_their_sizes_in_the_row() -> None:
    media = [{"uri": "input:a.png", "sha256": name, "width": 50, "height": 60} for name in ("a", "b", "a")]
    row = {"images": None, "media": media}
    assert images_of(row, [detected(CAT, shown=("a",))[0]]) == {"a": ImageOfRow(50, 60, ((0, None), (2, None)))}
