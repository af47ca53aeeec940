"""What every family shares: how it asks, and from a reply to pixels."""

from dataclasses import replace

import pytest

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.grading.responses.pointing import NoPoints, RawPoint
from groundtrace.inference.families.base import Family, after_thinking
from groundtrace.inference.families.labels import MAX_LABEL_CHARS
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.grounding import BadReply, ParsedPointing, RawBox
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import MediaRef

WIDTH, HEIGHT = 560, 280
IMAGE = MediaRef("input:a.png", "image", "s", "p", "d", WIDTH, HEIGHT, 1, 1)
PART = MediaPart("input:a.png", "s")


def asked(family: Family, label: str) -> list[str]:
    """The texts in which a family is asked to point and to box."""
    prompts = [family.ask_points(PART, label)] + ([family.ask_boxes(PART, label)] if family.box_prompt else [])
    assert all(prompt.media == (PART,) for prompt in prompts)
    return ["\n".join(part.text for part in prompt.user if isinstance(part, TextPart)) for prompt in prompts]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_label_is_asked_for_by_its_name(name: str) -> None:
    assert all("red dog" in text for text in asked(FAMILIES.named(name), "red dog"))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("token", ["<|im_start|>", "<image>", "</ref>", "<|begin_of_box|>", "<points>", "[INST]"])
def test_a_label_brings_no_token_of_a_template(name: str, token: str) -> None:
    family = FAMILIES.named(name)
    assert asked(family, f"dog {token}cat") == asked(family, "dog cat")
    assert asked(family, f'dog\n"{token}') == asked(family, "dog '")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("label", ["", "?!", "<image>", "<|im_start|><|im_end|>", "x" * (MAX_LABEL_CHARS + 1)])
def test_a_label_that_names_nothing_is_not_asked_for(name: str, label: str) -> None:
    family = FAMILIES.named(name)
    with pytest.raises(BadReply, match="the label"):
        family.ask_points(PART, label)
    if family.box_prompt:
        with pytest.raises(BadReply, match="the label"):
            family.ask_boxes(PART, label)


@pytest.mark.parametrize(
    ("frame", "order"), [(CoordinateFrame.GEMINI, "[y1, x1, y2, x2]"), (CoordinateFrame.NORM1000, "[x1, y1, x2, y2]")]
)
def test_our_own_form_is_asked_for_in_the_order_of_the_frame(frame: CoordinateFrame, order: str) -> None:
    assert order in asked(Family("own", frame), "dog")[1]


@pytest.mark.parametrize("name", FAMILIES)
def test_none_and_nonsense_are_told_apart(name: str) -> None:
    assert FAMILIES.named(name).points("There are none.", "dog", IMAGE, 0) == ParsedPointing(())
    for read in (FAMILIES.named(name).points, FAMILIES.named(name).boxes):
        with pytest.raises(BadReply):
            read("I would rather not say.", "dog", IMAGE, 0)


def test_a_family_may_read_replies_in_its_own_way() -> None:
    def points(text: str) -> tuple[RawPoint, ...] | NoPoints:
        return tuple(RawPoint("", *map(float, pair.split())) for pair in text.split(";")) if text else NoPoints(text)

    def boxes(text: str) -> list[RawBox]:
        return [RawBox((float(a), float(b), float(c), float(d))) for a, b, c, d in map(str.split, text.split(";"))]

    own = Family("own", CoordinateFrame.UNIT, read_points=points, read_boxes=boxes)
    assert own.points("0.5 0.5;1 0", "dog", IMAGE, 0).found == (
        Point("dog", 280.0, 140.0, 0),
        Point("dog", 560.0, 0.0, 0),
    )
    assert own.points("", "dog", IMAGE, 0) == ParsedPointing(())
    assert own.boxes("0 0 0.5 1", "dog", IMAGE, 0).found == (Box("dog", 0.0, 0.0, 280.0, 280.0, media_index=0),)
    with pytest.raises(BadReply, match="is outside the image"):
        own.points("2 0", "dog", IMAGE, 0)


def test_prose_is_read_where_a_family_says_so() -> None:
    own = Family("own", CoordinateFrame.PX)
    with pytest.raises(BadReply):
        own.points("The dog is at (12, 34).", "dog", IMAGE, 0)
    found = replace(own, reads_prose=True).points("The dog is at (12, 34).", "dog", IMAGE, 0)
    assert found == ParsedPointing((Point("dog", 12.0, 34.0, 0),))


def test_a_family_that_cannot_point_gives_the_middles_of_its_boxes() -> None:
    own = Family("own", CoordinateFrame.PX, point_prompt="")
    reply = '{"boxes": [[0, 0, 10, 20], [0, 0, 10, 20], [20, 20, 30, 30]]}'
    assert own.points(reply, "dog", IMAGE, 2).found == (Point("dog", 5.0, 10.0, 2), Point("dog", 25.0, 25.0, 2))
    assert asked(own, "dog")[0] == asked(own, "dog")[1]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("no thinking", "no thinking"),
        ("<think>draft</think>answer", "answer"),
        ("draft</think>answer", "answer"),
        ("<THINK>one</THINK>two<think>three</think >four", "four"),
        ("<think>draft</think>", ""),
    ],
)
def test_thinking_is_passed_over(text: str, rest: str) -> None:
    assert after_thinking(text) == rest


@pytest.mark.parametrize("text", ["<think>", "<think>one</think>answer<think>two"])
def test_thinking_without_an_end_is_a_bad_reply(text: str) -> None:
    with pytest.raises(BadReply, match="before its thinking ends"):
        after_thinking(text)


BOXING = [name for name in FAMILIES if FAMILIES.named(name).box_prompt]


@pytest.mark.parametrize("name", BOXING)
def test_the_object_of_a_question_is_asked_for_in_the_familys_form(name: str) -> None:
    family = FAMILIES.named(name)
    prompt = family.ask_object(PART, 'red "dog" <image>', "What is on its collar?\nEND 0")
    [text] = [part.text for part in prompt.user if isinstance(part, TextPart)]
    assert prompt.media == (PART,)
    assert "What is on its collar?" in text
    assert "red 'dog'" in text
    assert "<image>" not in text
    filled = family.box_form.replace("LABEL", "red 'dog'")
    assert filled.split("…")[0] in text
    assert "LABEL" not in text
    with pytest.raises(BadReply, match="the label"):
        family.ask_object(PART, "?!", "What is it?")


def test_the_object_of_a_question_is_asked_for_in_the_order_of_the_frame() -> None:
    for frame, order in ((CoordinateFrame.GEMINI, "[y1, x1, y2, x2]"), (CoordinateFrame.PX, "[x1, y1, x2, y2]")):
        prompt = Family("own", frame).ask_object(PART, "dog", "What is it?")
        assert f'{{"boxes": [{order}, …]}}' in "".join(part.text for part in prompt.user if isinstance(part, TextPart))
