import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.coordinates import (
    CLAUDE_IMAGE,
    CLAUDE_STANDARD_IMAGE,
    QWEN25_IMAGE,
    CoordinateFrame,
    FitRule,
    OutOfFrame,
    ResizeRule,
    UnresizableImage,
    box_from_px,
    box_to_px,
    from_px,
    smart_resize,
    to_px,
)

QWEN25_VIDEO = ResizeRule(28, 128 * 28**2, 768 * 28**2)
QWEN3_IMAGE = ResizeRule(32, 4 * 32**2, 16384 * 32**2)

FRAMES = st.sampled_from(list(CoordinateFrame))
SIDES = st.integers(30, 4000)
SHARES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("frame", "written", "expected_px"),
    [
        (CoordinateFrame.MOLMO100, (50.0, 25.0), (320.0, 120.0)),
        (CoordinateFrame.MOLMO1000, (500, 250), (320.0, 120.0)),
        (CoordinateFrame.NORM1000, (500, 250), (320.0, 120.0)),
        (CoordinateFrame.GEMINI, (250, 500), (320.0, 120.0)),
        (CoordinateFrame.UNIT, (0.5, 0.25), (320.0, 120.0)),
        (CoordinateFrame.PX, (320, 120), (320.0, 120.0)),
        # 640x480 is resized to 644x476 (factor 28).
        (CoordinateFrame.QWEN25_RESIZED_PX, (322, 119), (320.0, 120.0)),
        # A small number stays what the frame says it is: nothing is guessed from magnitudes.
        (CoordinateFrame.NORM1000, (0.5, 0.5), (0.32, 0.24)),
        (CoordinateFrame.PX, (1, 1), (1.0, 1.0)),
    ],
)
def test_to_px(frame: CoordinateFrame, written: tuple[float, float], expected_px: tuple[float, float]) -> None:
    assert to_px(frame, *written, 640, 480) == pytest.approx(expected_px)
    assert from_px(frame, *expected_px, 640, 480) == pytest.approx(written)


@pytest.mark.parametrize(
    ("frame", "written", "expected_px"),
    [
        (CoordinateFrame.MOLMO100, (100.0, 100.0), (200.0, 100.0)),
        (CoordinateFrame.MOLMO100, (101.0, -1.0), (200.0, 0.0)),
        (CoordinateFrame.NORM1000, (1010, -10), (200.0, 0.0)),
        (CoordinateFrame.PX, (202, -1), (200.0, 0.0)),
        (CoordinateFrame.UNIT, (1.01, 0), (200.0, 0.0)),
    ],
)
def test_clips_one_percent(
    frame: CoordinateFrame, written: tuple[float, float], expected_px: tuple[float, float]
) -> None:
    assert to_px(frame, *written, 200, 100) == expected_px


