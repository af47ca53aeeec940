"""Implements the embedded engine for :mod:`groundtrace.pipelines.judge_think_answer` (SAIL-RL).

The engine judges the complexity of a question by the number of steps in which it would answer the question itself. It
writes traces (reasoning and answers) from the shapes that it finds. It judges texts only by their words and their
arithmetic. If the engine cannot read the question or the image, it judges complexity and quality as "cannot_judge", and
the answer of its trace is "cannot read". For all other kinds of prompts that it cannot answer, it raises CallError.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from groundtrace.embedded.arithmetic import calculations
from groundtrace.embedded.judge import with_answer
from groundtrace.embedded.scenes import CANNOT_READ, Scene, question_of, read_scene
from groundtrace.embedded.sight.answer import SightAnswer, answer, relevant_labels
from groundtrace.embedded.sight.labels import read_label
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.query import (
    Amount,
    AttributeQuery,
    CountQuery,
    GroupStatement,
    ObjectStatement,
    Query,
)
from groundtrace.embedded.sight.shapes import FoundShape
from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.polarity import polarity
from groundtrace.grading.responses.conclusions import conclusions
from groundtrace.inference.errors import CallError, Failure
from groundtrace.prompts.loader import RenderedPrompt

MIN_COMPLEX_STEPS = 2
"""The minimum number of steps (:func:`steps_of`) of a complex question. A question with fewer steps is simple.

For example, a question that needs only a search for one kind of object has one step, so it is simple.
"""
_SEEN = "Seen anywhere in the picture: "
_CLAIMS = re.compile(rf"{_SEEN}([^.]+)\.")
_CLAIM = re.compile(r"(\d+) ((?:[a-z]+ )?[a-z]+)")
_NOT_NEEDED = re.compile(
    r"\b(?:no|not|without|needless|n't)\b[^.]{0,30}\b(?:reason|think|thought|steps?)"
    r"|\b(?:directly|at a glance|by looking|just looking)\b",
    re.IGNORECASE,
)
_NEEDED = re.compile(
    r"\b(?:needs?|requires?|takes?|calls? for|has to be|have to be|must be)\b[^.]{0,40}"
    r"\b(?:reason\w*|think\w*|thought|steps?|compared|counted|checked|combined|brought)\b|\bcannot be answered\b",
    re.IGNORECASE,
)


def steps_of(query: Query) -> tuple[str, ...]:
    """Return the steps, such as "find the circle", by which a parsed question can be answered, one text for each step.

    The embedded engine (OpenCV, no model) judges a question with many steps as complex.
    """
    match query:
        case CountQuery():
            steps = [f"count the {_named(query.noun.phrase)}"]
            return (*steps, "check where each of them touches") if query.touch else tuple(steps)
        case AttributeQuery():
            found = [f"find the {query.noun.phrase}"]
            return (*found, f"compare them to find the {query.superlative}") if query.superlative else tuple(found)
        case ObjectStatement():
            steps = [f"look for the {_named(query.noun.phrase)}"]
            steps += ["check where each of them touches"] if query.touch else []
            return (*steps, *([] if _is_existence(query.amount) else ["count them and compare with the number stated"]))
        case GroupStatement():
            group = "boxes" if query.group == "box" else "towers"
            checks = [f"check a condition on each of the {group}" for _ in (*query.of, *query.conditions)]
            return (
                f"go through the {group}",
                *checks,
                f"compare the number of {group} that meet it with what is stated",
            )


def _is_existence(amount: Amount) -> bool:
    return amount in (Amount("at least", 1), Amount("bare", 1))


def _named(phrase: str) -> str:
    return f"{phrase}s"


def judge_complexity(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge a question as simple or complex by the number of steps that its answer needs.

    Returns JSON with a reason and ``"complexity"``: "simple", "complex" or, if the embedded engine (OpenCV, no model)
    cannot read the question or the image, "cannot_judge". ``prompt`` holds the question, and ``scene`` holds the image;
    the other arguments are not used.
    """
    question, choices = _parted(prompt.variable("question"))
    query = read_question(question, choices or None)
    if query is None or scene.shapes is None:
        what = "question" if query is None else "picture"
        return json.dumps({"reason": f"this {what} cannot be read", "complexity": "cannot_judge"})
    steps = steps_of(query)
    label = "complex" if len(steps) >= MIN_COMPLEX_STEPS else "simple"
    return json.dumps({"reason": f"{_counted(len(steps))}: {'; '.join(steps)}", "complexity": label})


def _counted(steps: int) -> str:
    return "one step" if steps == 1 else f"{steps} steps"


