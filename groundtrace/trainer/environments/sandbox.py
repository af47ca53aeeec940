"""Executes the code of each turn in the sandbox and returns its result as the observation (CodeDance §3.1, §6.2).

A turn ends with its first call, as ``<code>`` or as ``<tool_call>``. The observation is the text and the images that
the code displayed. For ``<code>`` it is a message ``<interpreter>…</interpreter>`` of the user, for ``<tool_call>`` a
message of the role ``tool``. A turn without a call ends the response. A turn in the wrong form also ends the response,
and the reward treats the response as malformed.

No sandbox is reserved while the policy writes its next turn. So for each call, the earlier successful calls are first
executed again in a fresh sandbox state (:mod:`groundtrace.sandbox.replay`). Therefore a few sandboxes can serve any
number of responses.

After the last turn, all code is executed again, also on changed images (:mod:`groundtrace.rewards.executing`). As in
curation, a call whose result does not depend on the image is not rewarded.
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
    """Holds the settings of the environment ``sandbox``."""

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
    """Executes the code of one response, as the module's docstring describes."""

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
        """Return the sandbox's limit for the pixels of an image that code displays."""
        return self.settings.sandbox.max_image_pixels

    def check_row(self, row: TrainingRow) -> None:
        """Raise UnusableRow for a row with a clip."""
        if row.frames:
            raise UnusableRow(f"{row.id}: the row has a clip, but the sandbox's code can open only still images")

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to this row, and return an empty observation, since the prompt is that of the row."""
        self._row = row
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Execute the code of the turn, and return its result as the observation.

        A turn without code, or with a fault, ends the response. Raises EnvironmentLost if the sandbox fails.
        """
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
        """Return the result of a call, executed after the earlier successful calls.

        Raises EnvironmentLost if the sandbox fails.
        """
        if not self._images and self._row is not None:
            self._images = await asyncio.to_thread(_upright, self._row)
        earlier = [turn.code for turn in self._turns if turn.status in ("ok", "silent")]
        try:
            return await run_after(earlier, code, self._images, shared_sandbox(self.settings.sandbox))
        except SandboxLost as error:
            raise EnvironmentLost(str(error)) from error

    async def result(self) -> Trajectory:
        """Return how each call ended and, if the setting ``verify`` is True, whether its output depends on the image.

        Raises EnvironmentLost if the sandbox fails.
        """
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
    """Return whether the turn's code ended well, as the policy saw it; None if the turn has no code."""
    return Execution(turn.status == "ok") if turn.code else None


def _pixels(row: TrainingRow) -> list[Pixels]:
    return [decode_image(data).pixels for data, _ in row.images]


def _upright(row: TrainingRow) -> tuple[bytes, ...]:
    """Return the row's images as PNG files of their upright pixels, so that code and policy see the same image."""
    return tuple(encode_png(pixels) for pixels in _pixels(row))
