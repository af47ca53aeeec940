"""Parses the requests to the reward server, and raises an error for an invalid request.

    POST /score       {"items": [ITEM, …], "is_step": true}
    POST /get_reward  {"query": ["…"], "prompts": ["…"], "labels": ["REFERENCE"]}

The trainer OpenRLHF sends requests to ``/get_reward``. In a request to ``/score``, ``is_step`` (default: false) is true
if the items are all responses of a training step.

An ITEM is ``{"reference": REFERENCE, "response": "…"}`` or ``{"id": "…", "response": "…"}``. A REFERENCE, which names
the row that the response answers, is a text or an object. An ITEM with ``id``, the id of the row, may also have three
other fields. ``family`` is the family of the model, which determines how the response writes coordinates (default:
plain). ``stream`` is the name of the prompt that was used, if the row has several prompts. ``run`` is the run to which
the row belongs; it is needed if the server has several runs.
"""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundtrace.inference.families.registry import DEFAULT
from groundtrace.publishing.rewards.reference import BadReference, RowReference, read_reference, reference_of
from groundtrace.publishing.rewards.row_reward import Answer
from groundtrace.schemas.control_text import TOKEN, without_end
from groundtrace.schemas.errors import UserError

_MARK = re.compile(f"({TOKEN.pattern})")
OF_ITEMS = {"reference", "id", "run", "family", "stream", "response"}


class BadRequest(UserError):
    """Raised if a request to the reward server is invalid.

    ``item`` is the index of the invalid item; None if the error concerns the whole request.
    """

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message if item is None else f"items[{item}]: {message}")
        self.item = item


@dataclass(frozen=True)
class ScoreRequest:
    """Holds the answers (a model's responses, each with a reference to its row) that a request asks to score.

    ``is_step`` is True if the answers are all responses of a training step.
    """

    answers: tuple[Answer, ...]
    is_step: bool


def read_json(body: bytes) -> Mapping[str, Any]:
    """Parse the ``body`` of a request, which must be a JSON object in UTF-8. Raises BadRequest for any other body."""
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repeats)
    except BadRequest:
        raise
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"the request's body is not UTF-8 text (byte {error.start} is invalid): encode it as UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request's body is not JSON ({str(error)[:100]}): send a JSON object") from error
    if not isinstance(found, dict):
        raise BadRequest("the request's body must be a JSON object")
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a JSON object. Raises BadRequest for a repeated field, whose value would be ambiguous."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise BadRequest(
                f"an object in the request's body has the field {name!r:.40} twice: remove one of the two fields"
            )
        found[name] = value
    return found


def read_score(body: bytes) -> ScoreRequest:
    """Parse the ``body`` of a request to ``/score``: JSON with the responses to score and the rows that they answer.

    Raises BadRequest for an invalid request.
    """
    found = read_json(body)
    _refuse_others(found, {"items", "is_step"}, None)
    items, is_step = found.get("items"), found.get("is_step", False)
    if not isinstance(items, list) or not items:
        raise BadRequest('the field "items" must be a list with at least one item')
    if not isinstance(is_step, bool):
        raise BadRequest('the field "is_step" must be true or false')
    return ScoreRequest(tuple(_answer(item, number) for number, item in enumerate(items)), is_step)


def read_get_reward(body: bytes) -> ScoreRequest:
    """Parse the ``body`` of a request to ``/get_reward``, in the form that OpenRLHF sends.

    The body is JSON with three lists of equal length: ``query``, ``prompts`` and ``labels``. A query is a prompt
    followed by its response. A prompt is the prompt alone. A label is the reference of the row (JSON text that names
    the row and its run). Raises BadRequest for an invalid request, and for a query that does not begin with its prompt,
    since the response is then ambiguous.
    """
    found = read_json(body)
    queries, prompts, labels = (_texts(found, name) for name in ("query", "prompts", "labels"))
    for name, value in (("prompts", prompts), ("labels", labels)):
        if len(value) != len(queries):
            raise BadRequest(
                f'the field "{name}" has {len(value)} texts, but the field "query" has {len(queries)}: send lists of '
                "equal length in both fields"
            )
    answers = []
    for number, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True)):
        response = response_in(query, prompt)
        if response is None:
            raise BadRequest(
                'the text in "query" does not begin with the text in "prompts": send each query as its prompt, '
                "followed by the response",
                number,
            )
        answers.append(_answer({"reference": label, "response": response}, number))
    return ScoreRequest(tuple(answers), False)


