"""Plants faults in good responses by text edits, so that the right verdict of a judge is known.

Each function returns the faulty text, or None if there is nothing that it can safely change. The faults are those that
the three thinking judges of SAIL-RL (§3.1) look for: a wrong step, a claim that the image contradicts, and a conclusion
that does not follow.
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
    """Return the thought with a wrong calculation: changes its first right sum by one, or inserts a wrong sum."""
    for found in _EQUATION.finditer(thought):
        total = int(found.group(2))
        if total == sum(map(int, found.group(1).replace(" ", "").replace("-", "+-").split("+"))):
            return f"{thought[: found.start(2)]}{total + 1}{thought[found.end(2) :]}"
    sentences = re.split(r"(?<=[.!?])\s+", thought.strip())
    return " ".join([*sentences[:-1], "Added up, 2 + 3 = 6.", sentences[-1]])


def with_wrong_claim(thought: str, question: Question) -> str | None:
    """Return the thought with its first colour replaced everywhere, else with a side such as "left" replaced.

    The new colour occurs in neither thought nor question nor answer, so that the new claim is not true of another
    object.
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
    """Return an answer that is not the gold: the opposite of yes or no, another choice, or the number plus one."""
    choices = question.choices or ()
    if choices:
        right = gold_options(question.answer, choices)
        return next((chr(65 + number) for number in range(len(choices)) if right and number not in right), None)
    side = polarity(question.answer)
    if answer_type_named(question.answer_type).is_number or side is None:
        number = question.answer.strip()
        return str(int(number) + 1) if _WHOLE.fullmatch(number) else None
    return "no" if side else "yes"
