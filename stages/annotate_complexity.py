"""Labels each question as one that needs reasoning or one that can be answered directly (SAIL-RL §3.2, App. A.1).

The inputs are drafts. The outputs are drafts labelled ``simple`` or ``complex`` with the judge's reason, or a rejection
if the judge cannot decide. From here on, the form of a draft's responses is judge-think-answer. The judge sees image
and question, not the gold answer. Deviation: the paper's annotator labels a question and compares a response with the
label in one call during training (App. C). Here each question gets one label before training: its trace is written for
this label, and the reward compares responses with the label.
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
    """Holds the settings of the judge's replies on the complexity of questions."""

    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def read_complexity(reply: CallResult) -> tuple[str, str]:
    """Return the label (or ``cannot_judge``) and the judge's reason. Raises BadReply if a valid one is missing."""
    fields = json_object(reply.text)
    label = fields.get("complexity")
    if not isinstance(label, str) or label not in (SIMPLE, COMPLEX, CANNOT):
        raise BadReply(f"complexity: expected {SIMPLE}, {COMPLEX} or {CANNOT}, got {label!r:.80}")
    reason = " ".join(reason_of(fields).split())
    if not reason:
        raise BadReply("reason: expected one sentence, got none")
    return label, reason


async def annotate(draft: Draft, session: Session, settings: ComplexitySettings) -> Draft:
    """Return the draft with the complexity of its question. Raises :class:`Reject` if the judge cannot decide."""
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
    "the judge says of each question whether it needs reasoning (complex) or can be answered directly (simple)",
    reasons={UNJUDGED: "the judge cannot say"},
    asks=(Asks("judge", (PROMPT,)),),
    settings=ComplexitySettings,
    adds=(COMPLEXITY, COMPLEXITY_REASON),
)


@dataclass
class AnnotateComplexity(CallingStage):
    """Labels every question as simple or complex; see the module."""

    settings: ComplexitySettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return :func:`annotate` with the settings of this stage, to be called with each draft."""
        return partial(annotate, settings=self.settings)
