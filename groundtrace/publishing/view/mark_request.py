"""Reads the body of a request to ``beam view`` that changes the marks (flag, tags and note) of records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.publishing.view.reviews import CHANGED

MAX_MARKED = 10_000
"""The maximum number of records in one request."""


@dataclass(frozen=True)
class MarkRequest:
    """Holds the content of a request to change the marks (flag, tags and note) of records.

    ``ids`` are the different ids of the records. ``changes`` holds the new values of ``flagged``, ``tags`` and
    ``note``; the marks of the records keep the values that are left out.
    """

    ids: Sequence[str]
    changes: Mapping[str, Any]


def read_mark_request(body: Any) -> MarkRequest:
    """Check the body of a request, parsed as JSON, and return its content.

    Raises ValueError if a key is missing or unknown, if a value has the wrong type, or if the request has more than
    :data:`MAX_MARKED` ids. :class:`groundtrace.publishing.view.reviews.Reviews` checks the values of ``changes``.
    """
    if not isinstance(body, dict):
        raise ValueError("the request must be a JSON object")
    if unknown := body.keys() - {"ids", *CHANGED}:
        raise ValueError(
            f"the request has unknown keys ({', '.join(sorted(unknown))}): use only ids, {', '.join(CHANGED)}"
        )
    if "ids" not in body:
        raise ValueError("the request has no key ids: add it, with a list of the ids of records")
    ids = body["ids"]
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
        raise ValueError('"ids" has the wrong type: it must be a list of texts')
    if len(ids) > MAX_MARKED:
        raise ValueError(f"the request has {len(ids)} ids: send at most {MAX_MARKED} in one request")
    return MarkRequest(tuple(dict.fromkeys(ids)), {name: body[name] for name in CHANGED if name in body})
