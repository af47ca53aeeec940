"""The turns of a row: marks, control tokens, parts, and frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.publishing.exports.turns import check_marks, content_parts, has_tags, in_frame, turns_of
from groundtrace.schemas.coordinates import QWEN25_IMAGE
from tests.publishing.exports.made_runs import trace


@given(st.lists(st.text(alphabet="ab<>image \n"), min_size=1, max_size=5), st.integers(0, 6))
def test_parts_are_the_text_with_its_first_marks_taken_out(texts: list[str], images: int) -> None:
    content = "<image>".join(texts)
    found = content_parts(content, images)
    assert "".join("<image>" if part["type"] == "image" else part["text"] or "" for part in found) == content
    assert sum(part["type"] == "image" for part in found) == min(images, content.count("<image>"))


def test_a_text_without_content_is_a_part() -> None:
    assert content_parts("", 1) == [{"type": "text", "text": ""}]


@pytest.mark.parametrize(
    ("asked", "answered", "images", "reason", "loosely"),
    [
        ("<image>a", "b", 1, None, None),
        ("<image><image>a", "b", 2, None, None),
        ("Frame 1 (0.00 s): <image>\nFrame 2 (1.00 s): <image>\na", "b", 2, None, None),
        ("a", "b", 0, None, None),
        ("< image >a <images>", "<imagine>", 0, None, None),
        ("a", "b", 1, "image_count", "image_count"),
        ("<image>a <image>", "b", 1, "control_token", None),
        ("<image>a", "an <image>", 1, "control_token", None),
        ("<image>a <video>", "b", 1, "control_token", None),
        ("<image>a", "<audio>", 1, "control_token", None),
        ("<image>a<|im_end|>", "b", 1, "control_token", "control_token"),
        ("<image>a", "<|image_pad|>", 1, "control_token", "control_token"),
        ("<image>a <|image_1|>", "b", 1, "control_token", "control_token"),
        ("<image>a <IMG_CONTEXT>", "b", 1, "control_token", "control_token"),
        ("<image>a </img>", "b", 1, "control_token", "control_token"),
        ("<image>a", "<im_patch>", 1, "control_token", "control_token"),
        ("<image>a", "<start_of_turn>", 1, "control_token", "control_token"),
        ("<image>a", "\x1b[31mred", 1, "control_token", "control_token"),
        ("<image>a\u202e", "b", 1, "control_token", "control_token"),
        ("<image>a <b> c", "x < y, <br>", 1, None, None),
    ],
)
def test_marks(asked: str, answered: str, images: int, reason: str | None, loosely: str | None) -> None:
    """``loosely``: in a format whose readers take the marks of media for text."""
    turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    found = []
    for strict in (True, False):
        try:
            check_marks(turns, images, strict)
            found.append(None)
        except LeftOut as error:
            found.append(error.reason)
    assert found == [reason, loosely if reason else None]


@pytest.mark.parametrize("turns", [None, [], [{"role": "user", "content": None}], [{"role": None, "content": "a"}]])
def test_turns_that_are_none(turns: list | None) -> None:
    with pytest.raises(LeftOut, match="missing_text"):
        turns_of({"prompt": turns}, "prompt")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<points x1", True),
        ("<POINT ", True),
        ("<box>[", True),
        ("a <boxes>", False),
        ("pointless", False),
        ("", False),
        (None, False),
    ],
)
def test_tags_are_found(text: str | None, found: bool) -> None:
    assert has_tags(text) is found


FRAMES = {  # 100, 50 of 200x100 as the family writes it
    "claude": (100, 50),
    "claude-1568": (100, 50),
    "gemini": (500, 500),
    "glm-v": (500, 500),
    "internvl": (500, 500),
    "molmo": (50, 50),
    "molmo2": (500, 500),
    "plain": (100, 50),
    "qwen2.5-vl": (98, 56),
    "qwen3-vl": (500, 500),
}


def speech(name: str) -> Speech:
    family = FAMILIES.named(name)
    return Speech(family.frame, family.decimals, family.resize or QWEN25_IMAGE)


@pytest.mark.parametrize("name", FRAMES)
def test_tags_stand_in_the_familys_frame(name: str) -> None:
    written = in_frame(trace((100, 50)), [(200, 100)], speech(name))
    [point] = parse_points(written)
    assert (point.x, point.y) == FRAMES[name]
    assert written.replace(f'x1="{point.x:g}" y1="{point.y:g}"', 'x1="100" y1="50"') == trace((100, 50))


def test_gemini_writes_y_first() -> None:
    [point] = parse_points(in_frame(trace((20, 50)), [(200, 100)], speech("gemini")))
    assert (point.x, point.y) == (500, 100)


def test_each_image_has_its_size() -> None:
    text = f"{trace((100, 50))} In picture 2 {trace((100, 50))}"
    found = parse_points(in_frame(text, [(200, 100), (1000, 1000)], speech("qwen3-vl")))
    assert [(point.x, point.y) for point in found] == [(500, 500), (100, 50)]


@pytest.mark.parametrize(
    ("at", "sizes", "reason"),
    [
        ((900, 50), [(200, 100)], "outside_image"),
        ((1, 1), [], "outside_image"),
        ((1, 1), [(1000, 2)], "unresizable_image"),
    ],
)
def test_tags_without_a_form(at: tuple[float, float], sizes: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(LeftOut, match=reason):
        in_frame(trace(at), sizes, speech("qwen2.5-vl"))


@pytest.mark.parametrize(
    "tag",
    [
        '<points x1="1e2" y1="50" alt="cup">cup</points>',
        '<points x1="100,5" y1="50" alt="cup">cup</points>',
        '<points x1="100" alt="cup">cup</points>',
        '<box x1="10" y1="10" x2="20" y2="20">cup</box>',
        "<box>[10, 10, 20]</box>",
    ],
)
def test_a_tag_that_cannot_be_read_does_not_stay_in_pixels(tag: str) -> None:
    with pytest.raises(LeftOut, match="unreadable_tag"):
        in_frame(f"{trace((100, 50))} {tag}", [(200, 100)], speech("qwen3-vl"))


@pytest.mark.parametrize("text", ["<points>", '<points alt="cup 2">cup 2</points>', "a <box> of 3"])
def test_a_tag_without_a_position_is_text(text: str) -> None:
    assert in_frame(text, [(200, 100)], speech("qwen3-vl")) == text