def response_in(query: str, prompt: str) -> str | None:
    """Return the response in a ``query``: the part after the ``prompt``, without the end token.

    Return None if the query does not begin with the prompt. A query is decoded from the model's input tokens. So the
    special token of an image occurs once in the prompt, but in the query it occurs once for every token of the image.
    Such repetitions are ignored in the comparison.
    """
    at = 0
    for piece, run in itertools.groupby(filter(None, _MARK.split(prompt))):
        wanted = piece * sum(1 for _ in run)  # the marks of adjacent images are one run in prompt and query
        if not query.startswith(wanted, at):
            return None
        at += len(wanted)
        while _MARK.fullmatch(piece) and query.startswith(piece, at):
            at += len(piece)
    return without_end(query[at:])


def _texts(found: Mapping[str, Any], name: str) -> list[str]:
    """Return the list of texts in the field ``name`` of the JSON object ``found``. Raises BadRequest if the field does
    not hold a list with at least one text, or holds anything else than texts.
    """
    value = found.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise BadRequest(f'the field "{name}" must be a list of texts, with at least one text')
    return value


def _answer(item: Any, number: int) -> Answer:
    """Return the response in an item of a request, with the reference of the row that the response answers.

    ``number`` is the index of the item, for the error message. Raises BadRequest for an invalid item.
    """
    if not isinstance(item, dict):
        raise BadRequest("the item must be a JSON object", number)
    _refuse_others(item, OF_ITEMS, number)
    response = item.get("response")
    if not isinstance(response, str):
        raise BadRequest('the item must have the field "response" with a text', number)
    return Answer(_reference(item, number), _checked(response, "response", number))


def _reference(item: Mapping[str, Any], number: int) -> RowReference:
    """Return the reference of an item of a request: it names the row that the item's response answers.

    ``item`` has either the field "reference", or the row's id in the field "id". ``number`` is the index of the item,
    for the error message. Raises BadRequest for an item with both fields or neither of them, or with an invalid value.
    """
    given = item.get("reference")
    if ("reference" in item) == ("id" in item):
        raise BadRequest('the item must have exactly one of the fields "reference" and "id"', number)
    if "id" in item:
        fields = {name: item.get(name, default) for name, default in _DEFAULTS.items()}
        for name, value in fields.items():
            if not isinstance(value, str):
                raise BadRequest(f'the field "{name}" must be a text', number)
            _checked(value, name, number)
        return RowReference(answer=None, **fields)
    try:
        found = read_reference(given) if isinstance(given, str) else reference_of(given, str(given))
    except BadReference as error:
        raise BadRequest(str(error), number) from error
    for name in ("id", "run", "family", "stream"):
        _checked(getattr(found, name), name, number)
    return found


_DEFAULTS = {"id": "", "run": "", "family": DEFAULT, "stream": ""}


def _checked(text: str, name: str, number: int) -> str:
    """Return ``text`` unchanged. Raises BadRequest for an unpaired surrogate, which JSON can hold but UTF-8 cannot.

    ``name`` is the field with the text, and ``number`` is the index of the item, both for the error message.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequest(
            f'the field "{name}" has an unpaired surrogate at character {error.start}: remove it', number
        ) from error
    return text


def _refuse_others(found: Mapping[str, Any], known: set[str], item: int | None) -> None:
    """Raise BadRequest if the JSON object ``found`` has a field that is not in ``known``.

    ``item`` is for the error: if ``found`` is an item of the request, ``item`` is its index; if ``found`` is the whole
    request, ``item`` is None.
    """
    if others := sorted(map(str, found.keys() - known)):
        raise BadRequest(
            f"the field {others[0]!r:.40} is unknown: the known fields are {', '.join(sorted(known))}", item
        )
