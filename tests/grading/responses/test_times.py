import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.times import (
    Moment,
    Span,
    anchor_points,
    format_moment,
    format_span,
    parse_times,
    resolve_moment,
    resolve_span,
)

LINES = (Path(__file__).parent / "times_cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def as_case(time: Moment | Span) -> dict:
    if isinstance(time, Moment):
        return {"frame": time.frame, "t_s": time.t_s, "text": time.text}
    sides = {"frames": [time.first_frame, time.last_frame], "times": [time.start_s, time.end_s], "text": time.text}
    found, reason = resolve_span(time.first_frame, time.last_frame, time.start_s, time.end_s, [(1, 0.0)])
    return {**sides, "reversed": not found} if reason == "it ends before it starts" else sides


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_case(case: dict) -> None:
    assert [as_case(time) for time in parse_times(case["text"])] == case["times"]


@given(st.integers(0, 9_999_999), st.floats(0, 9_999_999))
def test_a_canonical_moment_comes_back(frame: int, t_s: float) -> None:
    written = format_moment(frame, t_s)
    (moment,) = parse_times(f"the cup in {written}, then")
    assert moment == Moment(frame, round(t_s, 2), 11, 11 + len(written), written)


@given(st.floats(0, 9_999_999), st.floats(0, 9_999_999))
def test_a_canonical_span_comes_back(one: float, other: float) -> None:
    start_s, end_s = sorted((one, other))
    written = format_span(start_s, end_s)
    (span,) = parse_times(f"{written} it tips")
    assert span == Span(None, None, round(start_s, 2), round(end_s, 2), 0, len(written), written)


def test_canonical_forms() -> None:
    assert format_moment(3, 1.659) == "frame 3 (1.66 s)"
    assert format_moment(1, -0.0) == "frame 1 (0.00 s)"
    assert format_span(1.5, 4) == "from 1.50 s to 4.00 s"


@pytest.mark.parametrize(("frame", "t_s"), [(-1, 0.0), (10**7, 0.0), (1, -1.0), (1, float("nan")), (1, 1e7)])
def test_what_is_no_moment_is_not_written(frame: int, t_s: float) -> None:
    with pytest.raises(ValueError, match=r"must be (from 0 to|at least 0 s)"):
        format_moment(frame, t_s)


def test_a_span_that_ends_before_it_starts_is_not_written() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        format_span(4, 1)


WORDS = [
    *"[](),;-–@ \n.:",
    *("F3", "frame", "frames ", "3", "1.66", "s", " seconds", "t=", "0:18", " to ", " and ", "from ", "between "),
    *(" at ", " onwards", "until ", "after ", "for ", "<points x1='1' y1='2'>", "</points>", "frame 3", "٣", "ſ", "İ"),
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=40).map("".join) | st.text(max_size=80)


@settings(max_examples=500)
@given(TEXT)
@example("frames 3, 5, [frames 3 to 5 (1")
def test_any_text_is_read_in_order_and_verbatim(text: str) -> None:
    done = 0
    for time in parse_times(text):
        assert done <= time.start < time.end <= len(text)
        assert time.text == text[time.start : time.end]
        done = time.end
    plain = [(point.label, point.x, point.y) for point in anchor_points(text)]
    assert plain == [(point.label, point.x, point.y) for point in parse_points(text)]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(CASES), max_size=6))
def test_statements_of_several_sentences_do_not_touch(cases: list[dict]) -> None:
    text = " # ".join(case["text"] for case in cases if "never closes" not in case["case"])
    expected = [time for case in cases if "never closes" not in case["case"] for time in case["times"]]
    assert [as_case(time) for time in parse_times(text)] == expected


