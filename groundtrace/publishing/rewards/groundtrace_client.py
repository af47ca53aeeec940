"""Requests Groundtrace's reward of each response from a ``beam serve-reward`` server, inside a trainer.

``beam export`` writes this file into the folder of the export. The file needs only Python 3.10 and its standard
library, so Groundtrace need not be installed with the trainer. Give the trainer the path of this file:

    verl      reward.custom_reward_function.path=…/groundtrace_client.py
              reward.custom_reward_function.name=compute_score
    EasyR1    worker.reward.reward_function=…/groundtrace_client.py:compute_score_easyr1
    TRL       GRPOTrainer(reward_funcs=groundtrace_client.reward_funcs(), …)
    ms-swift  --external_plugins …/groundtrace_client.py --reward_funcs groundtrace
    OpenRLHF  --reward.remote_url …/groundtrace_client.py

``python groundtrace_client.py`` prints the server's ``/health``; its exit code is 1 if no server is ready.

A problem of the server never gives a response a wrong score. If the server is unreachable, busy, slow or not ready, the
client waits and retries. The trainer's call of the reward function, which may need several requests, has a timeout.
After this timeout, the call raises :class:`RewardUnavailable`, and the training stops at a step that can be repeated.
There are two exceptions. OpenRLHF only logs the error, and continues without a reward for the response. In TRL, the
setting ``ON_TIMEOUT`` can avoid the error.

Settings are arguments of the functions or, for all trainers, environment variables. Defaults are in parentheses:

    GROUNDTRACE_REWARD_URL                the server's address (http://127.0.0.1:8500), without a user name, a password
                                          or a query
    GROUNDTRACE_REWARD_TOKEN              the server's token, if it has one: printable ASCII characters in one line.
                                          Messages show *** in its place
    GROUNDTRACE_REWARD_TIMEOUT_S          timeout of a call, including retries (600)
    GROUNDTRACE_REWARD_REQUEST_TIMEOUT_S  timeout of one request, after which it is sent again (180). It should be
                                          longer than the server's own limit, --timeout-s, which is 150 by default
    GROUNDTRACE_REWARD_BATCH              maximum number of responses in one request (1024; the server accepts at most
                                          4096)
    GROUNDTRACE_REWARD_ON_TIMEOUT         what happens after the timeout of a call ("raise"). With "raise", the call
                                          raises RewardUnavailable. With "leave_out", the responses of the call get no
                                          reward. "leave_out" has an effect only in TRL, from version 1.6
    GROUNDTRACE_REWARD_UNSCORED           the reward of an unscored response, in trainers that need a number; without
                                          it, an unscored response is an error
"""

from __future__ import annotations

import base64
import contextlib
import html
import http.client
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import math
import os
import queue
import random
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, urlsplit

_SAME_VERSION = "use the same version of Groundtrace for the server and the export"
COLUMN = "groundtrace"
"""The column of an exported row that holds its reference, by which the reward finds the row.

It is also the reward's name in ms-swift.
"""
VARIABLE = "GROUNDTRACE_REWARD_"
MAX_BODY_BYTES = 4 * 2**20
"""The approximate maximum size of a request in bytes. The server accepts requests of up to twice this size.

The client splits a larger list of responses into several requests. A single larger response is sent alone.
"""
MAX_REPLY_BYTES = 16 * 2**20
"""The maximum size of a reply in bytes, which is 4 KiB for each of the 4096 responses that the server accepts at most.

A larger reply counts as an unreadable body.
"""
MAX_REQUEST_S = 86_400.0
"""The maximum timeout of one request in seconds. Sockets refuse timeouts of more than 24 days."""
MAX_WAIT_S = 30.0
"""The maximum wait between two requests in seconds, even if the server's ``Retry-After`` is longer."""
MAX_DEFECTS = 3
"""After this many answers with status 500 or an unreadable body, the client stops retrying."""
AGAIN = (408, 425, 429, 499, 502, 503, 504)
"""The HTTP statuses after which the client sends the request again."""
LEAVES_OUT = (1, 6)
"""The first version of TRL that ignores a response without a reward. Older versions count it as reward 0."""


class RewardUnavailable(RuntimeError):
    """Raised if the reward server returned no score within the time limit of a call (the setting ``timeout_s``).

    The message states why the last request failed.
    """


class RewardRefused(RuntimeError):
    """Raised if the server or this client refuses the input, e.g. an unknown row, so that a retry would not help."""


class Unscored(RuntimeError):
    """Raised if a response got no reward and the trainer needs a number for every response."""


