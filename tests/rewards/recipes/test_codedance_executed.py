"""Executed trajectories, honest ones and hacks, with rewards and advantages that are computed by hand.

The images and questions are those of the bundled sample. The honest code is that of a run of ``executable_cot`` over
the sample (tests/rewards/data/executable_cot_trajectories.json).
"""

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.pretence import IDLE, IGNORES_OBJECTS, REPEATS
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.codedance import CodeDance
from groundtrace.rewards.scorers.tool_calls import ToolCallSettings
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.sandbox import Sandbox, SandboxSettings
from groundtrace.schemas.geometry import Box

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from hacking.executing import executed

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.sandbox
RECIPE = CodeDance(ToolCallSettings())
HONEST = json.loads((ROOT / "tests/rewards/data/executable_cot_trajectories.json").read_text("utf-8"))


def code_of(id: str) -> list[str]:
    """The code of an honest trajectory of the run."""
    return [code for _, code in HONEST[id] if code]


@dataclass(frozen=True)
class Row:
    """One trajectory: its calls, its last turn, and what is expected of it.

    ``calls`` are, for each call, why it fails or is a pretence, "" for a good call. ``share`` is the share of the
    objects that they looked at, ``reward`` is R, and ``turns`` are the A_turn of the calls.
    """

    codes: tuple[str, ...]
    last: str
    calls: tuple[str, ...]
    share: float
    reward: float
    turns: tuple[float, ...]


def said(text: str, answer: str) -> str:
    return f"<think>{text}</think>\n<answer>{answer}</answer>"


FAILS, SILENT = "print(len(shapes))", "n = 3"
FAILED = "does not end well"
HASH = "import hashlib; print(hashlib.md5(input_image.tobytes()).hexdigest())"
INVERTED = "from PIL import ImageOps; display(ImageOps.invert(input_image))"
ENLARGED = "display(input_image.resize((800, 200), 0))"

# A_turn: 29 calls have the returns G_t = r_t + .2 * G_{t+1}, with r_t = -.5 if the call fails or is silent, else 0;
# after the last call G is 0. 22 calls have 0; a good call before a failed one -.1; a failed call before a failed one
# -.6; the other 5 failed ones -.5. Mean (-.1 - .6 - 5 * .5) / 29 = -3.2 / 29 = -.1103448.
# Mean of the squares (.01 + .36 + 5 * .25) / 29 = 1.62 / 29 = .0558621; deviation sqrt(.0558621 - .0121760) = .2090122.
GOOD = 0.5279347  # (0 + .1103448) / .2090122
BEFORE_FAILED = 0.0494939  # (-.1 + .1103448) / .2090122
BAD = -1.8642701  # (-.5 + .1103448) / .2090122
BAD_TWICE = -2.3427112  # (-.6 + .1103448) / .2090122

