"""The grounded pass: what is asked, and that boxes come back in pixels of the original."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, FrameRef
from groundtrace.stages.ground_questions import GroundQuestions, GroundSettings, ground


@pytest.fixture
def draft(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Draft:
    """A question about an image of 160 by 80 pixels."""
    write_scene(tmp_path / "a.png")
    return make_draft("q", tmp_path, ("a.png",))


def grounded(draft: Draft, models: Any) -> tuple[Draft, Session]:
    session = Session(runtime().models(models))
    return runtime().submit(ground(draft, session, GroundSettings())).result(), session


@pytest.mark.parametrize(("frame", "written"), [("px", "[8, 30, 28, 50]"), ("norm1000", "[50, 375, 175, 625]")])
def test_boxes_come_from_the_frame_of_the_policy(frame: str, written: str, draft: Draft, models: Any) -> None:
    said = f'<think>I see <box alt="red square">{written}</box> here.</think><answer>1</answer>'
    served = models("policy", says=lambda prompt, sample: said)
    endpoints = [(n, replace(e, frame=frame) if n == "server" else e) for n, e in served.endpoints]
    found, session = grounded(draft, replace(served, endpoints=tuple(endpoints)))
    assert found.traces[0].boxes == (Box("red square", 8, 30, 28, 50),)
    assert (found.form, found.traces[0].answer) == ("textual", "1")
    assert [call.prompt for call in session.calls] == ["attempt_with_boxes.v1"]


@pytest.mark.parametrize("said", ["<answer>1</answer>", "<box>[5000,0,6000,9]</box>"])
def test_a_response_without_usable_boxes_is_a_trace_without_any(said: str, draft: Draft, models: Any) -> None:
    found, _ = grounded(draft, models("policy", says=lambda prompt, sample: said))
    assert [trace.boxes for trace in found.traces] == [()]


def test_clips_are_not_asked_about(draft: Draft, models: Any) -> None:
    (medium,) = draft.question.media
    clip = replace(medium, kind="video", frames=(FrameRef(1, 0.0, medium.uri, medium.sha256, 9),))
    found, session = grounded(replace(draft, question=replace(draft.question, media=(clip,))), models())
    assert (found.traces, session.calls) == ((), [])


def test_the_embedded_engine_boxes_what_it_counts(draft: Draft, models: Any, check_stage: Any) -> None:
    def boxes(found: Draft) -> tuple[str, int]:
        return found.id, len(found.traces[0].boxes)

    check_stage(GroundQuestions(GroundSettings(), models()), [draft], [("q", 3)], [], show=boxes)
