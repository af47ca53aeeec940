"""Writes the requests of a replay to a file. A replay repeats the work on one record with cached replies only."""

import json
from pathlib import Path
from typing import Any

from groundtrace.grading.messages import MediaPart, Part
from groundtrace.inference.call_progress import CallInProgress
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.in_flight import stage_of_call


def log_request(file: str, asked: CallInProgress) -> None:
    """Append the model call ``asked`` to the JSON Lines file ``file``, whether or not the cache holds the replies to
    this call.

    A line is a JSON object with these fields. ``stage``, ``role`` and ``prompt`` are the names of the call's stage
    (pipeline step), role (job of the model) and prompt. ``keys`` holds the cache keys of all wanted replies, and
    ``stored`` holds the keys of those replies that are in the cache. ``system`` is the text of the prompt's system
    turn, and ``user`` holds the parts of its user turn. A part is {"text": …} or {"media": URI, "sha256": digest of the
    file}. ``variables`` are the values with which the prompt was filled. If no reply is sampled, ``continuation`` holds
    the text whose log-probability is wanted; otherwise it is null.
    """
    line = {
        "stage": stage_of_call(),
        "role": asked.role,
        "prompt": asked.prompt.name,
        "keys": list(asked.keys),
        "stored": [key for key in asked.keys if key in asked.have],
        "system": asked.prompt.system,
        "user": [_shown(part) for part in asked.prompt.user],
        "variables": dict(asked.prompt.variables),
        "continuation": asked.continuation and {"given": asked.continuation.given, "text": asked.continuation.text},
    }
    with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as lines:
        lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def not_stored(asked: CallInProgress) -> CallError:
    """Return the error with which the model call ``asked`` fails in a replay, if the cache lacks at least one of its
    replies. A replay repeats the work on one record with cached replies only, so it cannot request a reply.
    """
    error = CallError(Failure.AWAY, "the cache does not hold this reply, and a replay sends no requests")
    error.call = asked.call(0)
    return error


def _shown(part: Part) -> dict[str, Any]:
    if isinstance(part, MediaPart):
        return {"media": part.uri, "sha256": part.sha256}
    return {"text": part.text}
