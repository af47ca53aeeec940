"""Executes the code of each turn in the sandbox, and returns the result as the observation (CodeDance §3.1, §6.2).

The model calls the sandbox with a ``<code>`` or a ``<tool_call>`` tag. A turn ends after its first call. The
observation is the text and the images that the code displayed. After ``<code>``, it is a user message
``<interpreter>…</interpreter>``. After ``<tool_call>``, it is a message of the role ``tool``. A turn without a call
ends the response. A turn in the wrong form also ends it, and the reward treats the response as malformed.
:mod:`groundtrace.rewards.executed_turns` executes the code.
"""

from dataclasses import dataclass
from typing import ClassVar

from groundtrace.grading.responses.turns import IMAGE, result_text
from groundtrace.rewards.executed_turns import ExecutedTurns, SandboxEnvironmentSettings
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.sandbox import SandboxLost
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.trainer.environments.base import Environment, EnvironmentLost, StepResult

CODE_END, CALL_END = "</code>", "</tool_call>"


@dataclass
class SandboxEnvironment(Environment):
    """Executes the code in the turns of one response, and returns the results as messages to the model (observations).

    The model writes code in a ``<code>`` or a ``<tool_call>`` tag. A response ends after a turn that has no such tag,
    or that is in the wrong form.
    """

    Settings: ClassVar[type] = SandboxEnvironmentSettings
    stops: ClassVar[tuple[str, ...]] = (CODE_END, CALL_END)
    gives_trajectory: ClassVar[bool] = True

    settings: SandboxEnvironmentSettings
    _executed: ExecutedTurns | None = None

    def check_ready(self) -> None:
        """Check that this machine can execute the model's code in an isolated sandbox.

        Raises :class:`groundtrace.sandbox.errors.SandboxRefused` if not.
        """
        shared_sandbox(self.settings.sandbox)

    def max_image_pixels(self) -> int:
        """Return the maximum number of pixels of an image that code may display, from the sandbox's settings."""
        return self.settings.sandbox.max_image_pixels

    def check_row(self, row: TrainingRow) -> None:
        """Check that code in the sandbox can open the images of the question in ``row``.

        Code can open only still images. Raises UnusableRow if the row has a video clip.
        """
        if row.frames:
            raise UnusableRow(
                f"{row.id}: the row has a video clip, but code in the sandbox can open only still images: remove the "
                "row, or use another environment.kind"
            )

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to the question in ``row``. The result is empty, so that nothing is added to the prompt."""
        self._executed = ExecutedTurns(self.settings, row)
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Execute the code in a turn of the model; return its output and images as the next message to the model.

        ``text`` is the text of the turn. If the turn has no code, or is in the wrong form, the result ends the
        response. Raises EnvironmentLost if the sandbox fails.
        """
        assert self._executed is not None
        try:
            done = await self._executed.step(text)
        except SandboxLost as error:
            raise EnvironmentLost(str(error)) from error
        if done is None:
            return StepResult(is_done=True)
        turn, seen = done
        if text.rstrip().lower().endswith(CALL_END):
            return StepResult("\n".join(filter(None, (turn.output, IMAGE * turn.images))), seen.images, role="tool")
        return StepResult(result_text(turn), seen.images)

    async def result(self) -> Trajectory:
        """Return, for each turn of the response, whether its code ended without an error and had output.

        If the setting ``verify`` is True, the result also shows whether the output of the code depends on the image.
        Raises EnvironmentLost if the sandbox fails.
        """
        assert self._executed is not None
        try:
            return await self._executed.result()
        except SandboxLost as error:
            raise EnvironmentLost(str(error)) from error
