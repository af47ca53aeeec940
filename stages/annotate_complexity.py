"""Labels each question as one that needs reasoning or one that can be answered directly (SAIL-RL §3.2, App. A.1).

The inputs are drafts (questions with their data). The outputs are drafts labelled ``simple`` or ``complex``, with the
judge model's reason. A draft is rejected if the judge cannot decide. The judge sees the images and the question,
but not the gold answer.

This stage also sets the form that later responses to the question must have (judge-think-answer). Such a response has
a judge section, a think section and the answer. The judge section states whether the question needs reasoning.

Deviation: in the paper, a single call during training labels a question, and also compares a response with the label
(App. C). Here each question gets one label before training. A later stage writes a trace (response to learn from) that
fits the label. In training, the reward compares responses with the label.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import JUDGE
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.complexity import COMPLEX, COMPLEXITY, COMPLEXITY_REASON, SIMPLE
from groundtrace.rewards.judge import JudgeTask, ask_judge, reason_of
from groundtrace.rewards.judge_guard import question_text
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

UNJUDGED = "unjudged"
PROMPT = "judge_complexity.v1"
CANNOT = "cannot_judge"


@settings
class ComplexitySettings:
    """Holds the settings of the calls in which the judge model labels questions as simple or complex."""

    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def read_complexity(reply: CallResult) -> tuple[str, str]:
    """Read the judge model's reply about a question, and return the label and the judge's reason.

    The label is ``simple``, ``complex`` or ``cannot_judge``. Raises BadReply if the reply has no such label or no
    reason.
    """
    fields = json_object(reply.text)
    label = fields.get("complexity")
    if not isinstance(label, str) or label not in (SIMPLE, COMPLEX, CANNOT):
        raise BadReply(f"the reply's field 'complexity' must be {SIMPLE}, {COMPLEX} or {CANNOT}, got {label!r:.80}")
    reason = " ".join(reason_of(fields).split())
    if not reason:
        raise BadReply("the reply's field 'reason' is empty: write one sentence")
    return label, reason


async def annotate(draft: Draft, session: Session, settings: ComplexitySettings) -> Draft:
    """Let the judge model label a question as simple or complex, and return the draft (a question with its data) with
    this label and the judge's reason.

    ``session`` makes the call, and ``settings`` holds the settings of the call. Raises :class:`Reject` if the judge
    cannot decide.
    """
    question = draft.question
    task = JudgeTask(
        PROMPT,
        {"question": question_text(question)},
        read_complexity,
        media={"original": shown(question.media)},
        sampling=Sampling(max_tokens=settings.max_tokens),
    )
    label, reason = await ask_judge(task, session)
    if label == CANNOT:
        raise Reject(UNJUDGED, reason, session.calls[-1].keys[0])
    labelled = draft.with_added(COMPLEXITY, label).with_added(COMPLEXITY_REASON, reason)
    return replace(labelled, form=JUDGE)


STAGE = Stage(
    "complexity",
    "the judge decides for each question whether it needs reasoning (complex) or can be answered directly (simple)",
    reasons={UNJUDGED: "the judge cannot say"},
    asks=(Asks("judge", (PROMPT,)),),
    settings=ComplexitySettings,
    adds=(COMPLEXITY, COMPLEXITY_REASON),
)


@dataclass
class AnnotateComplexity(CallingStage):
    """Stage (pipeline step) that lets the judge model label every question as simple or complex.

    ``models`` holds the settings of the run's models. A ``simple`` question can be answered directly, and a ``complex``
    question needs reasoning. A question is rejected if the judge cannot decide.
    """

    settings: ComplexitySettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the judge model label
        the question as simple or complex (:func:`annotate`).
        """
        return partial(annotate, settings=self.settings)
