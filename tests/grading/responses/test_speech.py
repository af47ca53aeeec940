"""Tags between original pixels and a model's own frame."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.speech import Speech
from groundtrace.grading.responses.tags import format_box_tag, format_points_tag
from groundtrace.schemas.coordinates import CoordinateFrame, OutOfFrame, ResizeRule

SPEECHES = {
    CoordinateFrame.MOLMO100: Speech(CoordinateFrame.MOLMO100, 1),
    CoordinateFrame.MOLMO1000: Speech(CoordinateFrame.MOLMO1000),
    CoordinateFrame.NORM1000: Speech(CoordinateFrame.NORM1000),
    CoordinateFrame.GEMINI: Speech(CoordinateFrame.GEMINI),
    CoordinateFrame.PX: Speech(CoordinateFrame.PX, 1),
    CoordinateFrame.QWEN25_RESIZED_PX: Speech(CoordinateFrame.QWEN25_RESIZED_PX),
}
SIZE = (640, 480)
"""Which Qwen2.5-VL resizes to 644x476, and Qwen3-VL's rule to 640x480."""


@pytest.mark.parametrize(
    ("frame", "pixels", "written"),
    [
        (CoordinateFrame.MOLMO100, (320, 120), (50, 25)),
        (CoordinateFrame.MOLMO100, (321, 120), (50.2, 25)),  # 50.15625
        (CoordinateFrame.MOLMO1000, (321, 120), (502, 250)),  # 501.5625
        (CoordinateFrame.NORM1000, (320, 120), (500, 250)),
        (CoordinateFrame.NORM1000, (0, 480), (0, 1000)),
        (CoordinateFrame.NORM1000, (100.5, 33.3), (157, 69)),  # 157.03, 69.375
        (CoordinateFrame.GEMINI, (320, 120), (250, 500)),  # y is written first
        (CoordinateFrame.PX, (320.25, 120), (320.2, 120)),
        (CoordinateFrame.QWEN25_RESIZED_PX, (320, 120), (322, 119)),
        (CoordinateFrame.QWEN25_RESIZED_PX, (640, 480), (644, 476)),
    ],
)
def test_points_to_the_model(frame: CoordinateFrame, pixels: tuple[float, float], written: tuple[float, float]) -> None:
    text = f"First {format_points_tag('a cat', [pixels])}, so 3."
    assert SPEECHES[frame].to_model(text, [SIZE]) == f"First {format_points_tag('a cat', [written])}, so 3."


@pytest.mark.parametrize(
    ("frame", "pixels", "written"),
    [
        (CoordinateFrame.MOLMO100, (64, 48, 320, 240), (10, 10, 50, 50)),
        (CoordinateFrame.MOLMO1000, (64, 48, 320, 240), (100, 100, 500, 500)),
        (CoordinateFrame.NORM1000, (64, 48, 320, 240), (100, 100, 500, 500)),
        (CoordinateFrame.GEMINI, (64, 96, 320, 240), (200, 100, 500, 500)),
        (CoordinateFrame.PX, (64, 48, 320, 240), (64, 48, 320, 240)),
        (CoordinateFrame.QWEN25_RESIZED_PX, (160, 120, 320, 240), (161, 119, 322, 238)),
    ],
)
def test_boxes_both_ways(
    frame: CoordinateFrame, pixels: tuple[float, float, float, float], written: tuple[float, float, float, float]
) -> None:
    ours, theirs = format_box_tag("cat", pixels), format_box_tag("cat", written)
    assert SPEECHES[frame].to_model(ours, [SIZE]) == theirs
    assert SPEECHES[frame].to_pixels(theirs, [SIZE]) == ours


@pytest.mark.parametrize(
    ("frame", "written", "pixels"),
    [
        (CoordinateFrame.MOLMO100, (50, 25), (320, 120)),
        (CoordinateFrame.MOLMO1000, (500, 250), (320, 120)),
        (CoordinateFrame.NORM1000, (500, 250), (320, 120)),
        (CoordinateFrame.NORM1000, (1, 1), (0.6, 0.5)),  # nothing is guessed from magnitudes
        (CoordinateFrame.NORM1000, (1010, -10), (640, 0)),  # within a hundredth of the side
        (CoordinateFrame.GEMINI, (250, 500), (320, 120)),
        (CoordinateFrame.PX, (320, 120), (320, 120)),
        (CoordinateFrame.QWEN25_RESIZED_PX, (322, 119), (320, 120)),
    ],
)
def test_points_to_pixels(frame: CoordinateFrame, written: tuple[float, float], pixels: tuple[float, float]) -> None:
    found = SPEECHES[frame].to_pixels(format_points_tag("cat", [written]), [SIZE])
    assert found == format_points_tag("cat", [pixels])


def test_the_rule_is_the_models_own() -> None:
    """Factor 28 makes 644x476 of 650x470, factor 32 makes 640x480 of it."""
    point = format_points_tag("x", [(650, 470)])
    of_28 = Speech(CoordinateFrame.QWEN25_RESIZED_PX).to_model(point, [(650, 470)])
    factor_32 = ResizeRule(32, 4 * 32**2, 16384 * 32**2)
    of_32 = Speech(CoordinateFrame.QWEN25_RESIZED_PX, 0, factor_32).to_model(point, [(650, 470)])
    assert of_28 == format_points_tag("x", [(644, 476)])
    assert of_32 == format_points_tag("x", [(640, 480)])


