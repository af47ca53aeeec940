"""The interface of an environment, which answers the policy's turns in a rollout with observations.

An environment has one instance for each response. A response of a single turn is the special case of an environment
that ends after the first turn (:mod:`groundtrace.trainer.environments.single_turn`).
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
    """The response cannot go on, through no fault of the policy. It is unscored and not trained on."""


@dataclass(frozen=True, eq=False)
class StepResult:
    """The observation after a turn of the policy, and whether the response has ended.

    Attributes:
        text: the observation, with one ``<image>`` for each image; it is not used if the response has ended.
        images: the images of the observation, in the order of their marks.
        is_done: whether the response has ended.
        role: the role of the message that shows the observation, such as ``user`` or ``tool``.
    """

    text: str = ""
    images: tuple[Pixels, ...] = ()
    is_done: bool = False
    role: str = "user"


class Environment(Protocol):
    """The environment of one response. Its methods are awaited one after the other, on any event loop.

    Attributes:
        Settings: the type of its settings, which are the only argument of its constructor.
        stops: texts that end a turn of the policy, besides the end of the turn itself; they belong to the turn.
        gives_trajectory: whether :meth:`result` returns a trajectory, which some rewards need.
    """

    Settings: ClassVar[type]
    stops: ClassVar[tuple[str, ...]] = ()
    gives_trajectory: ClassVar[bool] = False

    settings: Any

    def check_ready(self) -> None:
        """Raise :class:`groundtrace.schemas.errors.UserError` if the environment cannot run on this machine."""

    def max_image_pixels(self) -> int | None:
        """Return the pixels of the largest image that an observation can show; 0 without images, None if unknown."""
        return None

    def check_row(self, row: TrainingRow) -> None:
        """Raise :class:`groundtrace.rewards.rows.row.UnusableRow` for a row that the environment cannot use."""

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to this row, and return the first state, which is appended to the row's last user turn.

        By default it is empty: the prompt is that of the row. It has to depend on the row alone, since all responses of
        a group have the same prompt. Raises EnvironmentLost.
        """
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Take the text of the policy's turn, without its end token, and return the observation. Raises
        EnvironmentLost.
        """
        ...

    async def result(self) -> Trajectory | None:
        """Return how the calls of the finished response ended, with an entry for each turn; None if unknown.

        Raises EnvironmentLost.
        """
        return None

    async def close(self) -> None:
        """Free what the response holds; called once, however the response ends."""
