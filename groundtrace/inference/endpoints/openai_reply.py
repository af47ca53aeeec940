"""Converts the response of an OpenAI-compatible server to a reply, or to a typed error if it is not usable. The
response is JSON that may have any form.
"""

from dataclasses import replace
from typing import Any

from groundtrace.inference.endpoints.finish_reasons import Finish, finish_of
from groundtrace.inference.endpoints.keys import scrub
from groundtrace.inference.endpoints.wire import field_of, other_model, token_count
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import TRUNCATED, Completion, Reply
from groundtrace.schemas.text import whole
from groundtrace.schemas.usage import Usage

MAX_FINISH_REASON_CHARS = 40
MAX_ERROR_CHARS = 200


def openai_reply(answer: Any, n: int, key: str, model: str = "") -> Reply:
    """Convert a response of OpenAI's chat API to a reply. A response holds several choices. The reply has the usable
    ones among the first ``n`` choices as its samples (generated texts).

    ``answer`` is the parsed JSON of the response. ``key`` is the API key, which is removed if the server repeats it.
    ``model`` is the requested model. If the response names another model, ``answered_by`` of the samples is that other
    model.

    A choice is not usable in these cases:

    - The model or the server declined to answer.
    - It has no text, although it was not truncated.
    - The server failed while it generated the choice.
    - It does not have the form of OpenAI's API.
    - It has the same index as an earlier choice.

    Raises CallError if no choice is usable, or if the response has an ``error``. All tokens are then counted as wasted.
    Otherwise the output tokens of the choices that are not in the reply are counted as wasted. The server reports only
    the sum of the output tokens of all choices, so each choice is assumed to have an equal share of this sum.
    """
    choices = field_of(answer, "choices")
    usage = _usage(field_of(answer, "usage"))
    if failed := _server_error(answer, key):
        failed.partial = _spent(usage, (), 1.0)
        raise failed
    if not isinstance(choices, list) or not choices:
        raise CallError(
            Failure.GARBLED,
            "the server's response has no list 'choices': check base_url",
            partial=_spent(usage, (), 1.0),
        )
    completions, failures, numbers = [], [], set()
    for place, choice in enumerate(choices[:n]):
        index = field_of(choice, "index")
        number = index if isinstance(index, int) else place
        if number in numbers:
            failures.append(CallError(Failure.GARBLED, f"two choices of the server's response have the index {number}"))
            continue
        numbers.add(number)
        try:
            completions.append(_completion(choice, key))
        except CallError as error:
            failures.append(error)
    answered_by = other_model(field_of(answer, "model"), model, key) if model else ""
    used = tuple(replace(each, answered_by=answered_by) if answered_by else each for each in completions[:n])
    reply = _spent(usage, used, 1 - len(used) / len(choices))
    if not used:
        failures[0].partial = reply
        raise failures[0]
    return reply


def _spent(usage: Usage, completions: tuple[Completion, ...], wasted: float) -> Reply:
    tokens_wasted = round(usage.tokens_out * wasted) + (usage.tokens_in if not completions else 0)
    return Reply(completions, replace(usage, tokens_wasted=tokens_wasted))


def _server_error(holder: Any, key: str) -> CallError | None:
    """Return the failure that the field ``error`` of ``holder`` describes. Returns None if ``holder`` has no error.

    ``holder`` is a response, a choice or a message. ``key`` is the API key, which is removed from the message.
    OpenRouter and others send such an error with the status 200, together with the text that was generated before the
    error.
    """
    error = field_of(holder, "error")
    if not error:
        return None
    message = field_of(error, "message") or error
    return CallError(Failure.SERVER_ERROR, scrub(f"the response has an error: {message}", key)[:MAX_ERROR_CHARS])


def _completion(choice: Any, key: str) -> Completion:
    message = field_of(choice, "message")
    if failed := _server_error(choice, key) or _server_error(message, key):
        raise failed
    text, refusal = field_of(message, "content") or "", field_of(message, "refusal")
    reasoning = field_of(message, "reasoning_content") or field_of(message, "reasoning") or ""
    finish_reason = field_of(choice, "finish_reason") or "stop"
    if not isinstance(message, dict) or not all(isinstance(part, str) for part in (text, reasoning, finish_reason)):
        raise CallError(
            Failure.GARBLED, f"the response has a choice of an unknown form: {scrub(repr(choice), key):.120}"
        )
    kind = finish_of(finish_reason)
    finish_reason = TRUNCATED if kind is Finish.CUT else scrub(whole(finish_reason), key)[:MAX_FINISH_REASON_CHARS]
    if refusal or kind is Finish.REFUSED:
        raise CallError(
            Failure.REFUSED, scrub(f"the model declined: {refusal or finish_reason}", key)[:MAX_ERROR_CHARS]
        )
    if kind is Finish.BROKEN:
        raise CallError(Failure.SERVER_ERROR, f"the server ended the reply early (finish_reason {finish_reason})")
    if not text.strip() and kind is not Finish.CUT:
        raise CallError(Failure.EMPTY, f"the reply has no text (finish_reason {finish_reason})")
    return Completion(scrub(whole(text), key), scrub(whole(reasoning), key), finish_reason)


def _usage(usage: Any) -> Usage:
    tokens_in = token_count(usage, "prompt_tokens")
    return Usage(
        requests=1,
        tokens_in=tokens_in,
        tokens_out=token_count(usage, "completion_tokens"),
        tokens_reasoning=token_count(field_of(usage, "completion_tokens_details"), "reasoning_tokens"),
        tokens_cached=min(tokens_in, token_count(field_of(usage, "prompt_tokens_details"), "cached_tokens")),
    )
