"""Solves questions in text, step by step (CodeDance §7.2, Table 8).

The inputs are drafts (questions with their data). The outputs are drafts with the first right solution as their only
trace (response to learn from). A draft is rejected if no solution is right. The drafts can become SFT rows without
further changes; their column ``mode`` is then ``text``. A later stage may replace the calculations of a solution by
code. Deviation: the paper grades the answer once, after this replacement. Here the answer is also graded before the
replacement, so that no wrong solution is rewritten.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import CODE, answer_format, lettered_choices
from groundtrace.grading.responses.traces import read_trace
from groundtrace.grading.responses.turns import Turn, text_after_answer
from groundtrace.inference.request import Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.trajectory import IN_TEXT, MODE
from groundtrace.rewards.trajectory_checks import form_fault
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage

PROMPT = "reason.v1"
MALFORMED, WRONG_ANSWER, UNGRADABLE = "malformed", "wrong_answer", "ungradable"


@settings
class ReasonSettings:
    """Holds the sampling settings with which the teacher model writes solutions in text. The paper CodeDance gives none
    of these values.
    """

    n: Annotated[PositiveInt, "the number of solutions of each question; the first right one is kept"] = 1
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a solution"] = 4096

    @property
    def sampling(self) -> Sampling:
        """Return the sampling settings of the solutions that the teacher model writes for one question: their number,
        temperature and maximum length.
        """
        return Sampling(self.n, self.temperature, max_tokens=self.max_tokens)


async def reason(draft: Draft, session: Session, settings: ReasonSettings, judged: bool) -> Draft:
    """Let the teacher model solve a question in text, and return the draft (a question with its data) with the first
    right solution as its only trace (response to learn from).

    ``session`` makes the calls, with the sampling settings in ``settings``. ``judged`` is True if a judge model grades
    answers in free text. Raises :class:`Reject` if no solution is right.
    """
    question = draft.question
    prompt = load_prompt(PROMPT).render(
        {"original": shown(question.media)},
        question=question.question,
        choices=lettered_choices(question),
        answer_format=answer_format(question),
    )
    answered = await session.generate("teacher", prompt, settings.sampling)
    faults = list[tuple[str, str]]()
    for index, completion in enumerate(answered.completions):
        if completion.is_truncated:
            faults.append((TRUNCATED, CUT_OFF))
            continue
        if fault := form_fault((Turn(completion.text),)):
            faults.append((MALFORMED, fault))
            continue
        if rest := text_after_answer(completion.text):
            faults.append((MALFORMED, f"text follows the answer: {rest!r:.80}"))
            continue
        trace = read_trace(index, completion.text, question.media)
        verdict = await outcome.score_outcome(question, trace.answer, session if judged else None)
        if verdict.value == 1:
            solved = replace(trace, verdicts=(verdict,), score=1.0)
            return replace(draft, traces=(solved,), best=0, form=CODE).with_added(MODE, IN_TEXT)
        faults.append((UNGRADABLE if verdict.value is None else WRONG_ANSWER, verdict.reason))
    reason, detail = faults[0]
    raise Reject(reason, detail, answered.call.keys[0])


STAGE = Stage(
    "reason",
    "the teacher solves the question in text, step by step; the first right solution is kept",
    reasons={
        MALFORMED: "the solution is not a think section and an answer",
        WRONG_ANSWER: "no solution in text reached the gold answer",
        UNGRADABLE: "the answer could not be graded",
    },
    asks=(Asks("teacher", (PROMPT,)), *outcome.ASKS),
    settings=ReasonSettings,
    adds=(MODE,),
    failures=(UNGRADABLE,),
)


@dataclass
class ReasonInText(CallingStage):
    """Stage (pipeline step) that lets the teacher model solve every question in text, step by step.

    ``models`` holds the settings of the run's models.
    """

    settings: ReasonSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        solve the question in text (:func:`reason`).
        """
        return partial(reason, settings=self.settings, judged=self.models.judges_text)
