"""Pointing: every entity in every medium, in original pixels, and the pointers that say something else."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.grading.messages import media_part
from groundtrace.inference.request import Sampling, cache_key
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Draft, Rejected
from groundtrace.stages.point_entities import PointEntities, point
from groundtrace.vision.clips import VideoSettings


@pytest.fixture
def drafts(tmp_path: Path, make_draft: Callable[..., Draft], write_scene: Callable[..., Path]) -> Callable[..., Draft]:
    """A draft with entities over ``a.png`` (red, blue, black squares) or further pictures."""
    write_scene(tmp_path / "a.png", width=400, height=100)
    write_scene(tmp_path / "b.png", ("blue", "yellow", "blue"), width=400, height=100)
    return lambda name, *entities, media=("a.png",): replace(make_draft(name, tmp_path, media), entities=entities)


def places(draft: Draft) -> tuple[str, list[tuple[str, int, int, int]]]:
    """The points as label, medium, and which square of the row they lie in (each 20 of 24 pixels wide, from 8)."""
    found = []
    for found_at in draft.points:
        square, inside = divmod(found_at.x - 8, 24)
        assert 0 <= inside < 20
        assert 30 <= found_at.y < 50
        found.append((found_at.label, found_at.media_index, int(square), found_at.frame or 0))
    return draft.id, found


def test_the_embedded_engine_points_at_all_it_is_asked_for(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    asked = [
        drafts("two", "black square", "red square"),
        drafts("absent", "yellow square", "blue square"),
        drafts("unknown", "sign"),
        drafts("media", "blue square", "yellow square", media=("a.png", "b.png")),
    ]
    kept = [
        ("two", [("black square", 0, 2, 0), ("red square", 0, 0, 0)]),
        ("absent", [("blue square", 0, 1, 0)]),
        ("unknown", []),
        (
            "media",
            [("blue square", 0, 1, 0), ("blue square", 1, 0, 0), ("blue square", 1, 2, 0), ("yellow square", 1, 1, 0)],
        ),
    ]
    check_stage(PointEntities(models()), asked, kept, [], show=places)


def test_one_call_for_each_entity_and_medium(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    draft = drafts("q", "red square", "blue square", media=("a.png", "b.png"))
    check_stage(
        PointEntities(models()), [draft], [["pointer"] * 4], [], show=lambda found: [c.role for c in found.calls]
    )


REPLIES = {
    "twice": '<points x1="10" y1="20" x2="10" y2="20" alt="twice">twice</points>',
    "renamed": '<point x="10.5" y="20" alt="cat">cat</point>',
    "none": "There are none.",
    "border": '<point x="401" y="101" alt="border">border</point>',
    "molmo 2": '<points coords="1 1 10 20 2 30 40">molmo 2</points>',
    "outside": '<point x="900" y="20" alt="outside">outside</point>',
    "prose": "It is on the left, I think.",
    "cut": '<points coords="1 1 10',
    "cut off": '<points x1="10" y1="20" alt="cut off">cut off</points> <points ✂',
}


def test_odd_pointers(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        return next(reply for name, reply in REPLIES.items() if f"every {name} in" in prompt)

    check_stage(
        PointEntities(models("pointer", says=says)),
        [drafts(name, name) for name in REPLIES],
        [
            ("twice", (Point("twice", 10, 20),)),
            ("renamed", (Point("renamed", 10.5, 20),)),
            ("none", ()),
            ("border", (Point("border", 400, 100),)),
            ("molmo 2", (Point("molmo 2", 10, 20), Point("molmo 2", 30, 40))),
        ],
        [(name, "point", "unparsable_reply") for name in ("outside", "prose", "cut")]
        + [("cut off", "point", "truncated")],
        show=lambda draft: (draft.id, draft.points),
    )


def key_of(draft: Draft, entity: str) -> str:
    """The cache key of the pointer's reply on an entity."""
    shown = {"original": [media_part(draft.question.media[0])]}
    return cache_key("m", "", load_prompt("point.v1").render(shown, entity=entity), Sampling(max_tokens=2048), 0)


@pytest.mark.parametrize(("cached", "ends"), [("none", "kept"), ("prose", "rejected")])
def test_the_rejection_names_the_reply_that_could_not_be_read(
    cached: str,
    ends: str,
    check_stage: Callable[..., None],
    drafts: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
) -> None:
    played = models("pointer", says=lambda prompt, _: REPLIES["prose" if "every prose" in prompt else "none"])
    first = {"kept": [], "rejected": []} | {ends: ["first"]}
    check_stage(PointEntities(played), [drafts("first", cached)], **first, show_rejected=lambda found: found.id)
    both = drafts("both", "prose", "none")
    check_stage(PointEntities(played), [both], [], [key_of(both, "prose")], show_rejected=lambda found: found.cache_key)


def test_a_failed_entity_does_not_hide_what_the_others_cost(
    drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    refused = threading.Event()

    def says(prompt: str, _: int) -> str:
        if "every prose" in prompt:
            refused.set()
            return REPLIES["prose"]
        assert refused.wait(10)
        return REPLIES["none"]

    session = Session(runtime().models(models("pointer", says=says)))
    future = runtime().submit(point(drafts("q", "prose", "none"), session, VideoSettings()))
    with pytest.raises(ValueError, match="no points and no clear 'none'"):
        future.result(20)
    assert [call.usage.requests for call in session.calls] == [1, 1]


def test_a_pointer_that_says_something_else_is_asked_again(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        _, asked_again, shown = prompt.partition("EARLIER REPLY:")
        return REPLIES["none"] if asked_again and REPLIES["prose"] in shown else REPLIES["prose"]

    check_stage(
        PointEntities(models("pointer", says=says, repair_attempts=1)),
        [drafts("q", "prose")],
        [("q", (), [0, 1])],
        [],
        show=lambda draft: (draft.id, draft.points, [call.usage.repairs for call in draft.calls]),
    )


def test_a_pointer_that_cannot_be_asked(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    played = models()
    wrong = replace(played, roles=tuple((dict(played.roles) | {"pointer": "edges"}).items()))

    def shown(found: Rejected) -> tuple[str, str, str, int]:
        return found.id, found.stage, found.reason, len(found.cache_key or "")

    check_stage(
        PointEntities(wrong), [drafts("q", "red square")], [], [("q", "point", "call_failed", 64)], show_rejected=shown
    )