HOSTILE = [
    *("1 ", "[", "(", "[F1, ", "frame ", "frames 1, ", "frames 1-", "F1 @ t=", "from 1 s ", "1:00 ", "9", "t=", "1."),
    *("at ", "frame 1 [frame 1, ", " " * 50, "1 s to ", "<points x1=1 y1=2>frame 1</points>in frame 3 "),
]


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_ends(unit: str) -> None:
    text = unit * (50_000 // len(unit))
    assert isinstance(parse_times(text), tuple)
    assert len(anchor_points(text)) == text.count("<points")


CUP = '<points x1="355" y1="189" alt="cup">cup</points>'
ANCHORED = {
    "before in its sentence (Argos Fig. 17)": (
        f"frame 2 at 0.81 seconds where the mixture is at {CUP} and frame 5 at 3.25 seconds where it’s at {CUP}), the",
        [(2, 0.81), (5, 3.25)],
    ),
    "behind goes first (Argos Fig. 18)": (
        f"frame 1 at 0.00 seconds and frame 4 at 2.53 seconds, the pan at {CUP} in frame 1 appears smaller relative to "
        f"the frame than the pan at {CUP} in frame 4.",
        [(1, None), (4, None)],
    ),
    "point and anchor (Argos Fig. 9)": (f"{CUP} in [F3 @ t=1.66s]", [(3, 1.66)]),
    "anchor at point (Argos Fig. 9)": (
        f"[F3 @ t=1s] at {CUP} [F4 @ t=2s] at {CUP} [F5 @ t=3s] at {CUP}",
        [(3, 1.0), (4, 2.0), (5, 3.0)],
    ),
    "one anchor for several (Argos Fig. 9)": (
        f"In [F17 @ t=19.21s], pallbearers at {CUP}, {CUP}, and {CUP} stand",
        [(17, 19.21)] * 3,
    ),
    "canonical (Argos §4.2)": (f"{CUP} in frame 24 (18.71 s)", [(24, 18.71)]),
    "in brackets behind": (f"{CUP} (frame 24, 18.71 s)", [(24, 18.71)]),
    "a time behind": (f"{CUP} at 18.71 s", [(None, 18.71)]),
    "behind a list": (f"see {CUP}, {CUP} and {CUP} in frame 3 (1.2 s)", [(3, 1.2)] * 3),
    "each its own": (f"{CUP} in frame 3, {CUP} in frame 4", [(3, None), (4, None)]),
    "another sentence": (f"In frame 3 he sits. The cup is at {CUP}.", [(None, None)]),
    "only a span (Argos Fig. 10)": (f"From 3 s to 5 s the cup is at {CUP}", [(None, None)]),
    "far before": (f"In frame 3 {'he sits and ' * 40} {CUP}", [(None, None)]),
    "the next sentence's": (f"The cup is at {CUP}. In frame 3 it falls.", [(None, None)]),
    "several points in a tag": ('In frame 3 <points x1="1" y1="2" x2="3" y2="4" alt="a">a</points>', [(3, None)] * 2),
    "no tag": ("the cup (355, 189) in frame 3", []),
    "a box": ("<box>[1,2,3,4]</box> in frame 3", []),
}


@pytest.mark.parametrize("case", ANCHORED)
def test_points_get_the_moment_that_is_said_of_them(case: str) -> None:
    text, expected = ANCHORED[case]
    assert [(point.frame, point.t_s) for point in anchor_points(text)] == expected


CLIP = ((1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0))
SPARSE = ((1, 0.0), (31, 1.0), (61, 2.0))


@pytest.mark.parametrize(
    ("frame", "t_s", "frames", "index"),
    [
        (3, None, CLIP, 2),
        (3, 2.0, CLIP, 2),
        (3, 2.5, CLIP, 2),
        (3, 1.55, CLIP, 2),
        (3, 3.04, CLIP, 2),
        (3, 1.4, CLIP, None),
        (3, 3.2, CLIP, None),
        (4, 4.9, CLIP, 3),
        (4, 5.2, CLIP, None),
        (None, 0.4, CLIP, 0),
        (None, 0.6, CLIP, 1),
        (None, 3.1, CLIP, 3),
        (None, 5.0, CLIP, 3),
        (None, 5.2, CLIP, None),
        (9, None, CLIP, None),
        (0, None, CLIP, None),
        (9, 4.0, CLIP, None),
        (0, 0.0, CLIP, None),
        (None, None, CLIP, None),
        (1, 0.0, (), None),
        (30, 0.97, SPARSE, 1),
        (30, None, SPARSE, None),
        (59, 0.97, SPARSE, 1),
        (61, 0.97, SPARSE, None),
        (90, 0.97, SPARSE, None),
        (1, 0.4, ((1, 0.0),), 0),
        (1, 9.0, ((1, 0.0),), None),
        (None, 1e300, CLIP, None),
    ],
)
def test_a_moment_finds_its_frame(frame, t_s, frames, index) -> None:
    found, reason = resolve_moment(frame, t_s, frames)
    assert found == index
    assert reason


@pytest.mark.parametrize(
    ("span", "frames", "indices"),
    [
        ((2, 3, None, None), CLIP, (1, 2)),
        ((None, None, 1.0, 2.0), CLIP, (1, 2)),
        ((None, None, 0.96, 2.04), CLIP, (1, 2)),
        ((2, 3, 1.0, 2.0), CLIP, (1, 2)),
        ((2, None, None, 4.0), CLIP, (1, 2, 3)),
        ((3, None, None, None), CLIP, (2, 3)),
        ((None, 2, None, None), CLIP, (0, 1)),
        ((None, None, None, 1.0), CLIP, (0, 1)),
        ((None, None, 1.5, None), CLIP, (2, 3)),
        ((None, None, 2.6, 2.9), CLIP, (2,)),
        ((None, None, 3.2, 3.4), CLIP, (3,)),
        ((None, None, 4.5, None), CLIP, (3,)),
        ((10, 20, None, None), SPARSE, (0,)),
        ((20, 30, None, None), SPARSE, (1,)),
        ((10, 40, None, None), SPARSE, (1,)),
        ((2, 9, None, None), CLIP, ()),
        ((None, None, 1.0, 50.0), CLIP, ()),
        ((None, None, 2.0, 1.0), CLIP, ()),
        ((3, 2, None, None), CLIP, ()),
        ((2, 3, 4.0, 4.0), CLIP, ()),
        ((4, None, None, 1.0), CLIP, ()),
        ((None, None, None, None), CLIP, ()),
        ((1, 2, None, None), (), ()),
    ],
)
def test_a_span_finds_its_frames(span, frames, indices) -> None:
    found, reason = resolve_span(*span, frames)
    assert found == indices
    assert reason


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=12), st.data())
def test_a_frame_is_found_by_its_number_and_by_its_time(gaps: list[float], data: st.DataObject) -> None:
    frames = [(number, sum(gaps[:number])) for number in range(1, len(gaps) + 1)]
    index = data.draw(st.integers(0, len(frames) - 1))
    number, t_s = frames[index]
    rounded = round(t_s, 2)
    for stated in ((number, None), (number, rounded), (None, rounded)):
        assert resolve_moment(*stated, frames)[0] == index
    assert resolve_span(number, number, rounded, rounded, frames)[0] == (index,)
