"""Defines the interface through which scorers and stages call models, and the result of a call."""

from dataclasses import dataclass
from typing import Protocol

from groundtrace.inference.families.base import Family
from groundtrace.inference.request import Completion, Continuation, Sampling
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.records import Call


@dataclass(frozen=True)
class CallResult:
    """Holds the samples of one call in order, and the record of the call for lineage and ledger."""

    completions: tuple[Completion, ...]
    call: Call

    @property
    def text(self) -> str:
        """Return the first sample's text."""
        return self.completions[0].text


class Caller(Protocol):
    """Defines the interface for calling models. :class:`groundtrace.inference.models.Models` and
    :class:`groundtrace.inference.session.Session` implement it."""

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> CallResult:
        """Return ``sampling.n`` samples of the role's model for the prompt. The arguments are those of
        :meth:`groundtrace.inference.models.Models.generate`."""
        ...

    def repair_attempts(self, role: str) -> int:
        """Return how often a bad reply may be repaired (:meth:`groundtrace.inference.models.Models.repair_attempts`).
        For a repair, the model gets its bad reply and a description of the problem, and answers again."""
        ...

    def max_tokens_limit(self, role: str) -> int:
        """Return the largest token budget with which a truncated reply is requested again
        (:meth:`groundtrace.inference.models.Models.max_tokens_limit`)."""
        ...

    def family(self, role: str) -> Family:
        """Return the family of the role's model, which describes how the model writes coordinates
        (:meth:`groundtrace.inference.models.Models.family`).
        """
        ...

    def gives_logprobs(self, role: str) -> bool:
        """Return whether the role's endpoint returns log-probabilities
        (:meth:`groundtrace.inference.models.Models.gives_logprobs`).
        """
        ...
