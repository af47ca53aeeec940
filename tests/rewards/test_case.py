"""A response under verification: what its trace, its question and the run's endpoints make it."""

from dataclasses import replace

import pytest

from groundtrace.grading.responses.traces import read_trace
from groundtrace.rewards.case import case_of
from groundtrace.rewards.form import GROUNDED_FORM
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.schemas.records import FrameRef

TEXT = '<think>a <points x1="3" y1="4" alt="dog">dog</points> in <box>[1,2,3,4]</box></think><answer>2</answer>'
EYES = frozenset({"detector", "segmenter"})


def test_the_case_of_a_trace(question, scripted) -> None:
    trace, caller = read_trace(3, TEXT), scripted()
    found = case_of(trace, ObjectMasks(question(), caller, ServedRoles()), ("dog", "cat"), ("dog",))
    assert (found.question, found.text, found.answer) == (question(), TEXT, "2")
    assert (found.points, found.boxes, found.entities) == (trace.points, trace.boxes, ("dog", "cat"))
    assert (found.pointable, found.caller, found.outcome) == (("dog",), caller, None)
    assert found.form == GROUNDED_FORM
    assert found.response.think == TEXT[len("<think>") : TEXT.index("</think>")]


@pytest.mark.parametrize(
    ("roles", "locatable", "judged"),
    [(set(), False, False), ({"judge"}, False, True), (EYES, True, False), (EYES | {"judge"}, True, True)],
)
def test_what_the_endpoints_allow(case, scripted, roles, locatable, judged) -> None:
    found = case(caller=scripted(), served=ServedRoles(frozenset(roles)))
    assert (found.locatable, found.judge is not None) == (locatable, judged)


def test_clips_are_media_with_frames(case, question) -> None:
    image = question().media[0]
    clip = replace(image, kind="video", frames=(FrameRef(1, 0.0, "run:f.jpg", "f" * 64, 1),))
    assert [case(media=media).clips for media in ((), (image,), (clip, image), (clip, clip))] == [0, 0, 1, 2]