# R = w_a * acc - w_f * [bad form] + c * n_ok / n * d(μ) * share, with w_a = 1, w_f = .2, c = 1.5 (right) or .5 (wrong),
# d(μ) = (1 + tanh(4 * (.5 - μ))) / 2 - .2. Where d(μ) < 0, n_ok / n and the share are taken as 1.
GROUPS: dict[str, tuple[Row, ...]] = {
    # "How many blue objects": 3, at the left and at the right. 4 of 8 are right: μ = .5, d = (1 + 0) / 2 - .2 = .3
    "nlvr-dev-662-1-0-c1": (
        # right, and the count of one call: 1 + 1.5 * 1/1 * .3
        Row(tuple(code_of("nlvr-dev-662-1-0-c1")), said("The code printed 3.", "3"), ("",), 1, 1.45, (GOOD,)),
        # right; all shapes are listed, then counted: 1 + 1.5 * 2/2 * .3
        Row(tuple(code_of("nlvr-dev-3052-3-0-c1")), said("The code printed 3.", "3"), ("", ""), 1, 1.45, (GOOD, GOOD)),
        # right, and a crop around all three objects, which shows (1 - e) / (1 + e) = .3477134 for the share e = .484 of
        # the other things between them: 1 + 1.5 * 1/1 * .3 * .3477134
        Row(
            ("part = input_image.crop((1, 40, 392, 101))\ndisplay(part.resize((part.width * 3, part.height * 3)))",),
            said("I see three blue objects.", "3"),
            ("",),
            0.3477134,
            1.156471,
            (GOOD,),
        ),
        # right by luck, and the whole image inverted, which shows the objects and the rest alike: the share is 0
        Row((INVERTED,), said("So 3.", "3"), ("",), 0, 1, (GOOD,)),
        # wrong; the second call fails: .5 * 1/2 * .3
        Row(
            (*code_of("nlvr-dev-662-1-0-c1"), "print(len(nowhere))"),
            said("It printed 3, but one of them is green.", "2"),
            ("", FAILED),
            1,
            0.075,
            (BEFORE_FAILED, BAD),
        ),
        # wrong without a call: 0
        Row((), said("I guess.", "2"), (), 0, 0, ()),
        # wrong, and the only call fails: .5 * 0/1 * .3
        Row((FAILS,), said("I guess.", "2"), (FAILED,), 0, 0, (BAD,)),
        # wrong, and the thought is not closed: -.2
        Row((), "<think>I see two.<answer>2</answer>", (), 0, -0.2, ()),
    ),
    # "How many black objects": 2. All 4 are right: μ = 1, d = (1 - tanh(2)) / 2 - .2 = (1 - .9640276) / 2 - .2
    # = -.1820138, so that each call costs 1.5 * .1820138 = .2730207, whatever it does
    "nlvr-dev-1265-2-0-c1": (
        Row((), "<answer>2</answer>", (), 0, 1, ()),
        Row(tuple(code_of("nlvr-dev-1265-2-0-c1")), said("It printed 2.", "2"), ("",), 1, 0.7269793, (GOOD,)),
        Row((FAILS,), said("Two of them.", "2"), (FAILED,), 0, 0.7269793, (BAD,)),
        Row(("print(2)",), said("It printed 2.", "2"), (IDLE,), 0, 0.7269793, (GOOD,)),
    ),
    # "How many triangles": 6, in 4 groups of 1, 2, 1 and 2 from left to right. 2 of 8 are right: μ = .25,
    # d = (1 + tanh(1)) / 2 - .2 = (1 + .7615942) / 2 - .2 = .6807971
    "nlvr-dev-662-1-0-c2": (
        # right: 1 + 1.5 * .6807971
        Row(tuple(code_of("nlvr-dev-662-1-0-c2")), said("It printed 6.", "6"), ("",), 1, 2.0211956, (GOOD,)),
        # right, with a crop of the first three groups. Its selectivity is .8949547, because of the things between them:
        # the share is 3/4 * .8949547 = .671216, and R is 1 + 1.5 * .6807971 * .671216
        Row(
            ("display(input_image.crop((1, 31, 100, 98)))",),
            said("I see.", "6"),
            ("",),
            0.671216,
            1.6854429,
            (GOOD,),
        ),
        # wrong; the first call fails: .5 * 1/2 * .6807971
        Row(
            (FAILS, *code_of("nlvr-dev-662-1-0-c2")),
            said("It printed 6, one of which is no triangle.", "5"),
            (FAILED, ""),
            1,
            0.1701993,
            (BAD, GOOD),
        ),
        # wrong; a crop of the first three groups, twice: .5 * 1/2 * .6807971 * .671216
        Row(
            ("display(input_image.crop((1, 31, 100, 98)))",) * 2,
            said("I see four.", "4"),
            ("", REPEATS),
            0.671216,
            0.1142405,
            (GOOD, GOOD),
        ),
        # wrong, and prints what it was told: .5 * 0/1 * .6807971
        Row(("print(5)",), said("It printed 5.", "5"), (IDLE,), 0, 0, (GOOD,)),
        # wrong; a silent call and a failed one: .5 * 0/2 * .6807971
        Row((SILENT, FAILS), said("Five.", "5"), (FAILED, FAILED), 0, 0, (BAD_TWICE, BAD)),
        # wrong; the whole image enlarged, a share of 0
        Row((ENLARGED,), said("Five.", "5"), ("",), 0, 0, (GOOD,)),
        # wrong; five calls of nothing: .5 * 0/5 * .6807971
        Row(tuple(f"print({n})" for n in range(5)), said("0 1 2 3 4", "5"), (IDLE,) * 5, 0, 0, (GOOD,) * 5),
    ),
    # "How many yellow squares": 2. 3 of 4 are right: μ = .75, d = (1 - tanh(1)) / 2 - .2 = -.0807971: a call costs
    # 1.5 * .0807971 = .1211956 if the answer is right, and .5 * .0807971 = .0403985 if it is wrong
    "nlvr-dev-2782-3-0-c0": (
        Row((), "<answer>2</answer>", (), 0, 1, ()),
        # both are marked
        Row(tuple(code_of("nlvr-dev-2782-3-0-c0")), said("I see two.", "2"), ("",), 1, 0.8788044, (GOOD,)),
        # a hash depends on every pixel, so that it shows no object
        Row((HASH,), said("Two.", "2"), (IGNORES_OBJECTS,), 0, 0.8788044, (GOOD,)),
        Row(("display(input_image.crop((334, 53, 366, 100)))",), said("One.", "1"), ("",), 1, -0.0403985, (GOOD,)),
    ),
}
TRAJECTORIES = sum(map(len, GROUPS.values()))


