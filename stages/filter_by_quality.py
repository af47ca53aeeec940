"""Filters general questions by quality (SAIL-RL App. A.1: general QA is "filtered primarily for quality and
diversity").

The inputs are drafts (questions with their data). The outputs are the drafts that the judge model finds good enough to
train on. All other drafts are rejected with the fault that the judge names. The judge sees image, question and gold
answer. General questions are filtered in this way because the paper filters only STEM problems by pass rate. The paper
does not name its criteria; we chose the list of faults.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.judge import JudgeTask, ask_judge, reason_of
from groundtrace.rewards.judge_guard import question_text
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

PROMPT = "judge_quality.v1"
LOW_QUALITY, WRONG_GOLD, UNJUDGED = "low_quality", "wrong_gold", "unjudged"
GOOD = "good"
REASON_OF = {
    "unclear": LOW_QUALITY,
    "unanswerable": LOW_QUALITY,
    "open_ended": LOW_QUALITY,
    "wrong_answer": WRONG_GOLD,
    "cannot_judge": UNJUDGED,
}
"""Maps each verdict of the judge, except a good one, to the reason of the rejection."""


@settings
class QualitySettings:
    """Holds the settings of the calls in which the judge model assesses the quality of questions."""

    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def read_quality(reply: CallResult) -> tuple[str, str]:
    """Read the judge model's reply about a question's quality, and return the verdict and the reason for it.

    The verdict is "good" or a key of :data:`REASON_OF`, e.g. "unclear". Raises BadReply for any other verdict.
    """
    fields = json_object(reply.text)
    verdict = fields.get("quality")
    if not isinstance(verdict, str) or verdict not in (GOOD, *REASON_OF):
        raise BadReply(
            f"the reply's field 'quality' must be one of {GOOD}, {', '.join(REASON_OF)}, got {verdict!r:.80}"
        )
    return verdict, reason_of(fields)


async def assess(draft: Draft, session: Session, settings: QualitySettings) -> Draft:
    """Let the judge model assess a question, and return the draft (a question with its data) unchanged if the verdict
    is good.

    ``session`` makes the call, and ``settings`` holds the settings of the call. Raises :class:`Reject` for any other
    verdict.
    """
    question = draft.question
    task = JudgeTask(
        PROMPT,
        {"question": question_text(question), "answer": question.answer},
        read_quality,
        media={"original": shown(question.media)},
        sampling=Sampling(max_tokens=settings.max_tokens),
    )
    verdict, reason = await ask_judge(task, session)
    if verdict != GOOD:
        raise Reject(REASON_OF[verdict], f"{verdict}: {reason}", session.calls[-1].keys[0])
    return draft


STAGE = Stage(
    "quality",
    "general questions that the judge finds unclear, unanswerable or wrongly answered are dropped",
    reasons={
        LOW_QUALITY: "the judge finds the question unclear, unanswerable or open-ended",
        WRONG_GOLD: "the judge finds the gold answer wrong",
        UNJUDGED: "the judge cannot say",
    },
    asks=(Asks("judge", (PROMPT,)),),
    settings=QualitySettings,
)


@dataclass
class FilterByQuality(CallingStage):
    """Stage (pipeline step) that keeps the questions that the judge model finds good enough to train on.

    ``models`` holds the settings of the run's models.
    """

    settings: QualitySettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if the
        judge model finds a fault in its question (:func:`assess`).
        """
        return partial(assess, settings=self.settings)
