"""Traces of both streams: what the teacher is shown, in which unit it boxes, and what is made of its replies."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from groundtrace.grading.messages import TextPart
from groundtrace.grading.question_text import BOXES, TEXTUAL
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.request import Completion
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, MediaRef
from groundtrace.stages.generate_traces import TraceSettings
from groundtrace.stages.write_stream_traces import WriteStreamTraces, in_pixels, scale, trace_prompt

MEDIA = tuple(
    MediaRef(f"input:{name}.png", "image", name * 64, name * 64, "0" * 16, *size, 1, 99)
    for name, size in (("a", (640, 480)), ("b", (100, 200)))
)
TEXT = '<think>The dog <box alt="dog">[{}]</box> sleeps.</think><answer>yes</answer>'
IN_PIXELS = (64.0, 48.0, 320.0, 240.0)
PLAIN = FAMILIES.named("plain")


@pytest.mark.parametrize(
    ("frame", "written"),
    [
        (CoordinateFrame.PX, "64,48,320,240"),
        (CoordinateFrame.NORM1000, "100,100,500,500"),
        (CoordinateFrame.GEMINI, "100,100,500,500"),
        (CoordinateFrame.MOLMO100, "10.0,10.0,50.0,50.0"),
        (CoordinateFrame.UNIT, "0.1,0.1,0.5,0.5"),
        (CoordinateFrame.QWEN25_RESIZED_PX, "64.4,47.6,322,238"),
    ],
)
def test_boxes_come_to_original_pixels(frame: CoordinateFrame, written: str) -> None:
    family = replace(PLAIN, frame=frame)
    trace = read_trace(0, in_pixels(Completion(TEXT.format(written)), MEDIA[:1], family).text)
    [box] = trace.boxes
    assert (box.label, *(round(value, 1) for value in (box.x1, box.y1, box.x2, box.y2))) == ("dog", *IN_PIXELS)


def test_y_comes_first_where_the_family_writes_it_so() -> None:
    text = TEXT.format("100,200,300,400")
    found = {}
    for frame in (CoordinateFrame.GEMINI, CoordinateFrame.NORM1000):
        [box] = read_trace(0, in_pixels(Completion(text), MEDIA[:1], replace(PLAIN, frame=frame)).text).boxes
        found[frame] = tuple(round(value) for value in (box.x1, box.y1, box.x2, box.y2))
    assert found == {CoordinateFrame.GEMINI: (128, 48, 256, 144), CoordinateFrame.NORM1000: (64, 96, 192, 192)}


def test_a_box_outside_of_the_frame_is_none() -> None:
    completion = in_pixels(Completion(TEXT.format("100,100,500,1200"), "so"), MEDIA[:1], FAMILIES.named("qwen3-vl"))
    assert read_trace(0, completion.text).boxes == ()
    assert "‹box" in completion.text


def test_reasoning_that_comes_apart_is_converted_too() -> None:
    completion = Completion("<answer>yes</answer>", TEXT.format("100,100,500,500"))
    assert (
        "[64,48,320,240]" in in_pixels(completion, MEDIA[:1], replace(PLAIN, frame=CoordinateFrame.NORM1000)).reasoning
    )


@pytest.mark.parametrize(
    ("frame", "count", "said"),
    [
        (CoordinateFrame.PX, 1, "pixels of the picture, which is 640 wide and 480 high."),
        (CoordinateFrame.PX, 2, "picture 1 640 wide and 480 high, picture 2 100 wide and 200 high."),
        (CoordinateFrame.NORM1000, 2, "from 0 to 1000 over the width"),
        (CoordinateFrame.MOLMO100, 1, "from 0 to 100 over the width"),
        (CoordinateFrame.UNIT, 1, "from 0 to 1 over the width"),
        (CoordinateFrame.QWEN25_RESIZED_PX, 1, "pixels of the picture as you see it."),
    ],
)
def test_the_unit_is_said(frame: CoordinateFrame, count: int, said: str) -> None:
    assert said in scale(frame, MEDIA[:count])


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_is_told_a_unit(name: str, make_draft: Callable[..., Draft]) -> None:
    question = replace(make_draft("q").question, media=MEDIA)
    family = FAMILIES.named(name)
    asked = "\n".join(p.text for p in trace_prompt(question, BOXES, family).user if isinstance(p, TextPart))
    assert "Coordinates " in asked
    assert ("[y1,x1,y2,x2]" in asked) == (family.frame is CoordinateFrame.GEMINI)


@pytest.mark.parametrize("form", [BOXES, TEXTUAL])
def test_no_box_is_shown_to_the_teacher(make_draft: Callable[..., Draft], form: str) -> None:
    bare = replace(make_draft("q").question, media=MEDIA)
    boxed = replace(bare, gold_boxes=(Box("dog", *IN_PIXELS),))
    assert trace_prompt(boxed, form, PLAIN).user == trace_prompt(bare, form, PLAIN).user
    assert trace_prompt(replace(bare, answer="another"), form, PLAIN).user == trace_prompt(bare, form, PLAIN).user


def test_each_form_has_its_prompt(check_stage, models, make_draft, write_scene, tmp_path) -> None:
    write_scene(tmp_path / "a.png")
    drafts = [replace(make_draft(form, tmp_path, ["a.png"]), form=form) for form in (BOXES, TEXTUAL)]

    def show(draft: Draft) -> tuple:
        [call] = draft.calls
        boxes = {trace.boxes for trace in draft.traces}
        return draft.id, call.prompt, len(draft.traces), {len(each) for each in boxes}, draft.traces[0].answer

    check_stage(
        WriteStreamTraces(TraceSettings(n=3), models()),
        drafts,
        kept=[(BOXES, "trace_boxes.v1", 3, {3}, "3"), (TEXTUAL, "trace_textual.v1", 3, {0}, "3")],
        rejected=[],
        show=show,
    )