@pytest.mark.parametrize("bad", [101.2, -1.2, math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("frame", [CoordinateFrame.MOLMO100, CoordinateFrame.PX])
def test_beyond_one_percent_is_an_error(bad: float, frame: CoordinateFrame) -> None:
    with pytest.raises(OutOfFrame):
        to_px(frame, bad, 50, 100, 100)
    with pytest.raises(OutOfFrame):
        to_px(frame, 50, bad, 100, 100)
    with pytest.raises(OutOfFrame):
        from_px(CoordinateFrame.PX, 50, bad, 100, 100)
    with pytest.raises(OutOfFrame):
        box_to_px(frame, (1, 2, 3, bad), 100, 100)


@pytest.mark.parametrize("side", [0, -1, math.nan, math.inf])
def test_an_image_without_area_is_an_error(side: float) -> None:
    with pytest.raises(UnresizableImage):
        to_px(CoordinateFrame.UNIT, 0.5, 0.5, side, 100)
    with pytest.raises(UnresizableImage):
        smart_resize(100, side)


def test_boxes() -> None:
    assert box_to_px(CoordinateFrame.GEMINI, (100, 200, 300, 400), 1000, 500) == (200, 50, 400, 150)
    assert box_from_px(CoordinateFrame.GEMINI, (200, 50, 400, 150), 1000, 500) == (100, 200, 300, 400)
    assert box_to_px(CoordinateFrame.NORM1000, (300, 400, 100, 200), 1000, 1000) == (100, 200, 300, 400)


@given(FRAMES, SIDES, SIDES, SHARES, SHARES)
def test_round_trip(frame: CoordinateFrame, width: int, height: int, right: float, down: float) -> None:
    x_px, y_px = right * width, down * height
    back = to_px(frame, *from_px(frame, x_px, y_px, width, height), width, height)
    assert back == pytest.approx((x_px, y_px), abs=1e-6)


@given(FRAMES, SIDES, SIDES, st.tuples(SHARES, SHARES, SHARES, SHARES))
def test_box_round_trip(
    frame: CoordinateFrame, width: int, height: int, shares: tuple[float, float, float, float]
) -> None:
    (x1, x2), (y1, y2) = sorted(shares[:2]), sorted(shares[2:])
    box_px = (x1 * width, y1 * height, x2 * width, y2 * height)
    written = box_from_px(frame, box_px, width, height)
    assert box_to_px(frame, written, width, height) == pytest.approx(box_px, abs=1e-6)
    assert box_to_px(frame, (*written[2:], *written[:2]), width, height) == pytest.approx(box_px, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "rule", "expected"),
    [
        ((640, 480), QWEN25_IMAGE, (644, 476)),
        ((640, 480), QWEN3_IMAGE, (640, 480)),
        ((28, 28), QWEN25_IMAGE, (56, 56)),
        ((10, 10), QWEN25_IMAGE, (56, 56)),
        ((1920, 1080), QWEN25_VIDEO, (1008, 560)),
        ((1, 200), QWEN25_IMAGE, (28, 196)),
        ((10000, 50), ResizeRule(28, 4 * 28**2, 16 * 28**2), (1568, 28)),
    ],
)
def test_smart_resize(size: tuple[int, int], rule: ResizeRule, expected: tuple[int, int]) -> None:
    assert smart_resize(*size, rule) == expected
    assert smart_resize(size[1], size[0], rule) == (expected[1], expected[0])


def test_smart_resize_refuses_extreme_aspects() -> None:
    assert smart_resize(200, 1) == (196, 28)
    with pytest.raises(UnresizableImage):
        smart_resize(201, 1)
    with pytest.raises(ValueError, match="needs factor >= 1 and 0 < min_area_px <= max_area_px"):
        ResizeRule(28, 100, 50)


@given(st.integers(1, 20000), st.integers(1, 20000), st.sampled_from([QWEN25_IMAGE, QWEN3_IMAGE, QWEN25_VIDEO]))
def test_smart_resize_keeps_its_promises(width: int, height: int, rule: ResizeRule) -> None:
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(UnresizableImage):
            smart_resize(width, height, rule)
        return
    resized = smart_resize(width, height, rule)
    assert all(side >= rule.factor and side % rule.factor == 0 for side in resized)
    assert resized[0] * resized[1] >= rule.min_area_px
    assert resized[0] * resized[1] <= rule.max_area_px or min(resized) == rule.factor


@pytest.mark.parametrize(
    ("size", "rule", "expected"),
    [
        ((1075, 1520), CLAUDE_STANDARD_IMAGE, (924, 1307)),  # the documentation's own examples
        ((1920, 1080), CLAUDE_STANDARD_IMAGE, (1456, 819)),
        ((1920, 1080), CLAUDE_IMAGE, (1920, 1080)),
        ((1092, 1092), CLAUDE_STANDARD_IMAGE, (1092, 1092)),  # 39 x 39 patches are 1521
        ((2576, 2576), CLAUDE_IMAGE, (1932, 1932)),  # 69 x 69 patches are 4761
        ((8000, 100), CLAUDE_IMAGE, (2576, 32)),
        ((8000, 1), CLAUDE_STANDARD_IMAGE, (1568, 1)),
        ((1, 1), CLAUDE_IMAGE, (1, 1)),
    ],
)
def test_claude_only_shrinks(size: tuple[int, int], rule: FitRule, expected: tuple[int, int]) -> None:
    assert rule.size(*size) == expected
    assert rule.size(*size[::-1]) == expected[::-1]


@given(st.integers(1, 20000), st.integers(1, 20000), st.sampled_from([CLAUDE_IMAGE, CLAUDE_STANDARD_IMAGE]))
def test_claude_keeps_its_limits(width: int, height: int, rule: FitRule) -> None:
    patches = [math.ceil(side / rule.patch_px) for side in rule.size(width, height)]
    assert max(patches) * rule.patch_px <= rule.max_side_px
    assert patches[0] * patches[1] <= rule.max_patches


@pytest.mark.parametrize("bounds", [(0, 10, 10), (28, 27, 10), (28, 1568, 0)])
def test_a_rule_that_no_image_can_meet(bounds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="needs 1 <= patch_px <= max_side_px and max_patches >= 1"):
        FitRule(*bounds)


def test_pixels_of_a_resized_image_follow_the_rule_of_their_own_kind() -> None:
    frame = CoordinateFrame.CLAUDE_RESIZED_PX
    assert to_px(frame, 728, 819, 1920, 1080, CLAUDE_STANDARD_IMAGE) == (960, 1080)
    assert to_px(frame, 728, 819, 1920, 1080, CLAUDE_IMAGE) == (728, 819)
    assert to_px(frame, 728, 819, 1920, 1080) == (728, 819)  # the default of others, which is Qwen2.5's, says nothing
    assert to_px(CoordinateFrame.QWEN25_RESIZED_PX, 322, 238, 640, 480, CLAUDE_IMAGE) == pytest.approx((320, 240))
