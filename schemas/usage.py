"""Defines the usage of model calls: the numbers of requests and tokens, and their cost. It is recorded for each reply
and summed for a whole run.
"""

import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from groundtrace.schemas.coding import record


@record
class Usage:
    """Holds the numbers of calls, requests and tokens that were needed, and their cost in US dollars.

    ``calls`` is the number of calls that the stages (steps of a pipeline) made. ``requests`` is the number of requests
    to an endpoint (model server); a call that the cache answers sends no request. ``cached`` is the number of samples
    (replies) that needed no request: they came from the cache, or from an equal call that was already in progress.
    ``retries`` are the requests that were sent again. ``repairs`` are the calls that requested another reply because
    the first reply had the wrong form. ``tokens_in`` and ``tokens_out`` are the input and output tokens.
    ``tokens_reasoning`` are those output tokens that are the model's thinking. ``tokens_cached`` are the input tokens
    that the server had cached. ``tokens_wasted`` are the input and output tokens of samples that could not be used.
    ``cost_usd`` is the amount that was paid, and ``worth_usd`` is the amount that would have been paid without the
    cache.

    The entry ``ledger`` of run.json has the same names in the same order.
    """

    calls: int = 0
    requests: int = 0
    cached: int = 0
    retries: int = 0
    repairs: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    tokens_cached: int = 0
    tokens_wasted: int = 0
    cost_usd: float = 0.0
    worth_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(operator.add, _values(self), _values(other)))

    def beyond(self, part: "Usage") -> "Usage":
        """Return the difference between this usage and ``part``, which is a part of it. E.g. if this usage has 5
        requests and ``part`` has 2, the result has 3. No value is below 0.
        """
        return Usage(*(max(0, mine - other) for mine, other in zip(_values(self), _values(part), strict=True)))

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> "Usage":
        """Create a usage from ``figures``, a mapping such as the counts of one role (a model's job, e.g. judge) in
        ``run.json``. A field that the mapping lacks is 0, and unknown names in it are ignored.
        """
        return cls(**{name: figures[name] for name in USAGE_FIELDS if name in figures})


USAGE_FIELDS = tuple(field.name for field in fields(Usage))
_values = operator.attrgetter(*USAGE_FIELDS)

NOTHING = Usage()
ONE_REQUEST = Usage(requests=1)
ONE_CALL = Usage(calls=1)
