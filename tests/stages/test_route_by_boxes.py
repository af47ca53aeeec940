"""The streams of an RL question follow its boxes, and each stays one draft."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from groundtrace.grading.question_text import user_text
from groundtrace.rewards.streams import STREAM_PROMPTS, STREAMS
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, FrameRef
from groundtrace.stages.assign_domain import DOMAIN
from groundtrace.stages.plumbing.stage import Route
from groundtrace.stages.route_by_boxes import RouteByBoxes, route

BOXED = (Box("dog", 1, 2, 30, 40),)
BOTH, ALONE = ("grounded", "textual"), ("textual",)
CLIP = FrameRef(1, 0.0, "run:media/f.png", "f" * 64, 10)


def with_clip(draft: Draft) -> Draft:
    media = tuple(replace(medium, frames=(CLIP,)) for medium in draft.question.media)
    return replace(draft, question=replace(draft.question, media=media))


CASES = {
    "gold": ({"gold_boxes": BOXED}, None, BOTH),
    "detector": ({}, BOXED, BOTH),
    "gold comes first": ({"gold_boxes": ()}, BOXED, ALONE),
    "none": ({}, None, ALONE),
    "the source says that there are none": ({"gold_boxes": ()}, None, ALONE),
    "the detector found none": ({}, (), ALONE),
}


@pytest.mark.parametrize(("fields", "pseudo", "streams"), CASES.values(), ids=CASES)
def test_streams(make_draft: Callable[..., Draft], fields: dict, pseudo: tuple, streams: tuple[str, ...]) -> None:
    routed = route(replace(make_draft("q", **fields), pseudo_boxes=pseudo))
    draft = routed.draft if isinstance(routed, Route) else routed
    assert (draft.added(STREAMS), draft.added(DOMAIN)) == (streams, "boxed" if streams == BOTH else "general")
    prompts = {each["stream"]: each["content"] for each in draft.added(STREAM_PROMPTS) or ()}
    assert tuple(prompts) == streams
    assert [name for name, prompt in prompts.items() if "<box" in prompt] == ["grounded"] * (streams == BOTH)
    assert user_text(draft.question, draft.form) == prompts["textual"], "trainers of one prompt are given the last"
    assert isinstance(routed, Route) == (streams == ALONE)


def test_a_clip_is_asked_in_words_alone(make_draft, write_scene, tmp_path) -> None:
    write_scene(tmp_path / "a.png")
    routed = route(with_clip(make_draft("q", tmp_path, ["a.png"], gold_boxes=BOXED)))
    assert isinstance(routed, Route)
    assert routed.draft.added(STREAMS) == ALONE


@pytest.mark.parametrize("judged", [True, False])
def test_free_text_needs_a_judge(check_stage, make_draft, judged: bool) -> None:
    drafts = [make_draft("text", gold_boxes=BOXED, answer="a teapot", answer_type="text")]
    drafts += [make_draft("number", gold_boxes=BOXED)]
    rejected = [] if judged else [("text", "streams", "ungradable")]
    check_stage(RouteByBoxes(judged), drafts, ["text", "number"] if judged else ["number"], rejected)


def test_the_stage_keeps_those_with_boxes(check_stage, make_draft) -> None:
    drafts = [make_draft("boxed", gold_boxes=BOXED), make_draft("general")]
    check_stage(RouteByBoxes(), drafts, kept=["boxed"], rejected=[])
