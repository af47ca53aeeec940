"""Inserts known faults into good responses, to test whether a judge (a grading model) finds them.

Each function returns a faulty text: a changed reasoning or a wrong answer. Some return None if they find nothing to
change. The three judges of thinking in SAIL-RL (§3.1) check for these faults: a wrong step, a claim that the image
contradicts, and a conclusion that does not follow from the reasoning.
"""

import re

from groundtrace.grading.answers.choices import gold_options
from groundtrace.grading.answers.polarity import polarity
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.schemas.records import Question

_EQUATION = re.compile(r"(?<![\d.,+*/·×=-])(\d+(?: [-+] \d+)+) = (\d+)(?![\d.,]*\d)(?! ?[-+*/·×=])")
_COLOURS = re.findall(r"\w+", "black white grey gray red orange yellow green cyan blue purple pink brown")
_COLOUR = re.compile(rf"\b({'|'.join(_COLOURS)})\b", re.IGNORECASE)
_SIDES = (("left", "right"), ("right", "left"), ("above", "below"), ("below", "above"))
_WHOLE = re.compile(r"[+-]?\d+")


def with_wrong_step(thought: str) -> str:
    """Return the reasoning with a wrong calculation: the result of its first right sum becomes one too large.

    For example, "2 + 3 = 5" becomes "2 + 3 = 6". If the reasoning (``thought``) has no right sum, a sentence with a
    wrong sum is inserted before its last sentence.
    """
    for found in _EQUATION.finditer(thought):
        total = int(found.group(2))
        if total == sum(map(int, found.group(1).replace(" ", "").replace("-", "+-").split("+"))):
            return f"{thought[: found.start(2)]}{total + 1}{thought[found.end(2) :]}"
    sentences = re.split(r"(?<=[.!?])\s+", thought.strip())
    return " ".join([*sentences[:-1], "Added up, 2 + 3 = 6.", sentences[-1]])


def with_wrong_claim(thought: str, question: Question) -> str | None:
    """Return the reasoning with a false claim: the first colour in the text is replaced everywhere by another colour.

    For example, "the cup is red" becomes "the cup is brown". The new colour does not occur in the reasoning
    (``thought``), the question, its choices or its answer. So the changed claim cannot be true of another object that
    these texts describe. If no colour can be replaced, a word for a side, such as "left", is replaced by its opposite.
    The result is None if the reasoning has no such word that can be replaced.
    """
    spoken = " ".join((thought, question.question, question.answer, *(question.choices or ()))).lower()
    found = _COLOUR.search(thought)
    other = next((colour for colour in reversed(_COLOURS) if not re.search(rf"\b{colour}\b", spoken)), None)
    if found is not None and other is not None:
        return re.sub(rf"\b{found.group()}\b", other, thought, flags=re.IGNORECASE)
    for side, opposite in _SIDES:
        if re.search(rf"\b{side}\b", thought) and not re.search(rf"\b{opposite}\b", thought):
            return re.sub(rf"\b{side}\b", opposite, thought)
    return None


def other_answer(question: Question) -> str | None:
    """Return a wrong answer to the question: the opposite of yes or no, another choice, or the gold number plus one.

    For example, the result is "no" for the gold answer "yes", and "4" for "3". For a question with choices, it is the
    letter of a wrong choice. The result is None for any other gold answer, and if the gold answer is not one of the
    question's choices.
    """
    choices = question.choices or ()
    if choices:
        right = gold_options(question.answer, choices)
        return next((chr(65 + number) for number in range(len(choices)) if right and number not in right), None)
    side = polarity(question.answer)
    if answer_type_named(question.answer_type).is_number or side is None:
        number = question.answer.strip()
        return str(int(number) + 1) if _WHOLE.fullmatch(number) else None
    return "no" if side else "yes"
