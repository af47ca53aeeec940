"""Defines how the steps of a pipeline and the scorers call models: the interface, and the result of a call.

A scorer is code that checks one property of a response.
"""

from dataclasses import dataclass
from typing import Protocol

from groundtrace.inference.families.base import Family
from groundtrace.inference.request import Completion, Continuation, Sampling
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.records import Call


@dataclass(frozen=True)
class CallResult:
    """Holds the result of one call to a model. ``completions`` are the samples (replies) in order. ``call`` is the
    record of the call. Later, such records show which calls led to a row of the output, and what these calls cost.
    """

    completions: tuple[Completion, ...]
    call: Call

    @property
    def text(self) -> str:
        """Return the text of the first sample (reply)."""
        return self.completions[0].text


class Caller(Protocol):
    """Defines the interface through which stages (steps of a pipeline) and scorers (code that checks responses) call
    models. :class:`groundtrace.inference.models.Models` and :class:`groundtrace.inference.session.Session` implement
    it.
    """

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> CallResult:
        """Ask a model for ``sampling.n`` samples (replies to ``prompt``), and return them. ``role`` is the job of the
        model, such as "judge"; the config names an endpoint for each role.

        If ``continuation`` is given, nothing is sampled. Then the model computes the log-probabilities of the tokens of
        this text, and the result holds them. ``repair`` is True if the prompt asks the model to correct an unusable
        reply. Raises CallError if a sample cannot be obtained, and BudgetUsedUp if the run's budget does not suffice
        (:meth:`groundtrace.inference.models.Models.generate`).
        """
        ...

    def repair_attempts(self, role: str) -> int:
        """Return how many times an unusable reply of a model may be repaired. ``role`` is the job of the model, such as
        "judge". In a repair, the model gets its unusable reply and a description of the problem, and answers again
        (:meth:`groundtrace.inference.models.Models.repair_attempts`).
        """
        ...

    def max_tokens_limit(self, role: str) -> int:
        """Return the setting ``max_tokens_limit`` for a model: the largest token budget with which a truncated reply is
        requested again. 0 means that the setting sets no such limit
        (:meth:`groundtrace.inference.models.Models.max_tokens_limit`). ``role`` is the job of the model, such as
        "judge".
        """
        ...

    def family(self, role: str) -> Family:
        """Return the family of a model, which describes how the model writes points and boxes. ``role`` is the job of
        the model, such as "pointer" (:meth:`groundtrace.inference.models.Models.family`).
        """
        ...

    def gives_logprobs(self, role: str) -> bool:
        """Return whether the endpoint of a model can return the log-probabilities of the tokens of a given text.
        ``role`` is the job of the model, such as "judge" (:meth:`groundtrace.inference.models.Models.gives_logprobs`).
        """
        ...
