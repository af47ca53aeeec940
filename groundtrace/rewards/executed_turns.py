"""Executes the code in the turns of one response, and finds the objects that the code looked at (CodeDance §3.1, §6.2).

The code runs in a sandbox. No sandbox is reserved between two turns. So before each call (execution of a turn's code),
the earlier successful calls are executed again in a fresh sandbox (:mod:`groundtrace.sandbox.replay`). Therefore a few
sandboxes can serve any number of responses.

After the last turn, all code is executed again, also on changed images (:mod:`groundtrace.rewards.executing`). As in
curation (when training data is made), a call whose result does not depend on the image is not rewarded.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from groundtrace.config.settings import settings
from groundtrace.grading.responses.placeholders import as_written
from groundtrace.grading.responses.turns import Turn, plain_output, read_turn
from groundtrace.rewards.executing import executions
from groundtrace.rewards.pretence import groups_of
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.sandbox import Observation, SandboxSettings
from groundtrace.sandbox.replay import run_after
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import encode_png

Pixels = NDArray[np.uint8]


@settings
class SandboxEnvironmentSettings:
    """Holds the settings of the environment ``sandbox``, which executes the code in a policy's responses."""

    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    verify: Annotated[
        bool,
        "execute the code of a finished response again, also on changed images, to find code that does not use the "
        "image; this code earns nothing",
    ] = True
    computing_sources: Annotated[
        tuple[str, ...], "sources whose questions need only calculation, so that code need not look at an image"
    ] = ()
    kinds: Annotated[
        Mapping[str, str], "the kind of the questions of a source, by which the reward chooses its factors (general)"
    ] = field(default_factory=dict, hash=False)


@dataclass
class ExecutedTurns:
    """Executes the code of one response, turn by turn, while the policy writes it.

    Attributes:
        settings: the settings of the environment.
        row: the training row, which holds the question and its images.
        turns: the turns that the policy has written, with the results of their code.
    """

    settings: SandboxEnvironmentSettings
    row: TrainingRow
    turns: list[Turn] = field(default_factory=list)
    _images: tuple[bytes, ...] = ()

    async def step(self, text: str) -> tuple[Turn, Observation] | None:
        """Execute the code of a new turn, and return the turn with its result, and what the code printed and showed.

        ``text`` is the turn as the policy wrote it. The result is None if the turn ends the response. A turn ends the
        response if it has no code, has text after its code, or has a wrong form, such as a tool call that cannot be
        parsed. Raises :class:`groundtrace.sandbox.SandboxLost` if the sandbox fails.
        """
        written = read_turn(text)
        if written.fault or written.after or not written.code:
            self.turns.append(Turn(as_written(text).strip()))
            return None
        seen = await self._run(written.code)
        turn = Turn(written.text, written.code, seen.status, plain_output(seen.text), len(seen.images))
        self.turns.append(turn)
        return turn, seen

    async def _run(self, code: str) -> Observation:
        """Execute the code of a call, and return its result.

        The code of the earlier successful calls is executed again first, so that the new code can use
        the variables of these calls.
        """
        if not self._images:
            self._images = await asyncio.to_thread(_upright, self.row)
        earlier = [turn.code for turn in self.turns if turn.status in ("ok", "silent")]
        return await run_after(earlier, code, self._images, shared_sandbox(self.settings.sandbox))

    async def result(self) -> Trajectory:
        """Return the results of all turns, after the response has ended.

        For each turn with code, the result holds whether the code succeeded (status ``ok``). If the setting ``verify``
        is True, the code is executed again, also on changed images. The result then also holds whether the code only
        pretended to use the image, and which objects it looked at.

        Raises :class:`groundtrace.sandbox.SandboxLost` if the sandbox fails.
        """
        computes = self.row.source in self.settings.computing_sources
        boxes = self.row.question.gold_boxes or ()
        found: Sequence[Execution | None] = [_seen(turn) for turn in self.turns]
        if self.settings.verify and any(turn.status == "ok" for turn in self.turns):
            images = await asyncio.to_thread(_pixels, self.row)
            sandbox = shared_sandbox(self.settings.sandbox)
            again = await executions(self.turns, images, boxes, sandbox, computes=computes, rewarded=True)
            found = [
                own and call and replace(call.execution, ended_well=own.ended_well)
                for own, call in zip(found, again, strict=True)
            ]
        groups = len(groups_of(boxes)) if boxes and self.settings.verify and not computes else 0
        kind = self.settings.kinds.get(self.row.source, "general")
        return Trajectory(tuple(found), kind, groups, tuple(self.turns))


def _seen(turn: Turn) -> Execution | None:
    """Return the result of a turn's code, without executing the code again; None if the turn has no code.

    The result holds only whether the code had the status ``ok`` when it was executed. The other fields of
    :class:`Execution` have their defaults, because they are known only after the code is executed again. An example is
    ``pretence``, the reason why the code only pretends to use the image.
    """
    return Execution(turn.status == "ok") if turn.code else None


def _pixels(row: TrainingRow) -> list[Pixels]:
    return [decode_image(data).pixels for data, _ in row.images]


def _upright(row: TrainingRow) -> tuple[bytes, ...]:
    """Return the row's images as PNG files, rotated upright by their metadata.

    So the code gets the images in the same orientation in which the policy sees them.
    """
    return tuple(encode_png(pixels) for pixels in _pixels(row))
