"""The boxes of written questions: in pixels, whatever frame and form the teacher's model writes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft
from groundtrace.stages.ground_objects import GroundObjects, GroundObjectSettings
from groundtrace.stages.write_questions import OBJECT

SIZE = {"width": 400, "height": 200}
RED = (8, 30, 28, 50)
"""The red square of the scene, in pixels."""
REPLIES = {
    "qwen3-vl": '```json\n[{"bbox_2d": [20, 150, 70, 250], "label": "red square"}]\n```',
    "qwen2.5-vl": '[{"bbox_2d": [8, 29, 27, 49], "label": "red square"}]',
    "gemini": '[{"box_2d": [150, 20, 250, 70], "label": "red square"}]',
    "glm-v": "<|begin_of_box|>[[20, 150, 70, 250]]<|end_of_box|>",
    "internvl": "<ref>red square</ref><box>[[20, 150, 70, 250]]</box>",
    "moondream": '{"objects": [{"x_min": 0.02, "y_min": 0.15, "x_max": 0.07, "y_max": 0.25}]}',
    "claude": '{"boxes": [[8, 30, 28, 50]]}',
    "plain": '{"boxes": [[8, 30, 28, 50]]}',
}


@pytest.fixture
def written(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Callable[..., Draft]:
    """A draft with a written question about three squares: red, blue and black."""

    def draft(label: str = "red square", media: tuple[str, ...] = ("a.png",)) -> Draft:
        for name in media:
            write_scene(tmp_path / name, **SIZE)
        return make_draft("q", tmp_path, media, question="How many red squares?").with_added(OBJECT, label)

    return draft


def speaking(models: ModelsSettings, family: str) -> ModelsSettings:
    """The settings with a server whose model writes in the form of the family."""
    endpoints = dict(models.endpoints)
    endpoints["server"] = replace(endpoints["server"], family=family)
    return replace(models, endpoints=tuple(endpoints.items()))


def corners(draft: Draft) -> Any:
    return [(each.label, *map(round, (each.x1, each.y1, each.x2, each.y2))) for each in draft.reference_boxes]


@pytest.mark.parametrize("family", REPLIES)
def test_boxes_are_in_pixels_whatever_the_family_writes(check_stage, models, written, family: str) -> None:
    def says(prompt: str, sample: int) -> str:
        assert "How many red squares?" in prompt
        assert "entire object" in prompt
        return REPLIES[family]

    stage = GroundObjects(GroundObjectSettings(), speaking(models("teacher", says=says), family))
    check_stage(stage, [written()], [[("red square", *RED)]], [], show=corners)


def test_every_family_is_asked_for_its_own_form(check_stage, models, written) -> None:
    forms = {"qwen2.5-vl": '"bbox_2d": [x1, y1, x2, y2], "label": "red square"', "gemini": "[ymin, xmin, ymax, xmax]"}
    forms |= {"qwen3-vl": "numbers from 0 to 1000", "plain": '{"boxes": [[x1, y1, x2, y2], …]}'}
    for family, form in forms.items():
        seen = list[str]()
        asking = models("teacher", says=lambda prompt, _, seen=seen, f=family: seen.append(prompt) or REPLIES[f])
        check_stage(GroundObjects(GroundObjectSettings(), speaking(asking, family)), [written()], ["q"], [])
        assert form in seen[0]


def boxes(*found: tuple[int, int, int, int]) -> str:
    return f'{{"boxes": {[list(each) for each in found]}}}'


ENDS = {
    "none": (boxes(), "object_not_found"),
    "the whole image": (boxes((0, 0, 400, 200)), "object_not_found"),
    "a crowd": (boxes(*((20 * n, 0, 20 * n + 9, 9) for n in range(5))), "too_many_objects"),
    "outside": (boxes((300, 100, 900, 150)), "unparsable_reply"),
    "prose": ("It is on the left.", "unparsable_reply"),
    "cut": ('{"boxes": [[8, 30, 28✂', "truncated"),
}


@pytest.mark.parametrize(("text", "reason"), ENDS.values(), ids=ENDS)
def test_what_gives_no_boxes(check_stage, models, written, text: str, reason: str) -> None:
    stage = GroundObjects(GroundObjectSettings(max_boxes=4), models("teacher", says=lambda prompt, sample: text))
    check_stage(stage, [written()], [], [("q", "ground_objects", reason)])


def test_a_box_over_the_image_is_left_out_and_each_image_is_searched(check_stage, models, written) -> None:
    said = boxes((0, 0, 400, 200), RED)
    stage = GroundObjects(GroundObjectSettings(), models("teacher", says=lambda prompt, sample: said))
    kept = [(Box("red square", *RED), Box("red square", *RED, media_index=1))]
    check_stage(stage, [written(media=("a.png", "b.png"))], kept, [], show=lambda draft: draft.reference_boxes)


@pytest.mark.parametrize(
    ("label", "found"),
    [("red square", [("red square", *RED)]), ("black object", [("black object", 56, 30, 76, 50)]), ("teapot", None)],
)
def test_the_embedded_teacher_boxes_what_it_sees(check_stage, models, written, label: str, found: Any) -> None:
    rejected = [] if found else [("q", "ground_objects", "object_not_found")]
    stage = GroundObjects(GroundObjectSettings(), models())
    check_stage(stage, [written(label)], [found] if found else [], rejected, show=corners)