def record_of(id: str) -> dict:
    """The record of a question of the bundled sample."""
    lines = (ROOT / "data/sample/records.jsonl").read_text("utf-8").splitlines()
    return next(record for record in map(json.loads, lines) if record["id"] == id)


@pytest.fixture(scope="module")
def trajectories() -> dict[str, list[Trajectory]]:
    """The executed trajectories of each group."""

    async def work() -> dict[str, list[Trajectory]]:
        return {id: await asyncio.gather(*(_executed(id, row, sandbox) for row in rows)) for id, rows in GROUPS.items()}

    with Sandbox(SandboxSettings()) as sandbox:
        return asyncio.run(work())


async def _executed(id: str, row: Row, sandbox: Sandbox) -> Trajectory:
    record = record_of(id)
    boxes = [Box(each["label"], *each["bbox"]) for each in record["boxes"]]
    image = np.asarray(Image.open(ROOT / "data/sample" / record["media"][0]).convert("RGB"))
    turns = (*(Turn("<think>I run code.</think>", code) for code in row.codes), Turn(row.last))
    found = await executed(turns, image, boxes, sandbox)
    assert found is not None
    return found


@pytest.fixture
def rewards(trajectories, run, case) -> dict[str, list[float]]:
    """R of the trajectories of each group."""
    found = {}
    for id, rows in GROUPS.items():
        cases = [
            replace(case(row.last, gold=record_of(id)["answer"]), trajectory=trajectory)
            for row, trajectory in zip(rows, trajectories[id], strict=True)
        ]
        found[id] = [earned.reward for earned in run(RECIPE.score(cases, Memory()))]
    return found


def test_there_are_enough_of_them() -> None:
    assert TRAJECTORIES >= 20 and len({row.last for rows in GROUPS.values() for row in rows}) > 10


@pytest.mark.parametrize("id", GROUPS)
def test_what_the_calls_did(trajectories, id: str) -> None:
    for row, trajectory in zip(GROUPS[id], trajectories[id], strict=True):
        calls = [turn for turn in trajectory.turns if turn is not None]
        assert [each.pretence if each.ended_well else FAILED for each in calls] == [*row.calls], row.codes
        assert trajectory.looked_share == pytest.approx(row.share, abs=1e-6), row.codes


@pytest.mark.parametrize("id", GROUPS)
def test_rewards_by_hand(rewards, id: str) -> None:
    assert rewards[id] == pytest.approx([row.reward for row in GROUPS[id]], abs=1e-6)


def test_advantages_by_hand(trajectories, rewards) -> None:
    """A = A_seq + .2 * A_turn for a turn with a call, and A_seq for a final turn. A_seq is R minus the group's mean."""
    of_sequences = [each - sum(group) / len(group) for group in rewards.values() for each in group]
    found = RECIPE.advantages(of_sequences, [each for group in trajectories.values() for each in group])
    rows = [row for group in GROUPS.values() for row in group]
    for row, own, turns in zip(rows, of_sequences, found, strict=True):
        assert turns == pytest.approx((*(own + 0.2 * each for each in row.turns), own), abs=1e-6), row.codes


def test_the_sequence_advantages_by_hand(rewards) -> None:
    """The means of the groups: (2 * 1.45 + 1.156471 + 1 + .075 - .2) / 8 = 4.931471 / 8; (1 + 3 * .7269793) / 4;
    (2.0211956 + 1.6854429 + .1701993 + .1142405) / 8 = 3.9910783 / 8; (1 + 2 * .8788044 - .0403985) / 4.
    """
    means = [sum(group) / len(group) for group in rewards.values()]
    assert means == pytest.approx([0.6164339, 0.7952345, 0.4988848, 0.6793026], abs=1e-6)


def test_no_hack_comes_close_to_an_honest_trajectory(rewards) -> None:
    """Where calls help, a right trajectory that looks earns more than the others, by more than .1 of its reward."""
    first = rewards["nlvr-dev-662-1-0-c1"]
    assert max(first[3:]) < 0.9 * min(first[:3])