class Settings(NamedTuple):
    """Holds the settings of the client, from the environment or from the arguments of a reward function.

    ``url`` is the address of the reward server, and ``token`` is its bearer token ("" if it needs none). ``timeout_s``
    is the time limit of a call with all its retries, and ``request_timeout_s`` is that of a single request. ``batch``
    is the maximum number of responses in a request. ``on_timeout`` defines what happens at the end of ``timeout_s``:
    with "raise", the call raises RewardUnavailable; with "leave_out" (only in TRL, from version 1.6), its responses get
    no reward. ``unscored`` is the reward of a response that could not be scored. If it is None, such a response is an
    error in trainers that need a number.
    """

    url: str = "http://127.0.0.1:8500"
    token: str = ""
    timeout_s: float = 600.0
    request_timeout_s: float = 180.0
    batch: int = 1024
    on_timeout: str = "raise"
    unscored: float | None = None

    def __repr__(self) -> str:
        shown = self._asdict() | {"token": "***" if self.token else ""}  # logs and tracebacks may print the settings
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Return the settings of the client.

    ``given`` holds settings by name, such as the keyword arguments of a reward function; unknown names are ignored. A
    setting that is missing or None comes from its environment variable, or else has its default. Raises ValueError for
    a wrong value. Also raises ValueError if ``given`` has the key ``config``, because the server chooses the reward's
    config, not the client.
    """
    if "config" in given:
        raise ValueError(
            "the setting 'config' belongs to the server: pass it to `beam serve-reward --config`, and leave it out in "
            "the trainer"
        )
    found = {name: os.environ[f"{VARIABLE}{name.upper()}"] for name in Settings._fields if _is_set(name)}
    found.update({name: given[name] for name in Settings._fields if given.get(name) is not None})
    read = {"timeout_s": _seconds, "request_timeout_s": _seconds, "batch": _count, "unscored": _number}
    settings = Settings(**{name: read.get(name, _text)(name, value) for name, value in found.items()})
    if settings.on_timeout not in ("raise", "leave_out"):
        raise ValueError(f"{VARIABLE}ON_TIMEOUT must be 'raise' or 'leave_out', got {settings.on_timeout!r}")
    _check_url(settings.url)
    if not (settings.token.isascii() and settings.token.isprintable()):  # the message must not show the token
        raise ValueError(
            f"{VARIABLE}TOKEN must be printable ASCII characters in one line: give the server and the trainer such a "
            "token"
        )
    return settings


def _check_url(url: str) -> None:
    """Raise ValueError if the client cannot send requests to the address ``url``, or if ``url`` may contain a secret.

    A URL with "@", "?" or "#" may contain a secret, such as a user name, a password or a query. The client would not
    send these parts of the URL. The message about such a URL does not show the URL.
    """
    if any(mark in url for mark in "@?#"):
        raise ValueError(
            f"{VARIABLE}URL must have no user name, password or query, so no '@', '?' or '#': remove them, and set "
            f"{VARIABLE}TOKEN if the server has a token"
        )
    if fault := _fault_of(url):
        raise ValueError(f"{VARIABLE}URL must be a URL such as http://127.0.0.1:8500, got {url!r:.200}{fault}")


def _fault_of(url: str) -> str:
    """Return the reason why the client cannot send requests to ``url``, as the end of a message; "" if it can."""
    if not url.isprintable() or " " in url:
        return ", with a space or an unprintable character"
    try:
        address = urlsplit(url)
        (address.hostname or "").encode("idna")
    except ValueError:
        return ", with an invalid host: each part between two dots has 1 to 63 characters, and IPv6 needs [ and ]"
    if address.scheme not in ("http", "https") or not address.hostname:
        return ", without http:// or without a host"
    try:
        is_port = address.port != 0
    except ValueError:
        is_port = False
    if not is_port:
        return ", with a port that is not a number from 1 to 65535"
    return "" if address.path.isascii() else ", with a path that is not ASCII: quote its characters, as in %C3%A9"


def _is_set(name: str) -> bool:
    return bool(os.environ.get(f"{VARIABLE}{name.upper()}", "").strip())


def _text(name: str, value: Any) -> str:
    return str(value).strip()


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{VARIABLE}{name.upper()} must be a number, got {value!r}")
    return number


def _seconds(name: str, value: Any) -> float:
    if (number := _number(name, value)) <= 0:
        raise ValueError(f"{VARIABLE}{name.upper()} must be above 0, got {value!r}")
    return number


def _count(name: str, value: Any) -> int:
    if (number := _number(name, value)) < 1 or number != int(number):
        raise ValueError(f"{VARIABLE}{name.upper()} must be a whole number of at least 1, got {value!r}")
    return int(number)


# The functions that each trainer calls


def compute_score(
    data_source: object = None,
    solution_str: str | None = None,
    ground_truth: str | None = None,
    extra_info: object = None,
    *,
    solution_strs: Sequence[str] | None = None,
    ground_truths: Sequence[str] | None = None,
    **given: Any,
) -> dict[str, float] | list[dict[str, float]]:
    """Return the reward of one response, or of each response in a list, for verl.

    The result for a response is a dict with three keys. ``score`` is the reward. ``outcome_or_0`` is the outcome (the
    grade of the answer), or 0 if the outcome could not be scored. ``outcome_scored`` is 1 if the outcome is scored,
    else 0.

    verl passes one response as ``solution_str``, and its row's reference (JSON text by which the reward finds the row)
    as ``ground_truth``. verl's batch manager passes lists as ``solution_strs`` and ``ground_truths``; the result is
    then a list. ``data_source`` is not used. If ``extra_info`` states that the sandbox of the response failed, the
    response counts as one that could not be scored. ``given`` may hold settings of the client; verl takes them from
    ``reward_kwargs`` in its config. With lists, ``given`` also holds ``extra_infos``, which is used instead of
    ``extra_info``. Do not use this function with verl's ``rate_limited`` manager, which counts an error as 0.

    Raises Unscored if a response could not be scored and the setting ``unscored`` is missing, RewardUnavailable if the
    server does not return scores in time, and RewardRefused if the input cannot be scored.
    """
    settings = settings_of(given)
    if solution_strs is not None:
        found = scores(settings, list(ground_truths or ()), list(solution_strs), is_step=True)
        infos = given.get("extra_infos")
        lost = [""] * len(found) if infos is None else map(_lost_in, infos)  # verl passes an array, which is not a bool
        return [_for_verl(settings, _unless_lost(each, why)) for each, why in zip(found, lost, strict=True)]
    if solution_str is None:
        raise TypeError(
            "compute_score needs solution_str and ground_truth for one response, or solution_strs and ground_truths "
            "for a list of responses: pass one of these pairs"
        )
    if why := _lost_in(extra_info):
        return _for_verl(settings, _unless_lost({"id": _id_of(0, ground_truth)}, why))
    [score] = scores(settings, [ground_truth], [solution_str], is_step=False)
    return _for_verl(settings, score)


def _lost_in(info: object) -> str:
    """Return the reason why the sandbox of a response failed; "" if it did not fail.

    ``info`` is verl's ``extra_info`` or ms-swift's ``rollout_infos`` of the response. Groundtrace's tools for these
    trainers, which execute the code of responses, write the reason there.
    """
    return str(info.get(f"{COLUMN}_lost") or "") if isinstance(info, Mapping) else ""


def _unless_lost(score: Mapping[str, Any], why: str) -> Mapping[str, Any]:
    """Return the score of a response; if its sandbox failed, return an unscored result instead.

    ``why`` is the reason why the sandbox failed; "" if it did not fail. The policy (the model in training) did not
    cause such a failure, so its response must be neither rewarded nor punished.
    """
    if not why:
        return score
    return {**score, "reward": None, "outcome": None, "verdicts": {"sandbox": {"value": None, "reason": why}}}


def _for_verl(settings: Settings, score: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of one response for verl: ``score``, ``outcome_or_0`` and ``outcome_scored``.

    The argument ``score`` is the server's result for the response. In the returned dict, ``score`` is the reward.
    ``outcome_or_0`` is the grade of the answer (1 for a right answer), or 0 if the answer could not be graded.
    ``outcome_scored`` is 1 if the answer could be graded, else 0.
    """
    return {"score": _reward(settings, score), **_figures("outcome", score["outcome"])}


