"""Gets the log-probabilities of a given continuation from a server with vLLM's chat API.

A reply is divided into two parts: its beginning, and the continuation to score. In the request, the last turn of the
conversation is the beginning followed by the continuation. An option of the request keeps the server from closing this
turn. Nothing is sampled: the response has the log-probabilities of the prompt's last tokens.

The server's tokenizer decides which of these tokens belong to the continuation. It tokenizes the beginning alone, and
then the whole turn. The first tokens that are the same in both results belong to the beginning. All later tokens of the
turn belong to the continuation. So if one token contains the last characters of the beginning and the first characters
of the continuation, this token belongs to the continuation.

If the chat template strips, drops or rewrites a part of the turn, the prompt does not end with the turn's tokens. Then
the call fails, so that no other text is scored.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from groundtrace.inference.endpoints.wire import field_of
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Continuation

Post = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""A function that posts a JSON body to a path of the server and returns the response. A path with a leading slash is
relative to the server's root, any other path to the base URL. The function raises CallError if the request fails.
"""

FLOOR_NATS = -9999.0
"""vLLM's value for a log-probability of minus infinity, which JSON cannot express."""
ROUNDING_NATS = 1e-3
"""The tolerance for rounding errors. A log-probability between 0 and this value counts as 0."""


async def score(
    post: Post, model: str, messages: list[dict[str, Any]], continuation: Continuation
) -> tuple[tuple[float, ...], int]:
    """Ask the server for the log-probability of each token of ``continuation.text``. Returns two values: these
    log-probabilities in nats, and the number of tokens of the prompt.

    ``post`` sends a request to the server. ``model`` is the model's name at the server. Each log-probability is
    conditioned on ``messages`` (the conversation so far), on the reply's beginning ``continuation.given`` and on the
    earlier tokens of ``continuation.text``.

    Raises ValueError if ``continuation.text`` is empty. If ``post`` raises CallError, the error is passed on, and may
    hold a long quotation of the server's response. Raises CallError with ``UNSUPPORTED`` in these cases:

    - The server does not support ``prompt_logprobs`` and ``return_token_ids``.
    - The server cannot tokenize a text.
    - ``continuation.text`` adds no token to ``continuation.given``.
    - The server's chat template changes the last turn.

    Raises CallError with ``GARBLED`` if the response does not have the expected form. The same error is raised if a
    log-probability is not a number, is minus infinity, or is above 0.
    """
    if not continuation.text:
        raise ValueError("a continuation must not be empty: it would have no log-probability")
    turn = continuation.given + continuation.text
    # The tokenizer is called first, without the images: its reply may show that the call is impossible.
    whole = await _tokens(post, model, turn)
    given = await _tokens(post, model, continuation.given) if continuation.given else []
    shared = _shared(given, whole)
    if shared == len(whole):
        raise CallError(
            Failure.UNSUPPORTED,
            f"the continuation {continuation.text!r:.80} adds no token to the reply, so its log-probability cannot be "
            "requested: use another answer text",
        )
    answer = await post(
        "chat/completions",
        {
            "model": model,
            "messages": [*messages, {"role": "assistant", "content": turn}],
            "continue_final_message": True,
            "add_generation_prompt": False,
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
            "return_token_ids": True,
        },
    )
    prompt, positions = _prompt(answer)
    # In the prompt, a line break at the reply's start may be one token with the line break after the turn's header.
    first = 1 if continuation.given[:1].isspace() and shared else 0
    if prompt[len(prompt) - len(whole) + first :] != whole[first:]:
        message = (
            "the server's chat template changes the last turn, so the reply cannot be scored: use another chat template"
        )
        raise CallError(Failure.UNSUPPORTED, message)
    size = len(whole) - shared
    return tuple(map(_logprob, prompt[-size:], positions[-size:])), len(prompt)


async def _tokens(post: Post, model: str, text: str) -> list[int]:
    """Return the token ids of ``text``, as the server's tokenizer computes them. ``post`` sends the request to the
    server, and ``model`` is the model's name at the server.
    """
    try:
        answer = await post("/tokenize", {"model": model, "prompt": text, "add_special_tokens": False})
    except CallError as error:
        if error.failure is not Failure.BAD_REQUEST:
            raise
        message = f"the server can't tokenize the reply ({error.message})"
        raise CallError(Failure.UNSUPPORTED, message, partial=error.partial) from error
    tokens = _token_ids(field_of(answer, "tokens"))
    if tokens is None:
        raise CallError(Failure.GARBLED, f"the server's /tokenize response has no token ids: {_shown(answer)}")
    return tokens


def _shared(given: Sequence[int], whole: Sequence[int]) -> int:
    """Return how many tokens at the beginning are the same in ``given`` and ``whole``, two sequences of token ids."""
    pairs = enumerate(zip(given, whole, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(given), len(whole)))


def _prompt(answer: Any) -> tuple[list[int], list[Any]]:
    """Return two values from ``answer``, the server's response: the token ids of the prompt, and the log-probability
    entry of each token.
    """
    tokens, positions = field_of(answer, "prompt_token_ids"), field_of(answer, "prompt_logprobs")
    if isinstance(answer, dict) and (tokens is None or positions is None):
        message = "the server does not support prompt_logprobs and return_token_ids: use a vLLM server"
        raise CallError(Failure.UNSUPPORTED, message)
    ids = _token_ids(tokens)
    if ids is None or not isinstance(positions, list):
        raise CallError(Failure.GARBLED, f"the server's prompt_logprobs have an unknown form: {_shown(answer)}")
    if len(ids) != len(positions):
        raise CallError(
            Failure.GARBLED, f"the server returned {len(positions)} log-probabilities for {len(ids)} prompt tokens"
        )
    return ids, positions


def _logprob(token: int, position: Any) -> float:
    """Return the log-probability in nats of the prompt token with the id ``token``. ``position`` is the entry of the
    server's response for the token's position in the prompt.
    """
    value = field_of(field_of(position, str(token)), "logprob")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CallError(
            Failure.GARBLED, f"the server returned no log-probability for the token {token}: {_shown(position)}"
        )
    if not FLOOR_NATS < value <= ROUNDING_NATS:
        raise CallError(
            Failure.GARBLED, f"the server returned an impossible log-probability {value} for the token {token}"
        )
    return min(float(value), 0.0)


def _token_ids(value: Any) -> list[int] | None:
    """Return the value if it is a list of token ids, else None."""
    return value if isinstance(value, list) and all(type(token) is int for token in value) else None


def _shown(value: Any) -> str:
    """Return ``value`` as text for an error message. The text is not shortened here, since it may contain the API key.
    The endpoint that receives the error removes the whole key first, and then shortens the message."""
    return repr(value)
