"""What scorers and stages need to call models: the interface, and what a call gives."""

from dataclasses import dataclass
from typing import Protocol

from inference.families.base import Family
from inference.request import Completion, Continuation, Sampling
from prompts.loader import RenderedPrompt
from schemas.records import Call


@dataclass(frozen=True)
class Answered:
    """The samples of one call in order, and the call as the lineage and the ledger see it."""

    completions: tuple[Completion, ...]
    call: Call

    @property
    def text(self) -> str:
        """The first sample's text."""
        return self.completions[0].text


class Caller(Protocol):
    """What a scorer needs to call models; :class:`inference.models.Models` and a stage's session both have it."""

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> Answered:
        """See :meth:`inference.models.Models.generate`."""
        ...

    def repair_attempts(self, role: str) -> int:
        """See :meth:`inference.models.Models.repair_attempts`."""
        ...

    def max_tokens_limit(self, role: str) -> int:
        """See :meth:`inference.models.Models.max_tokens_limit`."""
        ...

    def family(self, role: str) -> Family:
        """See :meth:`inference.models.Models.family`."""
        ...

    def gives_logprobs(self, role: str) -> bool:
        """See :meth:`inference.models.Models.gives_logprobs`."""
        ...
