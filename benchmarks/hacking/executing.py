"""Executes the calls of hacks and honest responses in the sandbox, as the pipeline executes those of a trajectory."""

from collections.abc import Sequence
from dataclasses import replace

from groundtrace.grading.responses.turns import Turn, plain_output
from groundtrace.rewards.executing import executions, observed
from groundtrace.rewards.marks import Pixels
from groundtrace.rewards.pretence import groups_of
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.sandbox import Observation, Sandbox, SandboxLost
from groundtrace.schemas.geometry import Box


async def executed(turns: Sequence[Turn], image: Pixels, boxes: Sequence[Box], sandbox: Sandbox) -> Trajectory | None:
    """Return the trajectory of a response in turns. ``boxes`` are the objects that the question asks about.

    None if the runs of a call cannot be compared, because some of them exceeded a limit; then the response is unscored.
    """
    codes = [turn.code for turn in turns if turn.code]
    try:
        shown = iter(await observed(codes, [image], sandbox) if codes else ())
        written = tuple(_with_result(turn, next(shown)) if turn.code else turn for turn in turns)
        found = await executions(written, [image], boxes, sandbox, rewarded=True)
    except SandboxLost:
        return None
    calls = tuple(call and call.execution for call in found)
    return Trajectory(calls, groups=len(groups_of(boxes)), written=written)


def _with_result(turn: Turn, shown: Observation) -> Turn:
    return replace(turn, status=shown.status, output=plain_output(shown.text), images=len(shown.images))