def _figures(name: str, value: float | None) -> dict[str, float]:
    """Return a verdict (the score of one aspect of a response) as two finite numbers, with their names as keys.

    This form is for trainers that average each key over all responses. ``name`` is the name of the verdict. The number
    ``NAME_or_0`` is the verdict's value, or 0 if ``value`` is None (the aspect could not be scored). The number
    ``NAME_scored`` is 1 if there is a value, else 0.
    """
    return {f"{name}_or_0": value or 0.0, f"{name}_scored": float(value is not None)}


def compute_score_easyr1(reward_inputs: Any, **given: Any) -> Any:
    """Return the reward of each response for EasyR1, under the key ``overall``, with further numbers that EasyR1 logs.

    ``reward_inputs`` are dicts with the texts ``response`` and ``ground_truth``. The ground truth is the row's
    reference: JSON text by which the reward finds the row. For a single dict outside a list, the result is a single
    dict. ``outcome_or_0`` is the outcome (1 for a right answer, 0 for a wrong one), or 0 if it could not be scored.
    ``outcome_scored`` is 1 if the outcome could be scored, else 0. ``format_or_0`` and ``format_scored`` state the same
    about the format of the response. ``given`` may hold settings of the client.
    """
    settings = settings_of(given)
    is_one = isinstance(reward_inputs, Mapping)
    inputs = [reward_inputs] if is_one else list(reward_inputs)
    references, responses = [each.get("ground_truth") for each in inputs], [each.get("response") for each in inputs]
    found = scores(settings, references, responses, is_step=not is_one)
    results = [
        {
            "overall": _reward(settings, score),
            **_figures("outcome", score["outcome"]),
            **_figures("format", (score["verdicts"].get("format") or {}).get("value")),
        }
        for score in found
    ]
    return results[0] if is_one else results


