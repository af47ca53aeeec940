"""Every family through pointing, detecting and verifying: a scripted server that replies in the family's own form.

The image is 400x200 px and has two red squares, (40, 40)-(80, 80) and (240, 120)-(300, 160), with their middles at
(60, 60) and (270, 140). The replies are written by hand for that image.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import groundtrace as gt
from groundtrace.grading.responses.tags import format_points_tag
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.models import Models
from groundtrace.inference.session import Session
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.point_entities import point
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaStore

from ..inference.conftest import ScriptedServer
from ..inference.conftest import server as server
from ..inference.gemini_server import KEY, GeminiServer, running

LABEL = "red square"
MIDDLES = [(60, 60), (270, 140)]
CLAUDE = ('{"points": [[60, 60], [270, 140]]}', '{"boxes": [[40, 40, 80, 80], [240, 120, 300, 160]]}')
REPLIES: dict[str, tuple[str, str]] = {  # points, boxes; "" where the family has no form for them
    "claude": CLAUDE,
    "claude-1568": CLAUDE,
    "gemini": (
        '```json\n[{"point": [300, 150], "label": "red square"}, {"point": [700, 675], "label": "red square"}]\n```',
        '[{"box_2d": [200, 100, 400, 200], "label": "red square"}, '
        '{"box_2d": [600, 600, 800, 750], "label": "red square"}]',
    ),
    "glm-v": (
        "<think>Two of them, at [[1, 2]]?</think><|begin_of_box|>[[150, 300], [675, 700]]<|end_of_box|>",
        "They are at <|begin_of_box|>[[100, 200, 200, 400], [600, 600, 750, 800]]<|end_of_box|>.",
    ),
    "internvl": ("", "<ref>red square</ref><box>[[100, 200, 200, 400], [600, 600, 750, 800]]</box>"),
    "molmo": ('<points x1="15.0" y1="30.0" x2="67.5" y2="70.0" alt="red squares">red squares</points>', ""),
    "molmo2": ('<points coords="1 1 150 300 2 675 700">red square</points>', ""),
    "moondream": (
        '{"points": [{"x": 0.15, "y": 0.3}, {"x": 0.675, "y": 0.7}]}',
        '{"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.2, "y_max": 0.4}, '
        '{"x_min": 0.6, "y_min": 0.6, "x_max": 0.75, "y_max": 0.8}]}',
    ),
    "plain": (
        '<points x1="60" y1="60" x2="270" y2="140" alt="red square">red square</points>',
        '{"boxes": [[40, 40, 80, 80], [240, 120, 300, 160]]}',
    ),
    "qwen2.5-vl": (  # the image is resized to 392x196: 0.98 of each side
        '<points x1="58.8" y1="58.8" x2="264.6" y2="137.2" alt="red square">red square</points>',
        '```json\n[{"bbox_2d": [39.2, 39.2, 78.4, 78.4], "label": "red square"}, '
        '{"bbox_2d": [235.2, 117.6, 294, 156.8], "label": "red square"}]\n```',
    ),
    "qwen3-vl": (
        '```json\n[{"point_2d": [150, 300], "label": "red square"}, '
        '{"point_2d": [675, 700], "label": "red square"}]\n```',
        '<think>\nTwo.\n</think>\n\n[{"bbox_2d": [100, 200, 200, 400], "label": "red square"}, '
        '{"bbox_2d": [600, 600, 750, 800], "label": "red square"}, {"bbox_2d": [0, 0, 9, 9], "label": "sky"}]',
    ),
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    pixels = np.full((200, 400, 3), 150, np.uint8)
    pixels[40:80, 40:80] = pixels[120:160, 240:300] = (200, 30, 30)
    Image.fromarray(pixels).save(tmp_path / "squares.png")
    return tmp_path / "squares.png"


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with running() as script:
        yield script


def points_by(settings: EndpointSettings, image: Path) -> tuple[Point, ...]:
    """What the stage that points makes of the endpoint's replies."""
    folder = str(image.parent)
    medium = check_medium(f"input:{image.name}", MediaStore(folder, folder)).ref
    assert medium is not None
    asked = Question("q", "s", "CC0-1.0", (medium,), "Are there two?", "yes", "bool", None)
    roles = (("pointer", "model"),)
    models = ModelsSettings((("model", settings),), roles, f"{folder}/cache.sqlite", folder, folder)

    async def work() -> tuple[Point, ...]:
        opened = Models(models)
        try:
            return (await point(Draft(asked, entities=(LABEL,)), Session(opened), VideoSettings())).points
        finally:
            await opened.close()

    return asyncio.run(work())


