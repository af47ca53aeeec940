"""The embedded engine as judge: only what arithmetic on text and pixels can decide; the rest is not applicable."""

import json

import numpy as np

from inference.endpoints.classical_prose import judged
from inference.endpoints.classical_sight import CANNOT_READ, Scene, question_of
from inference.errors import CallError, Failure
from prompts.loader import RenderedPrompt
from schemas.answers.numerals import read_numerals
from schemas.answers.polarity import polarity
from schemas.labels import plain_label
from schemas.records import Question
from schemas.responses.conclusions import conclusions
from schemas.responses.response import parse_response
from vision.classical.labels import COLOURS, KINDS, read_label
from vision.classical.query import CountQuery


def judge_answer(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Whether a candidate that abstains is right: never. Raises CallError for others: it cannot compare meanings."""
    if prompt.variable("predicted") != CANNOT_READ:
        raise CallError(Failure.UNSUPPORTED, "the embedded engine cannot compare meanings")
    return json.dumps({"reason": "the candidate abstains", "same": False})


def answered(question: str, predicted: str) -> Question:
    """The question with the response's own answer for the gold one, of the type that its words have."""
    number, side = read_numerals(predicted).single, polarity(predicted)
    kind, plain = ("bool", "yes" if side else "no") if side is not None else ("text", predicted)
    kind = "numeric" if side is None and number is not None else kind
    return Question("", "", "", (), question, plain, kind)


def judge_reasoning(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Whether the reasoning's words go with what it points at and with the answer
    (:mod:`inference.endpoints.classical_prose`); for a counting question also whether the answer is the number of
    places pointed at or boxed, unless there are none and the reasoning concludes in words.
    """
    reasoning, predicted = prompt.variable("reasoning"), prompt.variable("predicted")
    asked = answered(prompt.variable("question"), predicted)
    number, response = read_numerals(predicted).single, parse_response(reasoning)
    places = {(point.x, point.y) for point in response.points} | {box.centre for box in response.boxes}
    counts = isinstance(question_of(prompt), CountQuery) and number is not None
    if counts and number is not None and number.value != len(places) and (places or not conclusions(reasoning, asked)):
        return _supports(False, f"{len(places)} places for the answer {predicted}")
    read = judged(reasoning, asked)
    if counts and read.supports:
        return _supports(True, f"{len(places)} places for the answer {predicted}")
    return _supports(read.supports, read.reason)


def _supports(value: bool | None, reason: str) -> str:
    said = "cannot_judge" if value is None else "yes" if value else "no"
    return json.dumps({"reason": reason[:200], "supports": said})


def judge_label(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Whether some object bears both names, and the label no two colours. Raises CallError for words that the engine
    does not know.
    """
    label, gold = prompt.variable("label"), prompt.variable("gold")
    one, other = read_label(plain_label(label)), read_label(plain_label(gold))
    if one is None or other is None:
        unknown = label if one is None else gold
        raise CallError(Failure.UNKNOWN_LABEL, f"the embedded engine does not know {unknown!r:.60}")
    both = any(one.allows(colour, kind) and other.allows(colour, kind) for colour in COLOURS for kind in KINDS)
    same = both and len(one.colours) < 2  # what names several colours names one of them for each object
    return json.dumps({"reason": "by its own words for colours and shapes", "same": same})
