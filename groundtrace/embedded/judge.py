"""Implements the embedded engine (OpenCV, no model) as a judge. It judges only by words, numbers and pixels.

The judge does not understand the meaning of a text. If a verdict depends on the meaning, the judge raises CallError or
replies "cannot_judge".
"""

import json

import numpy as np

from groundtrace.embedded.prose import judge_support
from groundtrace.embedded.scenes import CANNOT_READ, Scene
from groundtrace.embedded.sight.labels import COLOURS, KINDS, read_label
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import polarity
from groundtrace.inference.errors import CallError, Failure
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.labels import plain_label
from groundtrace.schemas.records import Question


def judge_answer(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge the answer "cannot read" as wrong; any other answer raises CallError.

    The embedded engine (OpenCV, no model) cannot compare the meanings of two answers. The answer to judge is the
    prompt's variable ``predicted``; the other arguments are not used. Returns JSON with a reason and ``"same": false``.
    """
    if prompt.variable("predicted") != CANNOT_READ:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine cannot compare the meanings of two answers: use a language model as the judge",
        )
    return json.dumps({"reason": "the candidate abstains", "same": False})


def with_answer(question: str, predicted: str) -> Question:
    """Return a question object whose gold (correct) answer is replaced by the answer of a response.

    With this object, a check can compare the reasoning of the response with the response's own answer. ``question`` is
    the question's text, and ``predicted`` is the answer of the response. The answer type is bool, numeric or text,
    depending on the words of ``predicted``.
    """
    number, side = read_numerals(predicted).single, polarity(predicted)
    kind, plain = ("bool", "yes" if side else "no") if side is not None else ("text", predicted)
    kind = "numeric" if side is None and number is not None else kind
    return Question("", "", "", (), question, plain, kind)


def judge_reasoning(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether a reasoning's text agrees with its points and its answer (:mod:`groundtrace.embedded.prose`).

    Returns JSON with a reason and ``"supports"``: "yes", "no" or "cannot_judge". ``prompt`` holds the question, the
    reasoning and its answer, and ``scene`` holds the image; the other arguments are not used.

    The judge does not compare the number of points with the answer, for two reasons. First, another check makes this
    comparison. Second, a response with correct points but a wrong answer would lose reward because of its points. The
    trained model would then learn to write no points.
    """
    read = judge_support(
        prompt.variable("reasoning"), with_answer(prompt.variable("question"), prompt.variable("predicted")), scene
    )
    supports = "cannot_judge" if read.supports is None else "yes" if read.supports else "no"
    return json.dumps({"reason": read.reason[:200], "supports": supports})


def judge_label(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether two names can name the same object, as "block" and "blue square" can.

    Returns JSON with a reason and ``"same"`` (true or false). The names are the prompt's variables ``label`` and
    ``gold``; the other arguments are not used. The verdict is false if ``label`` has several colours, since such a
    label names several objects. Raises CallError for words that the embedded engine (OpenCV, no model) does not know.
    """
    label, gold = prompt.variable("label"), prompt.variable("gold")
    one, other = read_label(plain_label(label)), read_label(plain_label(gold))
    if one is None or other is None:
        unknown = label if one is None else gold
        raise CallError(
            Failure.UNKNOWN_LABEL,
            f"the embedded engine does not know the label {unknown!r:.60}: use a language model as the judge",
        )
    both = any(one.allows(colour, kind) and other.allows(colour, kind) for colour in COLOURS for kind in KINDS)
    same = both and len(one.colours) < 2  # a label with several colours is for several objects
    return json.dumps({"reason": "by its own words for colours and shapes", "same": same})
