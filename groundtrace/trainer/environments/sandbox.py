"""The environment that executes the code of each turn in the sandbox (CodeDance §3.1, §6.2).

A turn ends with its first call, as ``<code>`` or as ``<tool_call>``. The observation is the result of the code, as a
message ``<interpreter>…</interpreter>`` of the user or as a message of ``tool``, and the images that the code showed.
A turn without a call ends the response; so does a turn whose form is wrong, which the reward then finds malformed.

No sandbox waits for the policy: each call runs after the earlier successful ones in a fresh trajectory
(:mod:`groundtrace.sandbox.replay`). Thus any number of responses can be in progress with few sandboxes.

After the last turn all code is executed again, also on changed images (:mod:`groundtrace.rewards.executing`), so that a
call that only pretends to look at the image earns nothing, as in curation.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from groundtrace.config.settings import settings
from groundtrace.grading.responses.placeholders import as_written
from groundtrace.grading.responses.turns import IMAGE, Turn, plain_output, read_turn, result_text
from groundtrace.rewards.executing import executions
from groundtrace.rewards.pretence import groups_of
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.sandbox import Observation, SandboxLost, SandboxSettings
from groundtrace.sandbox.replay import run_after
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.trainer.environments.base import Environment, EnvironmentLost, Pixels, StepResult
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import encode_png

CODE_END, CALL_END = "</code>", "</tool_call>"


@settings
class SandboxEnvironmentSettings:
    """The settings of the environment ``sandbox``."""

    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    verify: Annotated[
        bool,
        "execute the code of a finished response again, also on changed images: code that does not look earns nothing",
    ] = True
    computing_sources: Annotated[
        tuple[str, ...], "sources whose questions calculation can answer, so that code need not look at an image"
    ] = ()
    kinds: Annotated[
        Mapping[str, str], "the kind of the questions of a source, by which the reward chooses its factors (general)"
    ] = field(default_factory=dict, hash=False)


@dataclass
class SandboxEnvironment(Environment):
    """Executes the code of one response; see the module."""

    Settings: ClassVar[type] = SandboxEnvironmentSettings
    stops: ClassVar[tuple[str, ...]] = (CODE_END, CALL_END)
    gives_trajectory: ClassVar[bool] = True

    settings: SandboxEnvironmentSettings
    _row: TrainingRow | None = None
    _images: tuple[bytes, ...] = ()
    _turns: list[Turn] = field(default_factory=list)

    def check_ready(self) -> None:
        """Raise :class:`groundtrace.sandbox.errors.SandboxRefused` if this machine cannot isolate code."""
        shared_sandbox(self.settings.sandbox)

    def max_image_pixels(self) -> int:
        """Return the sandbox's limit for an image that a call shows."""
        return self.settings.sandbox.max_image_pixels

    def check_row(self, row: TrainingRow) -> None:
        """Raise UnusableRow for a row with a clip."""
        if row.frames:
            raise UnusableRow(f"{row.id}: it has a clip, and code can open still images only")

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to this row; its prompt is the whole first state."""
        self._row = row
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Execute the code of the turn, and return its result. Raises EnvironmentLost."""
        written = read_turn(text)
        if written.fault or written.after or not written.code:
            self._turns.append(Turn(as_written(text).strip()))
            return StepResult(is_done=True)
        seen = await self._run(written.code)
        turn = Turn(written.text, written.code, seen.status, plain_output(seen.text), len(seen.images))
        self._turns.append(turn)
        if text.rstrip().lower().endswith(CALL_END):
            return StepResult("\n".join(filter(None, (turn.output, IMAGE * turn.images))), seen.images, role="tool")
        return StepResult(result_text(turn), seen.images)

    async def _run(self, code: str) -> Observation:
        """Return the result of a call after the successful calls so far. Raises EnvironmentLost."""
        if not self._images and self._row is not None:
            self._images = await asyncio.to_thread(_upright, self._row)
        earlier = [turn.code for turn in self._turns if turn.status in ("ok", "silent")]
        try:
            return await run_after(earlier, code, self._images, shared_sandbox(self.settings.sandbox))
        except SandboxLost as error:
            raise EnvironmentLost(str(error)) from error

    async def result(self) -> Trajectory:
        """Return how each call ended and, with ``verify``, whether it looked at the image. Raises EnvironmentLost."""
        assert self._row is not None
        computes = self._row.source in self.settings.computing_sources
        boxes = self._row.question.gold_boxes or ()
        found: Sequence[Execution | None] = [_seen(turn) for turn in self._turns]
        if self.settings.verify and any(turn.status == "ok" for turn in self._turns):
            images = await asyncio.to_thread(_pixels, self._row)
            try:
                sandbox = shared_sandbox(self.settings.sandbox)
                again = await executions(self._turns, images, boxes, sandbox, computes=computes, rewarded=True)
            except SandboxLost as error:
                raise EnvironmentLost(str(error)) from error
            found = [
                own and call and replace(call.execution, ended_well=own.ended_well)
                for own, call in zip(found, again, strict=True)
            ]
        groups = len(groups_of(boxes)) if boxes and self.settings.verify and not computes else 0
        kind = self.settings.kinds.get(self._row.source, "general")
        return Trajectory(tuple(found), kind, groups, tuple(self._turns))


def _seen(turn: Turn) -> Execution | None:
    """Return how the turn's code ended for the policy; None without code."""
    return Execution(turn.status == "ok") if turn.code else None


def _pixels(row: TrainingRow) -> list[Pixels]:
    return [decode_image(data).pixels for data, _ in row.images]


def _upright(row: TrainingRow) -> tuple[bytes, ...]:
    """Return the row's images as PNG files of their upright pixels, so that code and policy have the same axes."""
    return tuple(encode_png(pixels) for pixels in _pixels(row))
