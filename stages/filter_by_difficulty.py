"""Filters questions by difficulty: keeps questions whose pass rate (share of right attempts) is in a range (band).

The inputs are drafts (questions with their data) that have attempts (the policy model's sampled answers). Drafts whose
pass rate is in the band are kept. Drafts outside the band are rejected as too_easy or too_hard. If the setting
``route`` contains ``too_easy`` or ``too_hard``, the drafts of this kind are not rejected but go to the output of this
name. SAIL-RL's "pass@4" filter (App. A.1) is this filter with four attempts and 0 < pass rate < 1. iVGR keeps questions
with one or two right answers of five.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from groundtrace.config.settings import Share, settings
from groundtrace.grading.answers.answer_type import Gold, InvalidGold
from groundtrace.grading.answers.polarity import is_refusal
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.schemas.records import Draft, Question
from groundtrace.schemas.text import excerpt, folded
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Route, Stage, Work

TOO_EASY, TOO_HARD = "too_easy", "too_hard"


@settings
class DifficultySettings:
    """Holds the range (band) of pass rates to keep. By default, the two limits themselves are not in the band."""

    low: Annotated[Share, "the lower end of the band"] = 0.0
    high: Annotated[Share, "the upper end of the band"] = 1.0
    include_low: Annotated[bool, "keep a pass rate of exactly low"] = False
    include_high: Annotated[bool, "keep a pass rate of exactly high"] = False
    route: Annotated[
        tuple[Literal["too_easy", "too_hard"], ...],
        "the reasons whose records go to an output of their own instead of being rejected",
    ] = ()

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high = {self.high}, got {self.low}")


def side_of_band(pass_rate: float, settings: DifficultySettings) -> str | None:
    """Return ``too_easy`` if a pass rate is above the band, ``too_hard`` if the pass rate is below the band, and None
    if it is inside. The band is the range of pass rates to keep.

    ``pass_rate`` is the share of the policy model's answers that are right, from 0 to 1. ``settings`` holds the limits
    of the band.
    """
    if pass_rate < settings.low or (pass_rate == settings.low and not settings.include_low):
        return TOO_HARD
    if pass_rate > settings.high or (pass_rate == settings.high and not settings.include_high):
        return TOO_EASY
    return None


def filter_draft(draft: Draft, settings: DifficultySettings) -> Draft | Route:
    """Return the draft (a question with its data) if its pass rate (share of the policy model's answers that are right)
    is in the band of the settings.

    The band is the range of pass rates to keep. For a draft outside the band, the reason is ``too_easy`` or
    ``too_hard``. If ``settings.route`` contains this reason, the draft is returned as a route to the output of this
    name. Otherwise :class:`Reject` is raised with this reason; for ``too_hard``, its detail also has the wrong answer
    on which the attempts agree. Raises ValueError for a draft without graded answers.
    """
    if draft.pass_rate is None:
        raise ValueError(f"{draft.id}: FilterByDifficulty needs graded attempts: put this stage after AttemptQuestions")
    side = side_of_band(draft.pass_rate, settings)
    if side is None:
        return draft
    if side in settings.route:
        return Route(side, draft)
    rate = f"the pass rate is {draft.pass_rate:.2f} over {draft.scored_attempts} attempts"
    detail = f"{rate}, {_bound_text(draft.pass_rate, side, settings)}"
    raise Reject(side, detail + (_agreement_text(draft) if side == TOO_HARD else ""))


def _agreement_text(draft: Draft) -> str:
    """Return a text with the most frequent wrong answer of a question, e.g. "; 4 of 4 attempts answered '1'".

    The attempts of ``draft`` are the policy model's answers to the question.

    If most attempts agree on an answer, the gold answer may be wrong. Answers that differ only in case and blanks are
    one answer, in the spelling of the first. Of equally frequent answers, the first one is named. Only answers that
    could be the gold answer count (:func:`_could_be_gold`). The result is "" if no two of them agree.
    """
    wrong = [each.answer for each in draft.attempts if each.correct is False and each.answer is not None]
    answers = [answer for answer in wrong if _could_be_gold(answer, draft.question)]
    agreeing = Counter(map(folded, answers))
    if not agreeing or max(agreeing.values()) < 2:
        return ""
    [(most, number)] = agreeing.most_common(1)  # of equal counts, the first
    spelled = next(answer for answer in answers if folded(answer) == most)
    return f"; {number} of {draft.scored_attempts} attempts answered {excerpt(spelled)}"


def _could_be_gold(answer: str, question: Question) -> bool:
    """Return whether a wrong answer has the form of a gold answer of the question, so that the gold may be wrong.

    If the question has choices, the answer must name one of them. Otherwise it must fit the question's answer type, and
    must not refuse to answer, as "cannot tell" does.
    """
    kind = answer_type_named(question.answer_type)
    if question.choices:
        return any(kind.grade(answer, choice, question.choices).value == 1 for choice in question.choices)
    try:
        kind.check_gold(Gold(answer))
    except InvalidGold:
        return False
    return not is_refusal(answer)


def _bound_text(pass_rate: float, side: str, settings: DifficultySettings) -> str:
    """Return the bound of the band that a pass rate missed, with its setting, e.g. "above difficulty.high = 0.7".

    The band is the range of pass rates to keep; ``settings`` holds it. ``side`` is ``too_easy`` if the pass rate is
    above the band, and ``too_hard`` if it is below.
    """
    name, bound, where = ("low", settings.low, "below") if side == TOO_HARD else ("high", settings.high, "above")
    if pass_rate == bound:
        return f"equal to difficulty.{name} = {bound}, with difficulty.include_{name} = false"
    return f"{where} difficulty.{name} = {bound}"


STAGE = Stage(
    "difficulty",
    "questions outside the band of pass rates are dropped",
    reasons={TOO_EASY: "pass rate above the band", TOO_HARD: "pass rate below the band"},
    settings=DifficultySettings,
)


@dataclass
class FilterByDifficulty(DraftStage):
    """Stage (pipeline step) that keeps the drafts (questions with their data) whose pass rate (share of the policy
    model's answers that are right) is in the band (range) of the settings.

    A draft outside the band is rejected with the reason ``too_easy`` or ``too_hard``. But if the setting ``route``
    contains this reason, the draft is not rejected, and goes to the output of the same name.
    """

    settings: DifficultySettings
    stage = STAGE
    routes = (TOO_EASY, TOO_HARD)

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function keeps the draft if its pass
        rate is in the range that the settings give (:func:`filter_draft`).
        """
        return partial(filter_draft, settings=self.settings)
