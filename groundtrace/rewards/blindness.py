"""Computes the reward of a blind policy, which answers without using the images.

For each kind of question, this policy always gives the same answer, namely the one with the highest mean reward. Its
responses have no points and no boxes. In reinforcement learning, a policy can raise its reward by guessing frequent
answers. So each run reports the blind policy's reward on the questions of its RL training data. A trained policy whose
reward is not higher may answer without using the images.

No model is called. Final answers are graded by rule. Questions are left out, and their number is reported, if only a
judge can grade their answers, or if their answers are boxes. In some rewards, a judge also scores other parts of the
response, such as the reasoning. Such a judge is not called; it is assumed to give the highest score.

A recipe is the code that computes the rewards of one paper. The reward of a response without points and boxes depends
on the recipe (:meth:`groundtrace.rewards.recipes.base.Recipe.blind_shares`). If the recipe does not define this reward,
nothing is computed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from groundtrace.grading.answers.choices import gold_options
from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.answers.yes_no import yes_or_no
from groundtrace.rewards.recipes.base import BlindShares, Recipe
from groundtrace.rewards.targets import gold_count
from groundtrace.schemas.blind_figures import BlindFigures, BlindType
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question
from groundtrace.schemas.text import folded

COLUMNS = ("question", "answer", "answer_type", "choices", "gold_boxes", "entities", "pointable", "streams")
"""The columns of an RL row that :func:`rewarded_question` reads."""
MAX_CANDIDATES = 16
"""The maximum number of answers that are tried for each kind of question: the most frequent gold answers.

