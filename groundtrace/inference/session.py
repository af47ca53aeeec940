"""Records the calls that are made for one element (such as a draft), for its lineage and cost. Failed calls are also
recorded."""

from dataclasses import dataclass, field

from groundtrace.inference.caller import CallResult
from groundtrace.inference.errors import BudgetUsedUp, CallError
from groundtrace.inference.families.base import Family
from groundtrace.inference.models import Models
from groundtrace.inference.request import Continuation, Sampling
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.records import Call


@dataclass
class Session:
    """Implements a :class:`groundtrace.inference.caller.Caller` that records its calls, and the errors of failed calls.
    Both records are in the order in which the calls ended."""

    models: Models
    calls: list[Call] = field(default_factory=list)
    failures: list[CallError] = field(default_factory=list)

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> CallResult:
        """Return ``sampling.n`` samples for the prompt, and record the call. The arguments are those of
        :meth:`groundtrace.inference.models.Models.generate`."""
        try:
            answered = await self.models.generate(role, prompt, sampling, continuation=continuation, repair=repair)
        except (CallError, BudgetUsedUp) as error:
            if error.call is not None:
                self.calls.append(error.call)
            if isinstance(error, CallError):
                self.failures.append(error)
            raise
        self.calls.append(answered.call)
        return answered

    def repair_attempts(self, role: str) -> int:
        """Return how often a bad reply may be repaired (:meth:`groundtrace.inference.models.Models.repair_attempts`).
        For a repair, the model gets its bad reply and a description of the problem, and answers again."""
        return self.models.repair_attempts(role)

    def max_tokens_limit(self, role: str) -> int:
        """Return the largest token budget with which a truncated reply is requested again
        (:meth:`groundtrace.inference.models.Models.max_tokens_limit`)."""
        return self.models.max_tokens_limit(role)

    def family(self, role: str) -> Family:
        """Return the family of the role's model, which describes how the model writes coordinates
        (:meth:`groundtrace.inference.models.Models.family`).
        """
        return self.models.family(role)

    def gives_logprobs(self, role: str) -> bool:
        """Return whether the role's endpoint returns log-probabilities
        (:meth:`groundtrace.inference.models.Models.gives_logprobs`).
        """
        return self.models.gives_logprobs(role)