def verified(settings: EndpointSettings, image: Path, points: list[tuple[float, float]]) -> Any:
    """The spatial verdict on a response with these points, by the endpoint as detector and without a segmenter."""
    tag = format_points_tag(LABEL, points)
    trace = gt.verify(
        "Are there two red squares?",
        f"<think>I see {tag}.</think><answer>yes</answer>",
        [image],
        "yes",
        answer_type="bool",
        entities=[LABEL],
        endpoints={"model": settings},
        roles={"detector": "model"},
        cache=str(image.parent),
    )
    (verdict,) = [verdict for verdict in trace.verdicts if verdict.name == "spatial"]
    return verdict


def check(say: Callable[[str], None], settings: EndpointSettings, image: Path, name: str) -> None:
    pointed, boxed = REPLIES[name]
    say(pointed or boxed)
    found = points_by(settings, image)
    assert [(one.x, one.y) for one in found] == [pytest.approx(middle) for middle in MIDDLES]
    if not boxed:  # the detector is another model, told our own form
        boxed, settings = REPLIES["plain"][1], replace(settings, family="plain")
    say(boxed)
    verdict = verified(settings, image, [(one.x, one.y) for one in found])
    assert verdict.value == 1.0, verdict
    assert "boxes replace masks: no segmenter" in verdict.reason
    assert verified(settings, image, [*MIDDLES[:1], (150, 60)]).value == 0.5  # of the cache


@pytest.mark.parametrize("name", FAMILIES)
def test_point_detect_verify(name: str, server: ScriptedServer, image: Path) -> None:
    settings = EndpointSettings("openai", "tiny", base_url=server.base_url, family=name)
    check(server.say, settings, image, name)
    requests = 2 if REPLIES[name][0] else 1  # boxes that stand for points are not asked for twice
    assert len(server.seen) == requests, "a reply was not understood at once"


def test_point_detect_verify_by_geminis_own_interface(
    gemini: GeminiServer, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDTRACE_TEST_KEY", KEY)
    settings = EndpointSettings(
        "gemini", "tiny", base_url=gemini.base_url, family="gemini", api_key_env="GROUNDTRACE_TEST_KEY"
    )
    check(gemini.say, settings, image, "gemini")
    assert len(gemini.seen) == 2


@pytest.mark.parametrize("name", ["molmo", "molmo2"])
def test_a_family_that_cannot_box_is_no_detector(name: str, image: Path) -> None:
    settings = EndpointSettings("openai", "tiny", base_url="http://127.0.0.1:9/v1", family=name)
    expected = f"roles.detector: the model family {name} of the endpoint 'model' can only write points"
    with pytest.raises(gt.UserError, match=expected):
        verified(settings, image, MIDDLES)


@pytest.mark.parametrize("name", [name for name, replies in REPLIES.items() if replies[0]])
def test_a_reply_of_another_form_is_asked_for_again_in_this_one(name: str, server: ScriptedServer, image: Path) -> None:
    server.say("They are on the left and on the right.")
    server.say(REPLIES[name][0])
    settings = EndpointSettings("openai", "tiny", base_url=server.base_url, family=name)
    assert len(points_by(settings, image)) == 2
    again = server.seen[1].body["messages"][-1]["content"][-1]["text"]
    assert "They are on the left" in again
    assert again.rpartition("in this form: ")[2] in settings.model_family.point_form.replace("LABEL", LABEL)


def test_a_reply_that_was_cut_is_asked_for_again_with_twice_the_budget(server: ScriptedServer, image: Path) -> None:
    pointed, _ = REPLIES["moondream"]
    server.say({"message": {"role": "assistant", "content": pointed}, "finish_reason": "length"})
    server.say(pointed)
    settings = EndpointSettings("openai", "tiny", base_url=server.base_url, family="moondream")
    assert len(points_by(settings, image)) == 2
    first, again = (seen.body for seen in server.seen)
    assert again["max_tokens"] == 2 * first["max_tokens"]
    assert again["messages"] == first["messages"]