def reward_funcs(**given: Any) -> list[Callable[..., list[float | None]]]:
    """Return a list with the reward function for TRL's ``GRPOTrainer``.

    ``given`` holds settings of the client; other settings come from the environment. Raises ValueError for a wrong
    setting.
    """
    settings_of(given)  # raises for wrong settings at the start

    def verified(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return _for_trl(settings_of(given), completions, columns)

    return [verified]


def verified(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """Return the reward of each completion for TRL; None if it could not be scored.

    The settings of the client come from the environment. ``columns`` are the columns of the rows, which TRL repeats for
    each completion. The column ``groundtrace`` is needed: it holds the row's reference, JSON text by which the reward
    finds the row.
    """
    return _for_trl(settings_of({}), completions, columns)


def _for_trl(settings: Settings, completions: Sequence[Any], columns: Mapping[str, Any]) -> list[float | None]:
    """Return the reward of each completion for TRL.

    From version 1.6, TRL ignores a completion without a reward, so an unscored completion has the reward None. Older
    versions would count None as 0. With these versions, the reward of an unscored completion is the setting
    ``unscored``; if this setting is missing, the function raises Unscored.
    """
    references, responses = _references(columns), [_last_turn(each) for each in completions]
    try:
        found = scores(settings, references, responses, is_step=True)
    except RewardUnavailable as error:
        if settings.on_timeout == "raise" or not _leaves_out():
            raise
        _log().warning("groundtrace: %d responses are left out: %s", len(responses), error)
        return [None] * len(responses)
    environments = columns.get("environments") or [None] * len(found)
    lost = [str(getattr(each, "lost", "")) for each in environments]
    found = [_unless_lost(each, why) for each, why in zip(found, lost, strict=True)]
    if log := columns.get("log_metric"):
        for name, mean in _means(found).items():
            log(f"{COLUMN}/{name}", mean)
    if _leaves_out():
        return [each["reward"] for each in found]
    return [_reward(settings, each) for each in found]


def _leaves_out() -> bool:
    """Return whether TRL ignores a response without a reward. Older versions count it as reward 0."""
    try:
        version = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return True
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= LEAVES_OUT


def _means(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each verdict (the score of one aspect of a response) over the responses that have this score.

    If several processes train, the result holds only the mean outcome, which is NaN if no outcome is scored. The reason
    is that each process must give TRL the means of the same verdicts, but a verdict may be scored in only some of the
    processes.
    """
    values: dict[str, list[float]] = {"outcome": []}
    for score in found:
        for name, verdict in score["verdicts"].items():
            if verdict.get("value") is not None:
                values.setdefault(name, []).append(float(verdict["value"]))
    means = {name: sum(known) / len(known) if known else math.nan for name, known in values.items()}
    if os.environ.get("WORLD_SIZE", "1") != "1":
        return {"outcome": means["outcome"]}
    return {name: mean for name, mean in means.items() if not math.isnan(mean)}


def _last_turn(completion: Any) -> Any:
    """Return the text of a completion. If the completion is a list of turns, return the text of its last turn.

    The result is "" if the last turn is the result of a tool. In this case, TRL ended the completion before the policy
    (the model in training) could write an answer.
    """
    if not isinstance(completion, (list, tuple)):
        return completion  # scores() refuses a completion that is not a text
    if completion and completion[-1].get("role") == "tool":
        return ""
    content = completion[-1].get("content") if completion else ""
    if content is None or isinstance(content, (list, tuple)):
        return "".join(part.get("text") or "" for part in content or () if part.get("type") == "text")
    return content


class Verified:
    """Computes the reward of each completion for ms-swift, which makes an instance and calls it.

    The rewards come from the reward server. ``args`` are the arguments of the training; they are not used.
    """

    def __init__(self, args: object = None, **_: Any) -> None:
        self.args = args

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float]:
        """Return the reward of each completion.

        ``columns`` are the columns of the rows, one value for each completion. The column ``groundtrace`` is needed.
        Raises Unscored for a completion without a reward, since swift would count it as 0.
        """
        settings = settings_of({})
        found = scores(settings, _references(columns), list(completions), is_step=True)
        lost = map(_lost_in, columns.get("rollout_infos") or [None] * len(found))
        return [_reward(settings, _unless_lost(each, why)) for each, why in zip(found, lost, strict=True)]


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> Mapping[str, Any]:
    """Return the rewards of responses as OpenRLHF expects them: ``rewards``, ``scores`` and ``extra_logs``.

    ``queries`` are the prompts followed by their responses. ``prompts`` are the prompts alone. ``labels`` are the
    references of the rows: JSON texts by which the reward finds the rows. Raises RewardUnavailable if the server does
    not return rewards in time, and RewardRefused if the input cannot be scored. OpenRLHF only logs such an error, and
    continues without a reward for the response.
    """
    settings = settings_of({})
    body = json.dumps({"query": queries, "prompts": prompts, "labels": labels}).encode()
    found = _answer(settings, "/get_reward", body, time.monotonic() + settings.timeout_s)
    for name in ("rewards", "scores"):
        values = found.get(name)
        if not isinstance(values, list) or len(values) != len(queries) or not all(map(_is_number, values)):
            raise RewardRefused(
                f"the answer of {settings.url} has no list '{name}' of {len(queries)} numbers: {_SAME_VERSION}"
            )
    return found


# From responses to scores


def scores(settings: Settings, references: Sequence[Any], responses: Sequence[Any], is_step: bool) -> list[Any]:
    """Return the server's score of each response, in order: dicts with ``reward``, ``outcome`` and ``verdicts``.

    ``outcome`` is 1 for a right answer and 0 for a wrong one, and ``verdicts`` holds the scores of single aspects.
    ``reward`` and ``outcome`` are None if the response could not be scored. ``settings`` are those of the client.
    ``responses[i]`` is the answer to one row, and ``references[i]`` is JSON text that names this row. ``is_step`` is
    True if ``responses`` are all responses of a training step.

    A list that is too long for one request is split into several requests, each with ``is_step`` false. The server
    refuses such requests if its reward recipe (the code that computes the rewards) needs all responses of a step in one
    request. Raises RewardUnavailable if the server does not return scores in time, and RewardRefused if the input
    cannot be scored.
    """
    if len(references) != len(responses):
        raise RewardRefused(
            f"{len(responses)} responses have {len(references)} references: pass one reference for each response"
        )
    if not responses:
        return []
    ids = [_id_of(number, reference) for number, reference in enumerate(references)]
    for number, response in enumerate(responses):
        if not isinstance(response, str):
            raise RewardRefused(
                f"response {number} is a {type(response).__name__}, but has to be a text: pass the text of the response"
            )
    texts = [
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in responses
    ]  # without unpaired surrogates
    items = [{"reference": each, "response": text} for each, text in zip(references, texts, strict=True)]
    until, requests = time.monotonic() + settings.timeout_s, _requests(items, settings.batch)
    found: list[Any] = []
    for request in requests:
        body = json.dumps({"items": request, "is_step": is_step and len(requests) == 1}).encode()
        try:
            answered = _answer(settings, "/score", body, until)
        except RewardRefused as error:
            if len(requests) == 1:
                raise
            message = (
                f"{error} (the {len(items)} responses were split into {len(requests)} requests: see {VARIABLE}BATCH)"
            )
            raise RewardRefused(message) from error
        found += _read_scores(settings, answered, len(request))
    for id, score in zip(ids, found, strict=True):
        if score.get("id") != id:
            sent = _shown(settings, repr, score.get("id"), 80)
            raise RewardRefused(
                f"{settings.url} sent the score of {sent}, but the score of {id!r:.80} was expected: {_SAME_VERSION}"
            )
    return found


def _requests(items: Sequence[Any], batch: int) -> list[list[Any]]:
    """Split the items into lists, each for one request: at most ``batch`` items and at most about
    :data:`MAX_BODY_BYTES` bytes of JSON.
    """
    requests: list[list[Any]] = [[]]
    size = 0
    for item in items:
        length = len(json.dumps(item)) + 2
        if requests[-1] and (len(requests[-1]) >= batch or size + length > MAX_BODY_BYTES):
            requests.append([])
            size = 0
        requests[-1].append(item)
        size += length
    return requests


def _references(columns: Mapping[str, Any]) -> list[Any]:
    found = columns.get(COLUMN)
    if found is None:
        raise RewardRefused(
            f"the rows have no column {COLUMN!r}: export the run, and configure the trainer to keep the column"
        )
    return list(found)


def _id_of(number: int, reference: Any) -> str:
    """Return the id of the row to which a reference belongs.

    A reference is a JSON text in each exported row. It is an object whose key ``id`` holds the row's id. ``number`` is
    the index of the response, for the error message. Raises RewardRefused if ``reference`` does not have this form.
    """
    try:
        found = json.loads(reference)["id"]
    except (TypeError, ValueError, KeyError, RecursionError):
        found = None
    if not isinstance(found, str):
        raise RewardRefused(
            f"the reference of response {number} does not name a row, but is {reference!r:.80}: export the run again"
        )
    return found


def _read_scores(settings: Settings, found: Mapping[str, Any], count: int) -> list[Any]:
    """Return the scores in ``found``, the JSON of the server's answer. Raises RewardRefused unless the answer holds
    ``count`` valid scores.
    """
    answered = found.get("scores")
    if "error" in found:
        error = _shown(settings, repr, found["error"], 200)
        raise RewardRefused(f"{settings.url} sent an error with HTTP 200 ({error}): {_SAME_VERSION}")
    if not isinstance(answered, list) or len(answered) != count:
        raise RewardRefused(
            f"{settings.url} did not send {count} scores: check that `beam serve-reward` runs at this URL"
        )
    for score in answered:
        if not _is_score(score):
            sent = _shown(settings, repr, score, 200)
            raise RewardRefused(f"{settings.url} sent an invalid score: {sent}: {_SAME_VERSION}")
    return answered


def _is_score(score: Any) -> bool:
    if not isinstance(score, dict) or not {"reward", "outcome", "verdicts"} <= score.keys():
        return False
    verdicts = score["verdicts"]
    if not isinstance(verdicts, dict) or not all(isinstance(each, dict) for each in verdicts.values()):
        return False
    if not all(name.isprintable() for name in verdicts):  # trainers log the names
        return False
    values = [score["reward"], score["outcome"], *(each.get("value") for each in verdicts.values())]
    return all(value is None or _is_number(value) for value in values)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # an integer above the range of floats
        return False


def _reward(settings: Settings, score: Mapping[str, Any]) -> float:
    """Return the reward in ``score``, the server's score of a response. For an unscored response, return the setting
    ``unscored``.

    Raises Unscored if the response is unscored and this setting is missing.
    """
    if score["reward"] is not None:
        return score["reward"]
    if settings.unscored is not None:
        return settings.unscored
    verdicts = {name: each for name, each in score["verdicts"].items() if each.get("value") is None}
    failed = {name: each for name, each in verdicts.items() if each.get("failed") is True}
    found = (failed or verdicts).items()  # if a verdict has failed, the others without a value had nothing to check
    reasons = [f"{name}: {_shown(settings, str, each.get('reason'), 200)}" for name, each in found]
    why = _shown(settings, "; ".join, reasons, 200)
    why = why or "its row's gold answer is free text, and reward.roles has no judge to grade it"
    raise Unscored(
        f"the response to {_shown(settings, repr, score.get('id'), 80)} is unscored ({why}): set the variable "
        f"{VARIABLE}UNSCORED to the reward for such responses, or remove the row from the training data"
    )


# The server's texts in messages


def _shown(settings: Settings, write: Callable[[Any], str], value: Any, length: int) -> str:
    """Convert a value from the server to a printable text for a message, with at most ``length`` characters.

    ``write`` is a function that converts the value to a text, e.g. ``repr``. The token is replaced by ***, because a
    server or proxy may send back the token of the request.
    """
    try:
        text = write(value)
    except RecursionError:
        return "a value of too many levels"
    for form in _forms_of(settings.token):
        text = text.replace(form, "***")
    shown = (each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:length])
    return "".join(shown)[:length]


def _forms_of(secret: str) -> list[str]:
    """Return the texts by which a reply may show a secret, the longest first; none for the secret "".

    These are the secret itself, and the secret as quoted for URLs, JSON and HTML, in hexadecimal, and as a part of a
    longer text in base64. Base64 converts three bytes to four characters. So the first and the last character of the
    secret in base64 may also hold bits of the bytes beside the secret. Such a character is left out.
    """
    data = secret.encode("utf-8", "replace")
    quoted = [quote(secret), quote(secret, safe=""), quote_plus(secret)]
    forms = [secret, json.dumps(secret)[1:-1], html.escape(secret), data.hex(), data.hex().upper()]
    forms += quoted + [text.replace("%2F", "%2f") for text in quoted]
    for before, start in ((0, 0), (1, 2), (2, 3)):  # the number of bytes in front of the secret in its group of three
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.append(encode(bytes(before) + data).decode()[start : (before + len(data)) * 8 // 6])
    return sorted({form for form in forms if len(form) >= min(len(secret), 4) > 0}, key=len, reverse=True)


# From requests to answers


class _Again(Exception):
    """Raised if a request failed and may be sent again after ``after_s`` seconds.

    ``is_defect`` is True in three cases: the answer has the status 500, it has the status 200 but an unreadable body,
    or it has more than :data:`MAX_REPLY_BYTES`. After :data:`MAX_DEFECTS` such failures, the request is not sent again.
    """

    def __init__(self, why: str, after_s: float = 0.0, is_defect: bool = False) -> None:
        super().__init__(why)
        self.after_s, self.is_defect = after_s, is_defect


def _answer(settings: Settings, path: str, body: bytes, until: float) -> Mapping[str, Any]:
    """Send a request to ``path`` until the server answers, and return the JSON of the answer.

    ``until`` is the time (of ``time.monotonic``) after which the client gives up. Raises RewardUnavailable if the
    client gives up. Raises RewardRefused if the server refuses the request, if its certificate cannot be verified, or
    after :data:`MAX_DEFECTS` answers with status 500 or an unreadable body. A body of more than
    :data:`MAX_REPLY_BYTES` counts as unreadable.
    """
    began, tries, defects = time.monotonic(), 0, 0
    while True:
        left = until - time.monotonic()
        try:
            found = _post(settings, path, body, max(0.01, min(left, settings.request_timeout_s, MAX_REQUEST_S)))
        except _Again as again:
            tries, defects = tries + 1, defects + again.is_defect
            if defects >= MAX_DEFECTS:
                raise RewardRefused(
                    f"the request failed {defects} times ({again}): read the output of the server {settings.url}"
                ) from again
            wait = max(min(0.25 * 2.0 ** min(tries, 6), 10.0) * random.uniform(0.5, 1.0), again.after_s)
            wait, left = min(wait, MAX_WAIT_S), until - time.monotonic()
            if left <= 0:
                raise RewardUnavailable(
                    f"{settings.url} sent no reward within {settings.timeout_s:g} s, in {tries} requests ({again}): "
                    "check that the server runs"
                ) from again
            if tries == 1 or tries % 20 == 0:
                _log().warning("groundtrace: %s: %s; retrying for up to %.0f s", settings.url, again, left)
            time.sleep(min(wait, left))
        else:
            if tries:
                _log().warning("groundtrace: %s answers, after %.1f s", settings.url, time.monotonic() - began)
            return found


def _post(settings: Settings, path: str, body: bytes, limit_s: float) -> Mapping[str, Any]:
    """Send a request with the given ``body`` to ``path`` once, and return the JSON of a successful answer. ``limit_s``
    is the time limit in seconds.

    Raises _Again if the request failed and may be sent again, and RewardRefused if a retry would not help.
    """
    headers = {"Content-Type": "application/json"}
    if settings.token:
        headers["Authorization"] = f"Bearer {settings.token}"
    status, retry_after, data = _exchange(settings, "POST", path, body, headers, limit_s)
    try:
        found = json.loads(data, object_pairs_hook=_named_once)
    except (ValueError, RecursionError):
        found = None
    if status == 200 and isinstance(found, dict):
        return found
    if isinstance(found, dict) and isinstance(error := found.get("error"), dict):
        kind, message = (_shown(settings, str, error.get(name), 500) for name in ("type", "message"))
        answer = f"HTTP {status}: {kind}: {message}"[:500]
    else:
        answer = f"HTTP {status}: '{_shown(settings, _decoded, data, 100)}'"
    if status in AGAIN or status in (200, 500):
        raise _Again(answer, _after_s(retry_after), is_defect=status in (200, 500))
    raise RewardRefused(f"the server {settings.url} refused the request: {answer}")


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a JSON object. Raises ValueError for a repeated name, whose value would be ambiguous."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a JSON object in the answer has the same name twice")
    return found


def _after_s(text: str | None) -> float:
    """Return the number of seconds in a ``Retry-After`` header; 0 if the header is missing or holds a date.

    Before the next attempt, the client waits for the longer of two times: this number of seconds (at most
    :data:`MAX_WAIT_S`), and a time that it computes itself. So with 0, it waits for the computed time.
    """
    return float(text) if text and text.isascii() and text.isdigit() else 0.0


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _exchange(
    settings: Settings, method: str, path: str, body: bytes | None, headers: Mapping[str, str], limit_s: float
) -> tuple[int, str | None, bytes]:
    """Send a request, and return the HTTP status, the ``Retry-After`` header and the body of the answer.

    No proxy is used. Raises _Again if no answer arrives within ``limit_s`` seconds, the connection fails or the answer
    has more than :data:`MAX_REPLY_BYTES`, and RewardRefused if the certificate of the server cannot be verified. The
    original error of the connection is not attached to these exceptions as ``__cause__`` or ``__context__``, since its
    message may show the token.
    """
    address = urlsplit(settings.url)
    is_https = address.scheme == "https"
    make = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    connection = make(address.hostname or "", address.port or (443 if is_https else 80), timeout=limit_s)
    found = _within(limit_s, connection, (method, address.path.rstrip("/") + path, body, dict(headers)))
    if isinstance(found, ssl.SSLCertVerificationError):
        raise RewardRefused(
            f"the certificate of {settings.url} cannot be verified ({_shown(settings, str, found, 200)}): set "
            "SSL_CERT_FILE to the file with the certificate of its authority (CA)"
        )
    if isinstance(found, TimeoutError):
        raise _Again(f"the server sent no answer within {limit_s:.3g} s")
    if isinstance(found, _Again):
        raise found
    if isinstance(found, Exception):
        raise _Again(_shown(settings, _named, found, 200))
    return found


def _within(limit_s: float, connection: http.client.HTTPConnection, request: tuple[Any, ...]) -> Any:
    """Open the connection, send a request with :func:`_reply`, and return the result or the error as a value.

    The result is the answer. If the connection or :func:`_reply` raises an exception, the exception is returned. If
    there is no answer after ``limit_s`` seconds, a TimeoutError is returned.

    The request runs in a thread, because the timeout of a socket is not sufficient: it limits each read, but neither
    the look-up of the host's name, nor connections to several addresses, nor a server that sends byte by byte.
    """
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    sockets: list[Any] = []
    is_over = threading.Event()

    def work() -> None:
        try:
            connection.connect()
            sockets.append(connection.sock)  # the connection drops its reference if the answer closes it
            if not is_over.is_set():
                found.put(_reply(connection, request))
        except Exception as error:  # a server can cause many kinds: MemoryError, OverflowError, …
            found.put(error)
        finally:
            connection.close()

    threading.Thread(target=work, daemon=True).start()
    try:
        return found.get(timeout=limit_s)
    except BaseException as error:  # also KeyboardInterrupt: the thread has to end
        is_over.set()
        for sock in sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        if isinstance(error, queue.Empty):
            return TimeoutError()
        raise


def _reply(connection: http.client.HTTPConnection, request: tuple[Any, ...]) -> tuple[int, str | None, bytes]:
    """Send a request over an open connection, and return the answer as :func:`_exchange` does.

    Raises _Again if the answer has more than :data:`MAX_REPLY_BYTES`, and IncompleteRead if it ends early.
    """
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the server may refuse before it has read all
        connection.request(*request)
    with connection.getresponse() as answer:
        is_large = (answer.length or 0) > MAX_REPLY_BYTES
        data = b"" if is_large else answer.read(MAX_REPLY_BYTES + 1)
        if is_large or len(data) > MAX_REPLY_BYTES:
            message = (
                f"the server sent a reply of more than {MAX_REPLY_BYTES} bytes; a smaller {VARIABLE}BATCH makes the "
                "replies of a reward server smaller"
            )
            raise _Again(message, is_defect=True)
        if answer.length:  # the number of bytes that are missing
            raise http.client.IncompleteRead(data, answer.length)
        return answer.status, answer.getheader("Retry-After"), data


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _log() -> logging.Logger:
    return logging.getLogger("groundtrace_client")


def _register() -> None:
    """Register the reward with ms-swift as ``groundtrace``, if ms-swift loads this file."""
    for name in ("swift.rewards", "swift.plugin"):  # swift 4 and swift 3
        if "swift" in sys.modules and importlib.util.find_spec(name) is not None:
            importlib.import_module(name).orms[COLUMN] = Verified
            return


def main() -> int:
    """Print the state of the server. Return the exit code: 0 if it is ready, 1 if it is not, 2 for wrong settings."""
    try:
        settings = settings_of({})
    except ValueError as error:
        print(f"groundtrace_client: {error}", file=sys.stderr)
        return 2
    try:
        status, _, data = _exchange(settings, "GET", "/health", None, {}, min(10.0, settings.timeout_s))
    except (_Again, RewardRefused) as error:
        print(f"{settings.url}: {error}: start beam serve-reward there, or set {VARIABLE}URL", file=sys.stderr)
        return 1
    print(f"{settings.url}: HTTP {status}: {_shown(settings, _decoded, data, 1000)}")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
_register()
