"""Converts the response of an OpenAI-compatible server to a reply, or to a typed error if it is not usable. The
response is JSON that may have any form.
"""

from dataclasses import replace
from typing import Any

from groundtrace.inference.endpoints.keys import scrub
from groundtrace.inference.endpoints.wire import field_of, other_model, token_count
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply
from groundtrace.schemas.text import whole
from groundtrace.schemas.usage import Usage

MAX_FINISH_REASON_CHARS = 40


def openai_reply(answer: Any, n: int, key: str, model: str = "") -> Reply:
    """Convert a response of OpenAI's chat API to a reply. A response holds several choices (samples). The reply has the
    usable ones among the first ``n`` choices.

    ``answer`` is the parsed JSON of the response. ``key`` is the API key, which is removed if the server repeats it.
    ``model`` is the requested model. If the response names another model, ``answered_by`` of the samples is that other
    model.

    A sample is not usable if it is empty or refused, if its form differs from the API's form, or if it repeats an
    index. Raises CallError if no choice is usable. The tokens of unusable samples are counted as wasted. Since the
    server reports only the sum of the tokens, each sample gets an equal share of it.
    """
    choices = field_of(answer, "choices")
    usage = _usage(field_of(answer, "usage"))
    if not isinstance(choices, list) or not choices:
        raise CallError(Failure.GARBLED, "the server's response has no list 'choices'", partial=_spent(usage, (), 1.0))
    completions, failures, numbers = [], [], set()
    for place, choice in enumerate(choices[:n]):
        index = field_of(choice, "index")
        number = index if isinstance(index, int) else place
        if number in numbers:
            failures.append(CallError(Failure.GARBLED, f"two choices have the index {number}"))
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


def _completion(choice: Any, key: str) -> Completion:
    message = field_of(choice, "message")
    text, refusal = field_of(message, "content") or "", field_of(message, "refusal")
    reasoning = field_of(message, "reasoning_content") or field_of(message, "reasoning") or ""
    finish_reason = field_of(choice, "finish_reason") or "stop"
    finish_reason = "length" if finish_reason == "max_tokens" else finish_reason  # some servers use this word
    if not isinstance(message, dict) or not all(isinstance(part, str) for part in (text, reasoning, finish_reason)):
        raise CallError(
            Failure.GARBLED, f"the response has a choice of an unknown form: {scrub(repr(choice), key):.120}"
        )
    finish_reason = scrub(whole(finish_reason), key)[:MAX_FINISH_REASON_CHARS]
    if refusal or finish_reason == "content_filter":
        raise CallError(Failure.REFUSED, scrub(str(refusal or finish_reason), key)[:200])
    if not text.strip() and finish_reason != "length":
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
