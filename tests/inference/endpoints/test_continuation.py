"""Scoring a continuation, against what a vLLM 0.32 server really answered about a picture and a question."""

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.endpoints.continuation import score
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Continuation

MODEL = "tiny-qwen3-vl"
RECORDED = json.loads((Path(__file__).parents[1] / "data/continuation.json").read_text("utf-8"))
GIVEN, TEXT = RECORDED["given"], RECORDED["text"]
QUESTION = [{"role": "user", "content": "Which square is on the left?"}]
LOGPROBS = (-6.507997512817383, -8.469482421875, -9.414199829101562, -6.755670070648193)
PROMPT_TOKENS = 51


class Server:
    """Answers with the recorded replies, or with ``changed`` ones; an exception among them is raised."""

    def __init__(self, begun: str = GIVEN, **changed: Any) -> None:
        self.begun = begun
        self.replies = copy.deepcopy(RECORDED["replies"]) | changed
        self.seen: list[tuple[str, dict[str, Any]]] = []

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        self.seen.append((path, body))
        if path == "/tokenize":
            reply = self.replies["given" if body["prompt"] == self.begun else "whole"]
        else:
            reply = self.replies["chat"]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def score(self, given: str = GIVEN, text: str = TEXT) -> tuple[tuple[float, ...], int]:
        return asyncio.run(score(self.post, MODEL, QUESTION, Continuation(given, text)))


