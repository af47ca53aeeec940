"""Defines the interface of an environment.

In a response of several turns, the policy (the model in training) writes a turn, such as a tool call. The environment
answers it with an observation, such as the tool's result.

Each response has its own instance of the environment. The environment
:mod:`groundtrace.trainer.environments.single_turn` ends each response after its first turn.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.trajectory import Trajectory

Pixels = NDArray[np.uint8]
"""An image as RGB uint8 (H, W, 3)."""


class EnvironmentLost(Exception):
    """Raised if a response cannot continue for a reason outside the policy, such as a failed sandbox.

    The response is unscored and not trained on.
    """


@dataclass(frozen=True, eq=False)
class StepResult:
    """Holds the observation after a turn of the policy, and whether the response has ended.

    Attributes:
        text: the observation, with one ``<image>`` for each image; it is not used if the response has ended.
        images: the images of the observation, in the order of their ``<image>`` marks.
        is_done: whether the response has ended.
        role: the role of the message with the observation, such as ``user`` or ``tool``.
    """

    text: str = ""
    images: tuple[Pixels, ...] = ()
    is_done: bool = False
    role: str = "user"


class Environment(Protocol):
    """Describes the environment of one response. Its methods are awaited one after the other, on any event loop.

    Attributes:
        Settings: the class of the environment's settings. Its constructor has one argument, an instance of this class.
        stops: texts that end a turn of the policy, in addition to the model's end token. Such a text is part of the
            turn.
        gives_trajectory: whether :meth:`result` returns a trajectory (the results of the tool calls), which some
            rewards need.
    """

    Settings: ClassVar[type]
    stops: ClassVar[tuple[str, ...]] = ()
    gives_trajectory: ClassVar[bool] = False

    settings: Any

    def check_ready(self) -> None:
        """Raise :class:`groundtrace.schemas.errors.UserError` if the environment cannot run on this machine."""

    def max_image_pixels(self) -> int | None:
        """Return the number of pixels of the largest image that an observation may have.

        The result is 0 if observations have no images, and None if the largest size is unknown.
        """
        return None

    def check_row(self, row: TrainingRow) -> None:
        """Raise :class:`groundtrace.rewards.rows.row.UnusableRow` for a row that the environment cannot use."""

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to this row, and return the observation that is appended to the row's last user turn.

        By default, this observation is empty, so that the row's prompt is unchanged. The observation must depend only
        on the row, since all responses of a group have the same prompt. Raises EnvironmentLost if the response cannot
        begin.
        """
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Return the observation after a turn of the policy.

        ``text`` is the turn without its end token. Raises EnvironmentLost if the response cannot continue.
        """
        ...

    async def result(self) -> Trajectory | None:
        """Return the results of the finished response's tool calls, with an entry for each turn of the policy.

        Returns None if the environment gives no trajectory. Raises EnvironmentLost if the results cannot be determined.
        """
        return None

    async def close(self) -> None:
        """Free the resources of the response. This is called once, also after an error."""
