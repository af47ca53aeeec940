"""Answers easy questions with the gold answer alone, without any reasoning, as the paper encourages (CodeDance §3.2).

The inputs are drafts (questions with their data) of easy questions. A question is easy if the policy (here a weak
model) nearly always answers it right; the policy's attempts (sampled answers) measure this. The outputs are drafts
whose only trace (response to learn from) is the gold answer in answer tags. The rows of these drafts teach a model
which questions need no code. This stage calls no model.
"""

from dataclasses import dataclass, replace

from groundtrace.grading.question_text import CODE
from groundtrace.rewards.trajectory import DIRECT, MODE
from groundtrace.schemas.records import Draft, Trace, Verdict
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work

UNWRITABLE = "unwritable_answer"


def answer_directly(draft: Draft) -> Draft:
    """Return the draft (a question with its data) with the trace (response to learn from) ``<answer>…</answer>``, which
    holds only the gold answer and no reasoning.

    Raises :class:`groundtrace.stages.plumbing.stage.Reject` if the gold answer contains a tag.
    """
    answer = draft.question.answer.strip()
    if "<" in answer:
        raise Reject(UNWRITABLE, f"the gold answer contains a tag: {answer:.80}")
    verdict = Verdict("outcome", 1.0, "it is the gold answer")
    trace = Trace(0, f"<answer>{answer}</answer>", answer, (), (), (verdict,), 1.0)
    return replace(draft, traces=(trace,), best=0, form=CODE).with_added(MODE, DIRECT)


STAGE = Stage(
    "answer_directly",
    "easy questions get their gold answer as the response, without reasoning",
    reasons={UNWRITABLE: "the gold answer contains a tag"},
    adds=(MODE,),
)


@dataclass
class AnswerDirectly(DraftStage):
    """Stage (pipeline step) that gives every draft (a question with its data) its gold answer as its only trace
    (response to learn from), without reasoning.
    """

    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function gives the draft its gold
        answer as its only trace (response to learn from) (:func:`answer_directly`).
        """
        return answer_directly
