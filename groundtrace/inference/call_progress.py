"""Holds the state of a model call in progress: the samples (generated texts) that are still missing, and the tokens and
costs so far.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from groundtrace.inference.cache.replies import CachedReply
from groundtrace.inference.coordination.spending import Cost
from groundtrace.inference.endpoint import Endpoint
from groundtrace.inference.flow.in_flight import stage_of_call
from groundtrace.inference.request import Continuation, Reply, Sampling, joined
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.records import Call
from groundtrace.schemas.usage import Usage


@dataclass
class CallInProgress:
    """Holds the state of one call to a model while its samples (generated texts) arrive.

    ``role`` is the job for which the model is called, such as "judge", and ``endpoint`` is where this model runs.
    ``prompt``, ``sampling`` and ``continuation`` are the content of the call. If ``continuation`` is given, nothing is
    sampled: the model computes the log-probability of this text. ``keys`` are the cache keys of all samples that the
    call needs. ``have`` holds the samples that have arrived so far, by cache key.

    A sample may come from the cache or from a request of another call. So ``sent`` holds the keys of the samples that
    this call requested itself, and ``replies`` holds the server's replies to these requests.
    """

    role: str
    endpoint: Endpoint
    prompt: RenderedPrompt
    sampling: Sampling
    continuation: Continuation | None
    keys: tuple[str, ...]
    have: dict[str, CachedReply]
    sent: set[str] = field(default_factory=set)
    replies: list[Reply] = field(default_factory=list)

    def wanted(self) -> dict[int, list[int]]:
        """Return which samples (generated texts) must be requested now: a dict from a token budget to the indices of
        the samples to request with this budget. The dict is empty if the call is complete. The budgets follow these
        rules:

        - A missing sample is requested with the call's budget (``sampling.max_tokens``).
        - A sample that was truncated at a smaller budget is also requested with the call's budget.
        - Any other truncated sample is requested with twice its old budget, at most with the endpoint's
          ``max_tokens_limit``. If its old budget has already reached this limit, it is not requested again.
        """
        limit = self.endpoint.settings.max_tokens_limit
        wanted: dict[int, list[int]] = defaultdict(list)
        for index, key in enumerate(self.keys):
            kept = self.have.get(key)
            if kept is None or not kept.serves(self.sampling.max_tokens):
                wanted[self.sampling.max_tokens].append(index)
            elif kept.max_tokens < limit and not kept.serves(limit):
                wanted[min(limit, 2 * kept.max_tokens)].append(index)
        return dict(wanted)

    def call(self, repairs: int) -> Call:
        """Return the record of the call, with the samples (generated texts) that have arrived and the usage so far.
        Later, such records show which calls led to a row of the output, and what these calls cost. ``repairs`` is 1 if
        the call asks the model to correct an unusable reply, else 0.
        """
        settings, taken = self.endpoint.settings, joined(self.replies).usage
        keys = tuple(key for key in self.keys if key in self.have)
        worth_usd = tuple(settings.cost_usd(self.have[key].tokens_in, self.have[key].tokens_out) for key in keys)
        usage = replace(
            taken,
            calls=1,
            cached=len(self.have.keys() - self.sent),
            repairs=repairs,
            cost_usd=cost_of(settings, taken).usd,
            worth_usd=sum(worth_usd),
        )
        completions = [self.have[key].completion for key in keys]
        answered_by = tuple(completion.answered_by for completion in completions)
        taken_from = tuple(completion.taken_from for completion in completions)
        truncated = tuple(key for key, completion in zip(keys, completions, strict=True) if completion.is_truncated)
        return Call(
            self.role,
            self.prompt.name,
            self.prompt.sha256,
            settings.model,
            keys,
            usage,
            stage_of_call(),
            worth_usd if any(worth_usd) else (),
            answered_by if any(answered_by) else (),
            taken_from if any(taken_from) else (),
            truncated,
            max((self.have[key].max_tokens for key in truncated), default=0),
        )


def cost_of(settings: EndpointSettings, usage: Usage) -> Cost:
    """Return what ``usage`` costs at the prices in the endpoint's ``settings``. The result has the dollars, and the sum
    of the input and output tokens.
    """
    usd = settings.cost_usd(usage.tokens_in, usage.tokens_out, usage.tokens_cached)
    return Cost(usd, usage.tokens_in + usage.tokens_out)
