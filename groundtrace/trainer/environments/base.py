"""Defines the interface of an environment, which answers the turns of the policy (the model in training).

In a response of several turns, the policy writes a turn, such as a tool call. The environment answers it with an
observation, such as the tool's result. Then the policy writes the next turn.

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
    """Raised if a response cannot continue for a reason that the model did not cause, such as a failed sandbox.

    The response gets no score, and the model is not trained on it.
    """


@dataclass(frozen=True, eq=False)
class StepResult:
    """Holds the environment's answer to a turn of the policy: an observation, or the end of the response.

    Attributes:
        text: the text of the observation, with one ``<image>`` for each image; it is not used if ``is_done`` is True.
        images: the images of the observation, in the order of the ``<image>`` placeholders in the text.
        is_done: whether the response has ended, so that the policy (the model in training) writes no further turn.
        role: the role of the message that contains the observation, such as ``user`` or ``tool``.
    """

    text: str = ""
    images: tuple[Pixels, ...] = ()
    is_done: bool = False
    role: str = "user"


class Environment(Protocol):
    """Defines the methods of an environment, which answers the turns of the model in training, e.g. with tool results.

    Each response has its own instance. The methods of an instance are awaited one after the other, on any event loop.

    Attributes:
        Settings: the class of the environment's settings. The environment's constructor has one argument, an instance
            of this class.
        stops: texts that end a turn of the policy (the model in training), such as ``</code>``, in addition to the
            model's end token. Such a text is part of the turn.
        gives_trajectory: whether :meth:`result` returns a trajectory (the results of the tool calls), which some
            rewards need.
    """

    Settings: ClassVar[type]
    stops: ClassVar[tuple[str, ...]] = ()
    gives_trajectory: ClassVar[bool] = False

    settings: Any

    def check_ready(self) -> None:
        """Check that the environment can run on this machine, e.g. that a sandbox can isolate code.

        Raises :class:`groundtrace.schemas.errors.UserError` if it cannot.
        """

    def max_image_pixels(self) -> int | None:
        """Return the number of pixels of the largest image that an observation may contain.

        An observation is the environment's answer to a turn, such as a tool's result. This method returns 0 if
        observations have no images, and None if there is no known limit.
        """
        return None

    def check_row(self, row: TrainingRow) -> None:
        """Check that the environment can be used for the question in ``row``, e.g. that the row's images can be opened.

        Raises :class:`groundtrace.rewards.rows.row.UnusableRow` if not.
        """

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to the question in ``row``, and return the first observation.

        An observation is a message from the environment to the model. The first observation is appended to the row's
        last user turn. By default, it is empty, so that the prompt is unchanged. It must depend only on the row,
        because all responses to a question must have the same prompt. Raises EnvironmentLost if the response cannot
        begin.
        """
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Return the environment's answer to a turn of the model: an observation, or the end of the response.

        An observation is, for example, a tool's result. ``text`` is the text of the turn, without the model's end
        token. Raises EnvironmentLost if the response cannot continue.
        """
        ...

    async def result(self) -> Trajectory | None:
        """Return the results of the tool calls in the finished response, with one entry for each turn of the model.

        The result is None if this environment has no tool calls to report. Raises EnvironmentLost if the results cannot
        be determined.
        """
        return None

    async def close(self) -> None:
        """Free the resources of the response. This method is called once for each response, also after an error."""
