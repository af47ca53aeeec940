"""The environment without observations: a response is one turn."""

from dataclasses import dataclass
from typing import ClassVar

from groundtrace.config.settings import settings
from groundtrace.trainer.environments.base import Environment, StepResult


@settings
class NoSettings:
    """This environment has no settings."""


@dataclass(frozen=True)
class SingleTurn(Environment):
    """Ends each response after its first turn."""

    Settings: ClassVar[type] = NoSettings

    settings: NoSettings

    def max_image_pixels(self) -> int:
        """Return 0: there is no observation."""
        return 0

    async def step(self, text: str) -> StepResult:
        """Return the end of the response."""
        return StepResult(is_done=True)
