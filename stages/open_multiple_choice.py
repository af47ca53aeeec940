"""Turns multiple-choice questions into free-response questions if possible (SAIL-RL App. A.1, against guessing).

The inputs are drafts (questions with their data). The outputs are the same drafts. A question loses its choices if all
of them are numbers or short phrases and the question is clear without them. These choices are then removed from the
question's text, and moved to the field ``opened_choices``. The gold answer stays the same. All other questions stay
multiple choice. A question also stays multiple choice in two cases:

- Without the choices, a wrong choice would be graded as right. An example is a wrong number within 5 % of the gold
  answer.
- The answer is in words, and no judge can grade paraphrases.
"""

import re
from dataclasses import dataclass, replace
from functools import partial

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work

_NUMBER = re.compile(r"[+\-−]?\d+(?:\.\d+)?")
_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")
_REFERS_TO_CHOICES = re.compile(
    r"\b(?:which (?:of|one|option|choice|statement|answer|figure|graph|picture|diagram)|these|following|options?"
    r"|choices?|below|above"
    r"|best (?:describes|illustrates|represents|matches)|true|false|not true|correct statement|except)\b",
    re.IGNORECASE,
)
_ASKS_FREELY = re.compile(
    r"\b(?:how many|how much|how old|how far|what|who|where|when|find|calculate|compute|determine)\b", re.IGNORECASE
)
_META = re.compile(r"\b(?:none|all|both|neither|any|cannot|can't|not)\b", re.IGNORECASE)
_BLANK = re.compile(r"_{2,}|\(\s*\)|\.{3,}|…|\bis\s*[:.]?\s*$")


def names_no_other(choices: tuple[str, ...]) -> bool:
    """Return whether every choice can be understood without the other choices.

    The result is False if, for example, one of ``choices`` is "all of these" or "none".
    """
    return not any(_META.search(choice) for choice in choices)


def can_be_opened(question: Question) -> bool:
    """Return whether a multiple-choice question can be answered by a person who does not see the choices.

    Rules decide this. The result is True if the choices are all numbers or short phrases, and the question's words ask
    for such an answer and do not refer to the choices. It is False for a question without choices.
    """
    choices = question.choices
    if choices is None or not names_no_other(choices):
        return False
    if _REFERS_TO_CHOICES.search(question.question) or _BLANK.search(question.question):
        return False
    if not _ASKS_FREELY.search(question.question):
        return False
    numbers = all(_NUMBER.fullmatch(choice.strip()) for choice in choices)
    words = all(_WORDS.fullmatch(choice.strip()) and len(choice.strip()) > 1 for choice in choices)
    return numbers or words


def without_options(text: str, choices: tuple[str, ...]) -> str | None:
    """Return the question's text without the lettered options at its end. Returns None if the text lists the options in
    another form.

    ``text`` is the question, such as "What is it? A. cat B. dog", and ``choices`` are its choices, such as "cat" and
    "dog".
    """
    labels = (re.escape(chr(65 + index)) for index in range(len(choices)))
    options = (rf"\(?{label}[.):]\s*{re.escape(choice.strip())}" for label, choice in zip(labels, choices, strict=True))
    between = r"[\s.,;]*"
    text = re.sub(rf"(?<!\s)\s*{between.join(options)}{between}\Z", "", text, flags=re.IGNORECASE)
    named = [rf"{re.escape(choice.strip())}(?!\w)" for choice in choices]
    if any(re.search(rf"(?<!\w)[A-Z][.):]\s*{choice}", text) for choice in named):
        return None
    is_words = not any(_NUMBER.fullmatch(choice.strip()) for choice in choices)
    if is_words and all(re.search(rf"(?<!\w){choice}", text, re.IGNORECASE) for choice in named):
        return None
    return text


def open_question(draft: Draft, judged: bool = True) -> Draft:
    """Return the draft (a question with its data) with a free-response question, if its multiple-choice question can be
    answered without the choices.

    All other drafts are returned unchanged. ``judged`` is True if a judge model grades answers in free text. Without
    such a judge, questions with answers in words keep their choices.
    """
    question = draft.question
    if question.choices is None or not can_be_opened(question):
        return draft
    text = without_options(question.question, question.choices)
    answer_type = "numeric" if _NUMBER.fullmatch(question.answer.strip()) else "text"
    if not text or not only_gold_is_right(question.answer, answer_type, question.choices, judged):
        return draft
    opened = replace(question, question=text, choices=None, opened_choices=question.choices, answer_type=answer_type)
    return replace(draft, question=opened)


def only_gold_is_right(gold: str, answer_type: str, choices: tuple[str, ...], judged: bool) -> bool:
    """Return whether grading without the choices still accepts only the gold answer.

    Rules grade every choice as an answer of the type ``answer_type``. The gold answer ``gold`` must be right, and all
    other ``choices`` must be wrong. ``judged`` is True if a judge model grades answers in free text. If it is True, the
    rules may leave some of the other choices ungraded, because the judge would grade them.
    """
    values = {choice: grade_answer(choice, gold, answer_type, None).value for choice in choices}
    wrong = {0.0, None} if judged else {0.0}
    return values.pop(gold) == 1.0 and wrong.issuperset(values.values())


STAGE = Stage("open_choices", "multiple-choice questions become free answers where that can be graded")


@dataclass
class OpenMultipleChoice(DraftStage):
    """Stage (pipeline step) that turns multiple-choice questions into free-response questions where rules allow this.

    If ``enabled`` is False, every draft passes unchanged. ``judged`` is True if a judge model grades answers in free
    text.
    """

    enabled: bool = True
    judged: bool = True
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data).

        The function is :func:`open_question` if ``enabled`` is True. Otherwise, it is a function that changes nothing.
        """
        return partial(open_question, judged=self.judged) if self.enabled else _pass


def _pass(draft: Draft) -> Draft:
    return draft
