"""Asking models of a role for something, with the models opened for it alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from groundtrace.inference.caller import CallResult
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling
from groundtrace.inference.settings import ModelsSettings


def call(settings: ModelsSettings, work: Callable[[Models], Awaitable[Any]]) -> Any:
    """Run ``work`` with models opened for it alone."""

    async def main() -> Any:
        models = Models(settings)
        try:
            return await work(models)
        finally:
            await models.close()

    return asyncio.run(main())


def ask(settings: ModelsSettings, prompt: Any, role: str = "policy", **sampling: Any) -> CallResult:
    return call(settings, lambda models: models.generate(role, prompt, Sampling(**sampling)))


def texts(answered: CallResult) -> list[str]:
    return [completion.text for completion in answered.completions]