def test_several_tags_and_what_is_around_them() -> None:
    text = (
        f"<think>Two: {format_points_tag('dog', [(64, 48), (128, 96)])} and "
        f"{format_box_tag('', (0, 0, 640, 480))} at 3 < 4 &amp; x=12.</think><answer>2</answer>\n"
    )
    assert SPEECHES[CoordinateFrame.NORM1000].to_model(text, [SIZE]) == (
        f"<think>Two: {format_points_tag('dog', [(100, 100), (200, 200)])} and "
        f"{format_box_tag('', (0, 0, 1000, 1000))} at 3 < 4 &amp; x=12.</think><answer>2</answer>\n"
    )


@pytest.mark.parametrize("frame", SPEECHES)
@pytest.mark.parametrize("at", [(650, 100), (100, 490), (-7, 100), (100, -5)])
def test_a_row_that_points_out_of_the_picture_is_refused(frame: CoordinateFrame, at: tuple[float, float]) -> None:
    with pytest.raises(OutOfFrame):
        SPEECHES[frame].to_model(format_points_tag("x", [(10, 10), at]), [SIZE])
    with pytest.raises(OutOfFrame):
        SPEECHES[frame].to_model(
            format_box_tag("x", (min(at[0], 5), min(at[1], 5), max(at[0], 5), max(at[1], 5))), [SIZE]
        )


def test_each_of_several_pictures_has_its_own_size() -> None:
    speech, sizes = SPEECHES[CoordinateFrame.NORM1000], [SIZE, (1000, 2000)]
    point = format_points_tag("cat", [(320, 240)])
    ours = f"In picture 1 {point} and in picture 2 {point}; there too {point}."
    theirs = speech.to_model(ours, sizes)
    assert [(p.x, p.y) for p in parse_points(theirs)] == [(500, 500), (320, 120), (320, 120)]
    assert speech.to_pixels(theirs, sizes) == ours


def test_a_picture_that_is_not_there() -> None:
    speech, text = SPEECHES[CoordinateFrame.PX], f"in picture 3 {format_points_tag('cat', [(320, 240)])}"
    with pytest.raises(OutOfFrame, match="a tag names image 3, but the question has only 2 images"):
        speech.to_model(text, [SIZE, SIZE])
    assert parse_points(speech.to_pixels(text, [SIZE, SIZE])) == ()


@pytest.mark.parametrize(
    "tag",
    [
        format_points_tag("x", [(500, 500), (1020, 10)]),
        format_box_tag("x", (10, 10, 1020, 30)),
        format_box_tag("", (-20, 0, 5, 5)),
    ],
)
def test_a_response_that_points_out_of_its_frame_has_no_such_tag(tag: str) -> None:
    kept = format_points_tag("y", [(500, 500)])
    found = SPEECHES[CoordinateFrame.NORM1000].to_pixels(f"a {tag} b {kept} c", [SIZE])
    assert [point.label for point in parse_points(found)] == ["y"]
    assert parse_boxes(found) == ()
    assert found == f"a {tag.replace('<', '‹')} b {format_points_tag('y', [(320, 240)])} c"


def test_a_tag_with_an_unreadable_point_is_not_shortened_to_the_others() -> None:
    tag = '<points x1="500" y1="500" x2="a few" y2="more" alt="y">y</points>'
    found = Speech(CoordinateFrame.NORM1000).to_pixels(tag, [(640, 480)])
    assert found == tag.replace("<", "‹")


def test_a_tag_that_is_left_open_stays_so() -> None:
    """Else its form would be mended before anybody looks at it."""
    found = SPEECHES[CoordinateFrame.NORM1000].to_pixels('a <points x1="500" y1="500" alt="y">y. So 1.', [SIZE])
    assert found == 'a <points x1="320" y1="240" alt="y">y. So 1.'


@pytest.mark.parametrize("text", ["", "No tags.", "<points>", "<box>[1,2]</box>", "<points x1='a'", "a < b <think>"])
def test_text_without_positions_stays(text: str) -> None:
    for speech in SPEECHES.values():
        assert speech.to_model(text, [SIZE]) == text
        assert speech.to_pixels(text, [SIZE]) == text


SHARE = st.floats(0, 1)
SIDE = st.integers(200, 3000)


@settings(max_examples=150)
@given(st.sampled_from(list(SPEECHES)), SIDE, SIDE, st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=3))
def test_there_and_back(frame: CoordinateFrame, width: int, height: int, shares: list[tuple[float, float]]) -> None:
    """Positions come back within half a step of the frame, and the tenth of a pixel to which tags are written."""
    text = format_points_tag("it's", [(x * width, y * height) for x, y in shares])
    speech = SPEECHES[frame]
    back = speech.to_pixels(speech.to_model(text, [(width, height)]), [(width, height)])
    # A thousand steps a side, a tenth of a pixel, or pixels of a picture that is at most 14 px of 200 smaller.
    step = {CoordinateFrame.PX: 0.1, CoordinateFrame.QWEN25_RESIZED_PX: 200 / 186}.get(frame, max(width, height) / 1000)
    before, after = parse_points(text), parse_points(back)
    assert [point.label for point in after] == [point.label for point in before]
    for one, other in zip(before, after, strict=True):
        assert abs(one.x - other.x) <= step / 2 + 0.11
        assert abs(one.y - other.y) <= step / 2 + 0.11


@settings(max_examples=150)
@given(SIDE, SIDE, st.lists(st.tuples(*[st.integers(0, 1000)] * 4), min_size=1, max_size=3))
def test_what_the_model_wrote_comes_back_as_it_was(width: int, height: int, boxes: list[tuple[int, ...]]) -> None:
    speech = SPEECHES[CoordinateFrame.NORM1000]
    ordered = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in boxes]
    written = " ".join(format_box_tag("", box) for box in ordered)
    assert speech.to_model(speech.to_pixels(written, [(width, height)]), [(width, height)]) == written