def chat(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The recorded chat reply with a change."""
    reply = copy.deepcopy(RECORDED["replies"]["chat"])
    change(reply)
    return reply


def without(name: str) -> dict[str, Any]:
    return chat(lambda reply: reply.pop(name))


def last(value: object) -> dict[str, Any]:
    """The recorded chat reply with another log-probability of the last token."""
    return chat(lambda reply: next(iter(reply["prompt_logprobs"][-1].values())).update(logprob=value))


def tokens(*ids: object) -> dict[str, Any]:
    return {"count": len(ids), "max_model_len": 8192, "tokens": list(ids)}


def test_the_continuations_tokens_are_scored() -> None:
    assert Server().score() == (LOGPROBS, PROMPT_TOKENS)


def test_the_reply_is_sent_as_an_open_turn_and_the_prompt_is_left_alone() -> None:
    server = Server()
    server.score()
    paths = [path for path, _ in server.seen]
    assert paths == ["/tokenize", "/tokenize", "chat/completions"]
    body = server.seen[-1][1]
    assert body["messages"] == [*QUESTION, {"role": "assistant", "content": GIVEN + TEXT}]
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert len(QUESTION) == 1
    assert all(seen["model"] == MODEL for _, seen in server.seen)
    assert all(seen["add_special_tokens"] is False for _, seen in server.seen[:2])


def test_without_a_beginning_the_whole_turn_is_scored() -> None:
    server = Server()
    logprobs, _ = server.score(given="", text=GIVEN + TEXT)
    assert len(logprobs) == len(RECORDED["replies"]["whole"]["tokens"])
    assert logprobs[-len(LOGPROBS) :] == LOGPROBS
    assert [path for path, _ in server.seen] == ["/tokenize", "chat/completions"]


def test_a_token_across_the_border_counts_as_the_continuations() -> None:
    given = RECORDED["replies"]["given"]["tokens"]
    # The beginning alone ends in a token that the whole turn spells otherwise.
    logprobs, _ = Server(given=tokens(*given[:-1], 99)).score()
    assert logprobs[-len(LOGPROBS) :] == LOGPROBS
    assert len(logprobs) == len(LOGPROBS) + 1


@pytest.mark.parametrize(("given", "let_go"), [("\n" + GIVEN, True), (GIVEN, False)])
def test_only_a_line_break_may_be_joined_with_the_turns_header(given: str, let_go: bool) -> None:
    whole = RECORDED["replies"]["whole"]["tokens"]
    server = Server(whole=tokens(400, *whole[1:]), given=tokens(400, *whole[1:-4]), begun=given)
    if let_go:
        assert server.score(given=given) == (LOGPROBS, PROMPT_TOKENS)
    else:
        with pytest.raises(CallError, match="template changes"):
            server.score(given=given)


def test_an_empty_continuation_is_refused() -> None:
    server = Server()
    with pytest.raises(ValueError, match="empty"):
        server.score(text="")
    assert server.seen == []


@pytest.mark.parametrize(("value", "scored"), [(0, 0.0), (-0.0, 0.0), (1e-6, 0.0), (-9998.5, -9998.5), (-3, -3.0)])
def test_numbers_that_are_log_probabilities(value: float, scored: float) -> None:
    assert Server(chat=last(value)).score()[0][-1] == scored


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), float("-inf"), float("inf"), -9999.0, -10000.0, 0.5, True, "-1.5", [-1.5]],
    ids=str,
)
def test_a_value_that_is_no_log_probability_is_never_a_score(value: object) -> None:
    with pytest.raises(CallError) as caught:
        Server(chat=last(value)).score()
    assert caught.value.failure is Failure.GARBLED


def truncate(reply: dict[str, Any]) -> None:
    reply["prompt_logprobs"].pop()


def drop_entry(reply: dict[str, Any]) -> None:
    reply["prompt_logprobs"][-1] = None


def other_token(reply: dict[str, Any]) -> None:
    reply["prompt_logprobs"][-1] = {"7": {"logprob": -1.0, "rank": 1, "decoded_token": "?"}}


def no_ids(reply: dict[str, Any]) -> None:
    reply["prompt_token_ids"][3] = "3"


def strings(reply: dict[str, Any]) -> None:
    reply["prompt_logprobs"] = "none"


def closed(reply: dict[str, Any]) -> None:
    """The template closed the turn."""
    reply["prompt_token_ids"] += [2, 205]
    reply["prompt_logprobs"] += [{"2": {"logprob": -1.0}}, {"205": {"logprob": -1.0}}]


def dropped_thinking(reply: dict[str, Any]) -> None:
    """The template left the beginning of the reply out."""
    del reply["prompt_token_ids"][-12:-4]
    del reply["prompt_logprobs"][-12:-4]


def dropped_end(reply: dict[str, Any]) -> None:
    """The template stripped the reply's end."""
    del reply["prompt_token_ids"][-1]
    del reply["prompt_logprobs"][-1]


def only_the_end(reply: dict[str, Any]) -> None:
    reply["prompt_token_ids"] = reply["prompt_token_ids"][-2:]
    reply["prompt_logprobs"] = reply["prompt_logprobs"][-2:]


@pytest.mark.parametrize(
    ("changed", "failure"),
    [
        ({"chat": chat(truncate)}, Failure.GARBLED),
        ({"chat": chat(drop_entry)}, Failure.GARBLED),
        ({"chat": chat(other_token)}, Failure.GARBLED),
        ({"chat": chat(no_ids)}, Failure.GARBLED),
        ({"chat": chat(strings)}, Failure.GARBLED),
        ({"chat": ["no", "object"]}, Failure.GARBLED),
        ({"chat": None}, Failure.GARBLED),
        ({"whole": {"count": 4}}, Failure.GARBLED),
        ({"whole": tokens(1, None)}, Failure.GARBLED),
        ({"whole": "text"}, Failure.GARBLED),
        ({"chat": without("prompt_logprobs")}, Failure.UNSUPPORTED),
        ({"chat": without("prompt_token_ids")}, Failure.UNSUPPORTED),
        ({"chat": chat(closed)}, Failure.UNSUPPORTED),
        ({"chat": chat(dropped_thinking)}, Failure.UNSUPPORTED),
        ({"chat": chat(dropped_end)}, Failure.UNSUPPORTED),
        ({"chat": chat(only_the_end)}, Failure.UNSUPPORTED),
        ({"whole": RECORDED["replies"]["given"]}, Failure.UNSUPPORTED),
        ({"whole": CallError(Failure.BAD_REQUEST, "HTTP 404: Not Found")}, Failure.UNSUPPORTED),
        ({"whole": CallError(Failure.OVERLOADED, "HTTP 503: later")}, Failure.OVERLOADED),
        ({"chat": CallError(Failure.BAD_REQUEST, "HTTP 400: the final message does not appear")}, Failure.BAD_REQUEST),
    ],
    ids=lambda value: value.name if isinstance(value, Failure) else None,
)
def test_other_answers_are_typed_failures(changed: dict[str, Any], failure: Failure) -> None:
    with pytest.raises(CallError) as caught:
        Server(**changed).score()
    assert caught.value.failure is failure
