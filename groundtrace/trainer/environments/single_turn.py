"""Defines the environment without observations, in which a response is one turn."""

from dataclasses import dataclass
from typing import ClassVar

from groundtrace.config.settings import settings
from groundtrace.trainer.environments.base import Environment, StepResult


@settings
class NoSettings:
    """Holds no field, because this environment has no settings."""


@dataclass(frozen=True)
class SingleTurn(Environment):
    """Ends each response after its first turn."""

    Settings: ClassVar[type] = NoSettings

    settings: NoSettings

    def max_image_pixels(self) -> int:
        """Return 0, because this environment has no observations."""
        return 0

    async def step(self, text: str) -> StepResult:
        """Return a result that ends the response."""
        return StepResult(is_done=True)