Each of them is tried as the constant answer, which the blind policy gives to all questions of this kind.
"""


@dataclass(frozen=True)
class RewardedQuestion:
    """Holds the question of one row of RL training data, with the other columns that a reward uses.

    Attributes:
        question: the question with its gold answer.
        entities: the phrases for objects in the question, for which the pointer (the model that points at objects)
            searched; None if they are unknown.
        pointable: the phrases that the pointer found in the images.
        streams: the kinds of prompts with which the question is asked: ``grounded`` requests reasoning with boxes, and
            ``textual`` requests reasoning only in words. The value is () if the question has a single prompt.
    """

    question: Question
    entities: tuple[str, ...] | None = None
    pointable: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    @property
    def has_nothing_to_look_at(self) -> bool:
        """Return whether the images show nothing that the question asks about, so that there is nothing to point at.

        A question that asks for a count has nothing to point at if its gold answer is 0. Any other question has nothing
        to point at if its entities (phrases for objects) are known, and the pointer (the model that points at objects)
        found none of them.
        """
        count = gold_count(self.question)
        if count is not None:
            return count == 0
        return self.entities is not None and not self.pointable


def rewarded_question(row: Mapping[str, Any]) -> RewardedQuestion:
    """Read one row of RL training data, and return its question with the other columns that a reward uses.

    ``row`` maps the names of the columns to their values. The columns question, answer and answer_type must be present;
    the other columns of :data:`COLUMNS`, such as choices and gold_boxes, may be missing.
    """
    choices, boxes, entities = (row.get(name) for name in ("choices", "gold_boxes", "entities"))
    gold = tuple(Box(**box) for box in boxes or ())
    texts = row["question"], row["answer"], row["answer_type"]
    question = Question("", "", "", (), *texts, tuple(choices) if choices else None, gold_boxes=gold or None)
    known = None if entities is None else tuple(entities)
    return RewardedQuestion(question, known, tuple(row.get("pointable") or ()), tuple(row.get("streams") or ()))


def closed_answer(question: Question) -> tuple[str, str] | None:
    """Return the kind of a closed question, which has few possible answers, and its gold answer in a normal form.

    The kinds and their answers are ``bool`` ("yes" or "no"), ``mcq`` (the letter of the choice, such as "B") and
    ``count`` (the number, such as "3"). The result is None for a question that is not closed.
    """
    if (word := yes_or_no(question.answer)) is not None and question.answer_type == "bool":
        return "bool", word
    if question.choices and (options := gold_options(question.answer, question.choices)):
        return "mcq", chr(ord("A") + min(options))
    count = gold_count(question)
    return None if count is None else ("count", str(count))


def constant_answer(question: Question) -> tuple[str, str] | None:
    """Return the kind of a question, and its gold answer in a normal form.

    :func:`blind_figures` searches for the best constant answer to all questions of one kind. The kind is ``bool``,
    ``mcq`` or ``count`` for a closed question, which has few possible answers (:func:`closed_answer`). For any other
    question it is the name of the answer type. The result is None if only a judge can grade answers to the question, or
    if the answer is boxes.
    """
    closed, kind = closed_answer(question), answer_type_named(question.answer_type)
    if closed is not None:
        return closed
    if kind.is_boxes or kind.needs_judge(question.answer, question.choices):
        return None
    number = read_numerals(question.answer).single if kind.is_number else None
    return kind.name, folded(question.answer) if number is None else f"{float(number.value):g}"


def blind_figures(rows: Iterable[RewardedQuestion], reward: type[Recipe], settings: Any = None) -> BlindFigures | None:
    """Return the reward that the best blind policy earns on these rows, and its answers; None if it is unknown.

    A blind policy answers without using the images. Its reward is given as a share of the maximum reward. Some rows are
    only counted in the result and left out of the reward: those whose answers only a judge can grade, and those whose
    answers are boxes. The result is None if the recipe does not define the reward of a response without points and
    boxes.

    ``rows`` are the questions, ``reward`` is the class of the recipe, which turns verdicts on responses into rewards,
    and ``settings`` are the settings of the recipe; None means its defaults.
    """
    golds: dict[str, Counter[tuple[Question, BlindShares]]] = defaultdict(Counter)
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    total = 0
    for row in rows:
        total += 1
        found = constant_answer(row.question)
        if found is not None:
            kind, answer = found
            shares = reward.blind_shares(row.question, row.pointable, row.streams, settings)
            if shares is None:
                return None
            golds[kind][_bare(row.question), shares] += 1
            answers[kind][answer] += 1
    types = {kind: _best(kind, answers[kind], golds[kind]) for kind in sorted(golds)}
    counted = sum(each.rows for each in types.values())
    earned = sum(each.earned * each.rows for each in types.values())
    return BlindFigures(reward.name, total, counted, earned / counted if counted else None, types)


def _bare(question: Question) -> Question:
    """Return the question with only the fields that grading needs, so that equal questions are graded once."""
    return Question("", "", "", (), "", question.answer, question.answer_type, question.choices)


def _best(kind: str, answers: Counter[str], golds: Mapping[tuple[Question, BlindShares], int]) -> BlindType:
    """Return the answer that earns the highest reward if it is given to all questions of one kind, and its reward.

    The reward is the mean per row, as a share of the maximum reward. ``kind`` is the kind of the questions. ``answers``
    counts their gold answers; the :data:`MAX_CANDIDATES` most frequent ones are tried. ``golds`` counts the rows: each
    key is a pair (question, shares for a right and a wrong answer), and the value is the number of rows with this pair.
    If several answers have the highest reward, the first of them in sorted order is returned. The answer is "" if no
    answer earns more than a wrong one.
    """
    rows, best = sum(golds.values()), ("", sum(shares.wrong * n for (_, shares), n in golds.items()))
    for answer, _ in sorted(answers.most_common(MAX_CANDIDATES)):
        earned = sum(
            (shares.right if _is_right(answer, question) else shares.wrong) * n
            for (question, shares), n in golds.items()
        )
        if earned > best[1]:
            best = answer, earned
    return BlindType(kind, rows, best[0], best[1] / rows)


def _is_right(answer: str, question: Question) -> bool:
    return grade_answer(answer, question.answer, question.answer_type, question.choices).value == 1.0


def blind_text(figures: BlindFigures) -> str:
    """Return a text for the user with the reward and the answers of the blind policy, which does not use the images.

    ``figures`` holds the share of the maximum reward that this policy earns, and its constant answer for each kind of
    question (:func:`blind_figures`). If the share is high, the text contains a warning.
    """
    ungraded = figures.rows - figures.counted
    if figures.share is None:
        return "What a policy earns that never looks is not computed: only a judge can grade these rows."
    types = ", ".join(f"{each.kind} {each.answer!r} {each.earned:.2f}" for each in figures.types.values())
    left = f"; the other {ungraded} of {figures.rows} rows only a judge can grade" if ungraded else ""
    text = f"A policy that never looks earns up to {figures.share:.2f} of what looking earns ({types}){left}."
    if figures.is_high:
        text += " That is much: a rising reward need not mean that the policy looks. Lower rl.max_same_answer or "
        text += "rl.max_absent, or add questions with other answers."
    return text
