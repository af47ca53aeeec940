"""Lets the judge model assess each question that the teacher model wrote, with its answer (CodeDance §7.2, Table 7).

The inputs are drafts (questions with their data) whose question and answer the teacher wrote. The outputs are the
drafts whose question and answer the judge calls GOOD: the answer is right, and a close look is needed to find it.
Drafts that the judge calls BAD are rejected. If a reply is neither GOOD nor BAD, a new reply is requested. If the new
replies are neither GOOD nor BAD either, the draft is rejected.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.families.base import after_thinking
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, untruncated
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.judge import JudgeTask, ask_judge
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

PROMPT = "judge_pair.v1"
GOOD, BAD = "GOOD", "BAD"
BAD_PAIR = "bad_pair"


@settings
class PairSettings:
    """Holds the settings of the calls in which the judge model assesses the teacher model's questions and answers."""

    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def read_verdict(text: str) -> bool:
    """Return True if the judge model's verdict in ``text`` is GOOD, and False if it is BAD. The model's thinking is not
    read.

    Raises BadReply for any other text.
    """
    answer = after_thinking(text).strip()
    if answer not in (GOOD, BAD):
        raise BadReply(f"the reply must be the single word {GOOD} or {BAD} without other text, got {answer!r:.80}")
    return answer == GOOD


def _read(reply: CallResult) -> bool:
    return read_verdict(reply.text)


async def judge_pair(draft: Draft, session: Session, settings: PairSettings) -> Draft:
    """Let the judge model assess a question and its answer, both written by the teacher model, and return the draft (a
    question with its data) if the verdict is GOOD.

    ``session`` makes the call, and ``settings`` holds the settings of the call. Raises :class:`Reject` if the verdict
    is BAD.
    """
    question = draft.question
    task = JudgeTask(
        PROMPT,
        {"question": question.question, "answer": question.answer},
        untruncated(_read),
        media={"original": shown(question.media)},
        sampling=Sampling(max_tokens=settings.max_tokens),
    )
    if not await ask_judge(task, session):
        raise Reject(
            BAD_PAIR,
            f"the judge calls the question {BAD}; its answer is {question.answer!r}",
            session.calls[-1].keys[0],
        )
    return draft


STAGE = Stage(
    "judge_pairs",
    "written questions that are obvious, or whose answer the judge finds wrong, are dropped",
    reasons={BAD_PAIR: "the judge finds the written question obvious or its answer wrong"},
    asks=(Asks("judge", (PROMPT,)),),
    settings=PairSettings,
)


@dataclass
class JudgePairs(CallingStage):
    """Stage (pipeline step) that keeps those questions of the teacher model that the judge model calls GOOD, together
    with their answers.

    ``models`` holds the settings of the run's models.
    """

    settings: PairSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if the
        judge model calls its question and answer BAD (:func:`judge_pair`).
        """
        return partial(judge_pair, settings=self.settings)
