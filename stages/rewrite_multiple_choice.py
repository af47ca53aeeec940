"""Rewrites multiple-choice questions that rules could not convert to free response (SAIL-RL §3.4, App. A.1).

The inputs are the drafts (questions with their data) that :mod:`groundtrace.stages.open_multiple_choice` has made. The
outputs are the same drafts. The teacher model rewrites each question that still has choices. The judge model then
checks the rewritten question. The rewritten question is used if it has the same meaning and the gold answer is its only
right answer. Its choices are kept in a separate field. All other questions stay multiple choice. Without a judge that
reads prose, every question stays multiple choice, because rewritten questions could not be checked. Deviation: the
paper converts all questions and does not say how.
"""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.answers.registry import evident_type
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import lettered_choices
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply, check_readable, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.judge import JudgeTask, ask_judge, true_or_false
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.open_multiple_choice import names_no_other, only_gold_is_right
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Stage

PROMPT, JUDGE_PROMPT = "free_question.v1", "judge_free_question.v1"
MAX_QUESTION_CHARS = 4000
_LETTERS = re.compile(r"(?<![\w.])\(?[A-J][.):](?=\s|$)|\b(?:option|choice|answer|alternative)s? [A-J]\b")


@settings
class RewriteSettings:
    """Holds the settings of the calls in which the teacher model rewrites questions and the judge model checks them."""

    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def has_option_letters(text: str) -> bool:
    """Return whether a text names choices by letter, such as ``B.``, ``(B)`` or ``option B``."""
    return _LETTERS.search(text) is not None


def read_rewritten(reply: CallResult, choices: tuple[str, ...]) -> str | None:
    """Return the rewritten question in the teacher model's reply. Returns None if the question cannot be asked without
    its choices.

    ``choices`` are the choices of the original question. Raises BadReply if the reply's field ``question`` is neither
    null nor a usable question. Also raises BadReply if the rewritten question still refers to the choices.
    """
    fields = json_object(reply.text)
    question = fields.get("question")
    if question is None and "question" in fields:
        return None
    if not isinstance(question, str) or not question.strip() or len(question) > MAX_QUESTION_CHARS:
        raise BadReply(
            f"the reply's field 'question' must be a question of at most {MAX_QUESTION_CHARS} characters, or null, got "
            f"{question!r:.80}"
        )
    check_readable(question, "question")
    if has_option_letters(question):
        raise BadReply(f"question: write the question without the letters of choices, got {question!r:.200}")
    if len(choices) > 1 and all(re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", question) for choice in choices):
        raise BadReply(f"question: write the question without the list of choices, got {question!r:.200}")
    return question.strip()


def rewritten_as(question: Question, text: str) -> Question | None:
    """Return a copy of the question with the rewritten text ``text`` and without its choices.

    Returns None if grading without the choices would not accept the gold answer, or would accept a wrong choice.
    """
    choices = question.choices or ()
    answer_type = evident_type(question.answer, None).name
    if not only_gold_is_right(question.answer, answer_type, choices, judged=True):
        return None
    return replace(question, question=text, choices=None, opened_choices=choices, answer_type=answer_type)


async def rewrite(draft: Draft, session: Session, settings: RewriteSettings, judged: bool) -> Draft:
    """Let the teacher model rewrite a draft's multiple-choice question as a free-response question.

    A draft is a question with its data. Returns the draft with the rewritten question. ``session`` makes the calls.
    ``judged`` is True if a judge model can check the rewritten question. The draft is returned unchanged in these
    cases: there is no such judge, the question has no choices, a choice refers to the other choices, or the rewritten
    question is not usable.
    """
    question, choices = draft.question, draft.question.choices
    if not judged or choices is None or not names_no_other(choices):
        return draft
    texts = {"question": question.question, "choices": lettered_choices(question), "answer": question.answer}
    media, sampling = {"original": shown(question.media)}, Sampling(max_tokens=settings.max_tokens)
    task = JudgeTask(PROMPT, texts, lambda reply: read_rewritten(reply, choices), media=media, sampling=sampling)
    text = await ask_judge(task, session, "teacher")
    opened = None if text is None else rewritten_as(question, text)
    if opened is None:
        return draft
    texts["rewritten"] = opened.question
    check = JudgeTask(JUDGE_PROMPT, texts, true_or_false("equivalent"), media=media, sampling=sampling)
    equivalent, _ = await ask_judge(check, session)
    return replace(draft, question=opened) if equivalent else draft


STAGE = Stage(
    "rewrite_choices",
    "other multiple-choice questions are rewritten to free answers, where the judge finds both the same",
    asks=(Asks("teacher", (PROMPT,), required=False), Asks("judge", (JUDGE_PROMPT,), required=False)),
    settings=RewriteSettings,
)


@dataclass
class RewriteMultipleChoice(CallingStage):
    """Stage (pipeline step) in which the teacher model rewrites the multiple-choice questions that rules could not
    convert to free response.

    ``models`` holds the settings of the run's models. If ``enabled`` is False, every draft passes unchanged.
    """

    settings: RewriteSettings
    models: ModelsSettings
    enabled: bool = True
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        rewrite a multiple-choice question as a free-response question (:func:`rewrite`).
        """
        return partial(rewrite, settings=self.settings, judged=self.enabled and self.models.judges_text)
