"""What executed calls looked at, for a question about two images."""

import asyncio

import numpy as np
import pytest

from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.executing import executions
from groundtrace.sandbox import Sandbox, SandboxSettings
from groundtrace.schemas.geometry import Box

pytestmark = pytest.mark.sandbox
FIRST, SECOND = (np.full((80, 120, 3), 200, np.uint8) for _ in range(2))
FIRST[10:20, 10:20] = SECOND[50:60, 90:100] = (200, 0, 0)
BOXES = (Box("red square", 10, 10, 19, 19), Box("red square", 90, 50, 99, 59, 1))
COUNT = """\
import numpy as np
for image in (input_image, input_image_2):
    print("red:", bool((np.asarray(image)[:, :, 1] < 50).any()))"""
INVERTED = "from PIL import ImageOps\nfor image in (input_image, input_image_2):\n    display(ImageOps.invert(image))"
SAID = Turn("<think>It printed red: true.</think><answer>yes</answer>")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(SandboxSettings()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("code", "seen", "selectivity"),
    [
        (COUNT, {0, 1}, 1.0),
        (INVERTED, {0, 1}, 0.0),
        ("display(input_image_2.crop((84, 44, 106, 66)))", {1}, 1.0),
        # one of two objects, and 60 * 40 - 22 * 22 of the 2 * (120 * 80 - 22 * 22) pixels away from them:
        # (.5 - .105) / (.5 + .105)
        ("display(input_image.crop((0, 0, 60, 40)))", {0}, 0.652),
    ],
)
def test_calls_on_two_images(sandbox, code: str, seen: set[int], selectivity: float) -> None:
    turns = (Turn("<think>I look.</think>", code, "ok", "red: True", 1), SAID)
    call, last = asyncio.run(executions(turns, [FIRST, SECOND], BOXES, sandbox, rewarded=True))
    assert call is not None and last is None
    assert (call.execution.pretence, call.execution.looked_at) == ("", seen)
    assert call.execution.selectivity == pytest.approx(selectivity, abs=0.01)


@pytest.mark.parametrize(
    ("code", "is_overview"),
    [
        ("display(input_image)", True),
        ("print(input_image.size)", True),
        ("size = input_image.size", False),  # it has no output
        ("input_image.crp()", False),
        ("print(input_image.size, input_image.getpixel((80, 70)))", False),  # it depends on the rest of the image
        ("from PIL import ImageOps\ndisplay(ImageOps.posterize(input_image.crop((40, 30, 120, 80)), 1))", False),
        (COUNT, False),
    ],
)
def test_which_call_is_an_overview(sandbox, code: str, is_overview: bool) -> None:
    turns = (Turn("<think>I look.</think>", code, "ok", "size 120", 0), SAID)
    call, _ = asyncio.run(executions(turns, [FIRST, SECOND], BOXES, sandbox, rewarded=True))
    assert call is not None and call.execution.is_overview is is_overview


def test_without_a_reward_selectivity_is_not_measured(sandbox) -> None:
    call, _ = asyncio.run(executions((Turn("", INVERTED, "ok", "", 2), SAID), [FIRST, SECOND], BOXES, sandbox))
    assert call is not None and call.execution.selectivity == 1
