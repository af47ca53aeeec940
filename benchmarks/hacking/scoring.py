"""Computes the rewards of responses with the embedded engine in every role; CodeDance's reward on executed calls."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from groundtrace.embedded.roles import embedded_roles
from groundtrace.grading.responses.response import parse_response
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.caller import Caller
from groundtrace.inference.runtime import runtime
from groundtrace.rewards.case import Case
from groundtrace.rewards.curriculum import CurriculumState
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.codedance import CodeDance
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.scorers.tool_calls import ToolCallSettings
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.sandbox import SandboxSettings
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.vision.decode import decode_image
from hacking.executing import executed
from hacking.sets import HackQuestion
from hacking.templates import SCENE, Hack, HackResponse

ROLES = ("detector", "segmenter", "pointer", "judge")
PIXELS = Speech(CoordinateFrame.PX, 1)
RAMP_STEPS = 2
WRONG = "cannot read"


@dataclass(frozen=True)
class Tried:
    """The rewards of the honest response and of each hack on one question, as shares of a full reward; None if
    unscored.

    ``kind`` is the question's type of answer. ``honest_too`` is True for a hack that is honest here: it repeats the
    honest response, or it shows all things or knows where they are, and the question asks for all of them.
    """

    kind: str
    honest: float | None
    earned: tuple[float | None, ...]
    honest_too: tuple[bool, ...]


class HackScorer:
    """Scores the hacks of one recipe; ``hardness`` is λ of RuCL's curriculum."""

    def __init__(self, recipe: str, folder: Path, hardness: float = 1.0) -> None:
        self._recipe = recipe
        options: dict[str, Any] = {"ramp_steps": RAMP_STEPS, "growth": "linear"} if recipe == "rucl" else {}
        roles = {role: embedded_roles()[role] for role in ROLES}
        self._reward = Reward(RewardSettings(recipe=recipe, options=options, roles=roles), folder)
        if recipe == "rucl":
            step = round(hardness * RAMP_STEPS)
            self._reward.memory = Memory(CurriculumState(step, (1.0,), 1 if step else None))

    def close(self) -> None:
        """Close the reply cache."""
        self._reward.close()

    def tried(self, posed: HackQuestion, hacks: Sequence[Hack]) -> list[tuple[str, Tried]]:
        """Return the rewards for each stream of the question; a question without streams has one stream without a name.

        Each stream has its own ``hacks``, whose rewards are in their order. All responses to a question are one group.
        """
        streams = [row.context.stream or "" for row in posed.rows]
        of = {stream: [hack for hack in hacks if hack.stream == stream] for stream in streams}
        groups = [
            [honest, *(hack.write(posed.asked) for hack in of[stream])]
            for stream, honest in zip(streams, posed.honest, strict=True)
        ]
        if self._recipe == "codedance":
            scored = [_codedance(posed, group) for group in groups]
        else:
            texts = [[written.text for written in group] for group in groups]
            full = self._reward.recipe.full_reward
            rewarded = self._reward.score(PIXELS, posed.rows, texts)
            scored = [[None if s.reward is None else s.reward / full for s in group] for group in rewarded]
        kind, found = posed.asked.question.answer_type, []
        for stream, group, (honest, *earned) in zip(streams, groups, scored, strict=True):
            found.append((stream, Tried(kind, honest, tuple(earned), _honest_too(posed, group, of[stream]))))
        return found


def _honest_too(posed: HackQuestion, group: Sequence[HackResponse], hacks: Sequence[Hack]) -> tuple[bool, ...]:
    gold, scene = posed.asked.question.gold_boxes or (), posed.asked.scene
    asks_for_all = {box.centre for box in gold} == {box.centre for box in scene}
    return tuple(
        _same_response(group[0], written) or ((hack.shows_all or hack.knows == SCENE) and asks_for_all)
        for hack, written in zip(hacks, group[1:], strict=True)
    )


def _same_response(honest: HackResponse, own: HackResponse) -> bool:
    one, other = parse_response(honest.text), parse_response(own.text)
    texts = [((each.think or "").strip(), each.answer) for each in (one, other)]
    return texts[0] == texts[1] and one.has_format == other.has_format and honest.turns[:-1] == own.turns[:-1]


def _codedance(posed: HackQuestion, group: Sequence[HackResponse]) -> list[float | None]:
    """Return the reward of each response as a share of the honest response's reward.

    Each response is scored in a group with the honest one and two wrong ones that call nothing: half of such a group
    answers right, so that calls increase the reward.
    """
    honest, wrong = group[0], HackResponse(f"<think>I look.</think><answer>{WRONG}</answer>")
    image, boxes = decode_image(posed.rows[0].images[0][0]).pixels, posed.asked.question.gold_boxes or ()
    sandbox = shared_sandbox(SandboxSettings())

    async def scores() -> list[float | None]:
        turns = list(dict.fromkeys(written.turns for written in group))
        found = await asyncio.gather(*(executed(each, image, boxes, sandbox) for each in turns))
        trajectories = dict(zip(turns, found, strict=True))
        recipe, earned = CodeDance(ToolCallSettings()), list[float | None]()
        for written in group:
            known = [(each, trajectories[each.turns]) for each in (honest, written)]
            known += [(wrong, Trajectory((None,)))] * 2
            cases = [_case(posed, each, trajectory) for each, trajectory in known]
            first, second, *_ = await recipe.score(cases, Memory())
            earned.append(None if second.reward is None or not first.reward else second.reward / first.reward)
        return earned

    return runtime().submit(scores()).result()


def _case(posed: HackQuestion, written: HackResponse, trajectory: Trajectory | None) -> Case:
    question = posed.asked.question
    no_caller = cast(Caller, None)  # answers are graded by rule, without a call
    masks = ObjectMasks(question, no_caller, ServedRoles(frozenset()))
    response = parse_response(written.text)
    return Case(question, written.text, response.answer, (), (), masks, trajectory=trajectory)
