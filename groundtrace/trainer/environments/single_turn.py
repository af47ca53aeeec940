"""Defines the environment for responses without tool calls: each response ends after its first turn."""

from dataclasses import dataclass
from typing import ClassVar

from groundtrace.config.settings import settings
from groundtrace.trainer.environments.base import Environment, StepResult


@settings
class NoSettings:
    """Holds no field, because this environment has no settings."""


@dataclass(frozen=True)
class SingleTurn(Environment):
    """Ends each response after its first turn. Use this environment for responses without tool calls."""

    Settings: ClassVar[type] = NoSettings

    settings: NoSettings

    def max_image_pixels(self) -> int:
        """Return 0, because this environment sends no images to the model."""
        return 0

    async def step(self, text: str) -> StepResult:
        """Return a result that ends the response. ``text``, the policy's turn, is not used."""
        return StepResult(is_done=True)
