"""Records the calls to models that are made for one element of a pipeline (such as one question). The records show
later which calls led to a row (one record of the result), and what these calls cost. Failed calls are also recorded.
"""

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
    """Calls models, and records the calls and the errors of failed calls. It implements
    :class:`groundtrace.inference.caller.Caller`. ``models`` is the object that makes the calls. ``calls`` are the
    records (for example prompt, model and tokens) of all calls, and ``failures`` are the errors of the failed calls.
    Both are in the order in which the calls ended.
    """

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
        """Ask a model for ``sampling.n`` samples (replies to ``prompt``), return them, and record the call. ``role`` is
        the job of the model, such as "judge".

        If ``continuation`` (a fixed text) is given, nothing is sampled. Instead, the model computes the log-probability
        of each token of this text, and the result holds these values. ``repair`` is True if the prompt asks the model
        to correct an unusable reply. Raises CallError if a sample cannot be obtained, and BudgetUsedUp if the run's
        budget does not suffice (:meth:`groundtrace.inference.models.Models.generate`).
        """
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
        """Return how many times an unusable reply of a model may be repaired. ``role`` is the job of the model, such as
        "judge". In a repair, the model gets its unusable reply and a description of the problem, and answers again
        (:meth:`groundtrace.inference.models.Models.repair_attempts`).
        """
        return self.models.repair_attempts(role)

    def max_tokens_limit(self, role: str) -> int:
        """Return the setting ``max_tokens_limit`` for a model: the largest token budget with which a truncated reply is
        requested again. 0 means that the setting sets no such limit
        (:meth:`groundtrace.inference.models.Models.max_tokens_limit`). ``role`` is the job of the model, such as
        "judge".
        """
        return self.models.max_tokens_limit(role)

    def family(self, role: str) -> Family:
        """Return the family of a model, which describes how the model writes points and boxes. ``role`` is the job of
        the model, such as "pointer" (:meth:`groundtrace.inference.models.Models.family`).
        """
        return self.models.family(role)

    def gives_logprobs(self, role: str) -> bool:
        """Return whether the endpoint of a model can return the log-probabilities of the tokens of a given text.
        ``role`` is the job of the model, such as "judge" (:meth:`groundtrace.inference.models.Models.gives_logprobs`).
        """
        return self.models.gives_logprobs(role)
