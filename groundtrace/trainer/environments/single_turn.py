"""Defines the environment for responses without tool calls: each response ends after its first turn."""

from dataclasses import dataclass
from typing import ClassVar

from groundtrace.config.settings import settings
from groundtrace.trainer.environments.base import Environment, StepResult


@settings
class NoSettings:
    """Holds the settings of the environment ``single_turn``, which has none."""


@dataclass(frozen=True)
class SingleTurn(Environment):
    """Ends each response of the model in training after its first turn.

    Use this environment for responses without tool calls.
    """

    Settings: ClassVar[type] = NoSettings

    settings: NoSettings

    def max_image_pixels(self) -> int:
        """Return 0, because this environment sends no images to the model."""
        return 0

    async def step(self, text: str) -> StepResult:
        """Return a result that ends the response. ``text``, the turn of the model in training, is not used."""
        return StepResult(is_done=True)