def direct_judgement(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return a text which judges that the question can be answered directly from the image, without reasoning.

    ``prompt`` holds the question; the other arguments are not used. Raises CallError for a question that the embedded
    engine (OpenCV, no model) cannot read.
    """
    query = question_of(prompt)
    if query is None:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine cannot read this question: name a model for the role teacher in [roles]",
        )
    return f"It is enough to {steps_of(query)[0]} in the picture. This can be answered directly."


def judged_trace(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a judgement of the question's difficulty, then reasoning, then an answer.

    All three are based only on the question and the image. The embedded engine (OpenCV, no model) ignores the answer in
    the prompt, which is a hint for other teachers. ``scene`` holds the image. The image can be coarsened (scaled down
    and blurred) at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not coarsened). The
    answer is "cannot read" if the engine cannot read the question or the image.
    """
    query = question_of(prompt)
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    if query is None or reading is None:
        return f"<judge>This cannot be read.</judge><think></think>\\boxed{{{CANNOT_READ}}}"
    judgement = f"Answering takes several steps: {'; '.join(steps_of(query))}. So it needs reasoning."
    thought = " ".join([*_thought_sentences(query, reading, scene), reading.reason])
    return f"<judge>{judgement}</judge>\n<think>\n{thought}\n</think>\n\\boxed{{{reading.answer}}}"


def _thought_sentences(query: Query, reading: SightAnswer, scene: Scene) -> Iterator[str]:
    """Yield the texts that together form a reasoning for the embedded engine's answer.

    The first text lists the steps that lead to the answer. The second text counts the objects in the image, for each
    class that the question is about. The second text is left out if the image has no such objects. The last texts count
    only the objects on which the answer is based, one text for each class. The image has three parts: left, middle and
    right. Each of the last texts has one number for each part with such objects, and the sum if there are several
    parts: "2 on the left, 1 in the middle; 2 + 1 = 3".
    """
    yield " ".join(f"{number}. {step[0].upper()}{step[1:]}." for number, step in enumerate(steps_of(query), 1))
    shapes = scene.shapes or []
    named = [label for label in relevant_labels(query, shapes) if any(shape.label == label for shape in shapes)]
    seen = [(sum(shape.label == label for shape in shapes), label) for label in named]
    if seen:
        yield f"{_SEEN}{', '.join(_several(number, label) for number, label in seen)}."
    for label in dict.fromkeys(shape.label for shape in reading.evidence):
        places = Counter(_place(shape, scene.size[0]) for shape in reading.evidence if shape.label == label)
        listed = ", ".join(f"{number} {place}" for place, number in places.items())
        total = f"; {' + '.join(map(str, places.values()))} = {places.total()}" if len(places) > 1 else ""
        yield f"Of the {label}s these are meant: {listed}{total}."


def _several(number: int, label: str) -> str:
    return f"{number} {label}{'' if number == 1 else 's'}"


def _place(shape: FoundShape, width: int) -> str:
    middle = shape.point_px[0]
    return "on the left" if middle < width / 3 else "on the right" if middle > 2 * width / 3 else "in the middle"


def judge_decision(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge which of two decisions a response makes: to reason, or to answer directly.

    Returns JSON with a reason and ``"decision"``: "think" or "direct". The verdict depends only on the words of the
    response's ``<judge>`` section, which is the prompt's variable ``decision``. The other arguments are not used.
    Raises CallError if the words state neither decision, or both.
    """
    text = prompt.variable("decision")
    directly = _NOT_NEEDED.search(text) is not None
    if directly == (_NEEDED.search(_NOT_NEEDED.sub(" ", text)) is not None):
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine cannot tell whether the <judge> section decides to reason or to answer directly: use "
            "a language model as the judge",
        )
    return json.dumps({"reason": "by its words", "decision": "direct" if directly else "think"})


def judge_logic(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether every equation of numbers in a reasoning is right, such as "2 + 3 = 5".

    Returns JSON with a reason and ``"sound"`` (true or false). The reasoning is a variable of the prompt; the other
    arguments are not used. Raises CallError if the reasoning has no equation (:mod:`groundtrace.embedded.arithmetic`).
    """
    stated = calculations(prompt.variable("reasoning").casefold())
    sums = [each for each in stated if not each.is_comparison]
    if not sums:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine judges logic only by equations, and this reasoning has no equation: use a language "
            "model as the judge",
        )
    wrong = next((each.text for each in sums if not each.holds), None)
    reason = f"{len(sums)} sums are right" if wrong is None else f"{wrong} is wrong"
    return json.dumps({"reason": reason, "sound": wrong is None})


_Handler = Callable[[RenderedPrompt, Scene, np.random.Generator, float], str]


def _scored(judge: _Handler, field: str) -> _Handler:
    """Return a handler (a function that answers a prompt) that replaces the verdict of ``judge`` by a score.

    The verdict is true or false in the field ``field`` of the reply of ``judge``. The field "score" of the new reply is
    1 for true and 0 for false.
    """

    def handler(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
        reply = json.loads(judge(prompt, scene, rng, strength))
        return json.dumps({"reason": reply["reason"], "score": float(reply[field])})

    return handler


def judge_grounding(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether each number of objects that a reasoning lists ("2 red circles") is right for the image.

    Returns JSON with a reason and ``"true_to_sources"`` (true or false). The reasoning is a variable of the prompt, and
    ``scene`` holds the image; the other arguments are not used. Raises CallError if the reasoning lists no numbers, if
    the embedded engine (OpenCV, no model) does not know a listed object, or if it cannot read the image.
    """
    claims = [claim for line in _CLAIMS.finditer(prompt.variable("reasoning")) for claim in line.group(1).split(", ")]
    counted = [(claim, _CLAIM.fullmatch(claim)) for claim in claims]
    if scene.shapes is None or not counted:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine cannot judge grounding: the reasoning lists no numbers of objects, or the image "
            "does not consist of flat shapes: use a language model as the judge",
        )
    for claim, read in counted:
        noun = None if read is None else read_label(read.group(2))
        if read is None or noun is None:
            raise CallError(
                Failure.UNSUPPORTED,
                f"the embedded engine does not know the object in {claim!r}: use a language model as the judge",
            )
        label = read.group(2).removesuffix("s")
        number = sum(shape.label == label or (not noun.colours and noun.matches(shape)) for shape in scene.shapes)
        if number != int(read.group(1)):
            return json.dumps({"reason": f"{claim}, but there are {number}", "true_to_sources": False})
    return json.dumps({"reason": f"{len(counted)} claims are as seen", "true_to_sources": True})


def judge_think_consistency(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether a response's answer equals every conclusion that its reasoning states.

    A conclusion is a statement of the answer within the reasoning, such as "so there are 5".

    Returns JSON with a reason and ``"supported"`` (true or false). ``prompt`` holds the question, the reasoning and the
    answer; the other arguments are not used. Raises CallError if the reasoning states no conclusion.
    """
    predicted = prompt.variable("predicted")
    stated = conclusions(prompt.variable("reasoning"), with_answer(prompt.variable("question"), predicted))
    if not stated:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded engine cannot judge reasoning that states no conclusion: use a language model as the judge",
        )
    return json.dumps({"reason": f"it states: {stated[-1].text}", "supported": all(each.right for each in stated)})


def judge_quality(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether the gold (correct) answer of a question is right: it must equal the embedded engine's own answer.

    Returns JSON with a reason and ``"quality"``: "good", "wrong_answer" or, if the engine cannot read the question or
    the image, "cannot_judge". ``prompt`` holds the question and the gold answer, and ``scene`` holds the image; the
    other arguments are not used.
    """
    question, choices = _parted(prompt.variable("question"))
    query = read_question(question, choices or None)
    reading = None if query is None or scene.shapes is None else answer(query, scene.shapes, scene.size, scene.panels)
    if reading is None:
        return json.dumps({"reason": "this cannot be read", "quality": "cannot_judge"})
    gold = prompt.variable("answer")
    kind = "mcq" if choices else "bool" if polarity(gold) is not None else "text"
    right = grade_answer(reading.answer, gold, kind, choices or None).value == 1
    return json.dumps({"reason": reading.reason[:150], "quality": "good" if right else "wrong_answer"})


def _parted(text: str) -> tuple[str, tuple[str, ...]]:
    """Split the text of a question into the question and its choices.

    The choices are the last lines of ``text``, which must begin with "A. ", "B. " and so on. Returns the text before
    these lines, and the choices without their letters. If ``text`` does not end with such lines, the result is the
    whole text and ().
    """
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if at and line.startswith("A. ")), len(lines))
    choices = lines[start:]
    if any(not line.startswith(f"{chr(65 + number)}. ") for number, line in enumerate(choices)):
        return text, ()
    return "\n".join(lines[:start]), tuple(line[3:] for line in choices)


HANDLERS = {
    "judge_complexity": judge_complexity,
    "judged_trace": judged_trace,
    "direct_judgement": direct_judgement,
    "judge_decision": judge_decision,
    "judge_logic": judge_logic,
    "judge_grounding": judge_grounding,
    "judge_think_consistency": judge_think_consistency,
    "judge_quality": judge_quality,
    "score_logic": _scored(judge_logic, "sound"),
    "score_grounding": _scored(judge_grounding, "true_to_sources"),
    "score_think_consistency": _scored(judge_think_consistency, "supported"),
}
"""The function that answers each prompt, by the prompt's id."""
