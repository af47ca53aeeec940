"""Computes the judging score of the paper SAIL-RL (§3.2, §3.3): whether the response rightly decides to think or answer
directly.

The response states its decision in the ``<judge>`` section. In the paper, one call of a model labels the question as
simple or complex, and compares the decision with this label (App. C). Deviation: here the question already has its
label, so that the label does not depend on the judge. The judge only reads the decision in the section, which may be in
any language.
"""

from groundtrace.grading.responses.response import Response
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.complexity import COMPLEX, COMPLEXITY, SIMPLE
from groundtrace.rewards.judge import ROLE, JudgeTask, Reading, judge, reason_of
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict

NAME = "judging"
PROMPT = "judge_decision.v1"
MAX_JUDGE_CHARS = 2000
DECISIONS = {"think": COMPLEX, "direct": SIMPLE, "neither": None}
"""Maps each decision that a response can state in its ``<judge>`` section to the questions for which it is right.

The value is the complexity of these questions; None if the decision is never right.
"""


async def score_judging(response: Response, complexity: str | None, caller: Caller) -> Verdict:
    """Return a verdict whose value is R_judge (SAIL-RL §3.2): 1 if the judge section decides rightly, else 0.

    The judge section (``<judge>``) of a response holds its decision. The right decision is to think about a complex
    question, and to answer a simple question directly. The value is also 0 if the response has no judge section, or if
    the section is empty or has no decision. As in the paper, only the decision is scored, and not whether the think
    section is empty.

    ``complexity`` is the label of the question, ``simple`` or ``complex``. If it is None, the verdict is not
    applicable. ``caller`` is the object with which the judge is called. If the judge fails, the verdict has failed.

    Raises BudgetUsedUp if the run's budget for model calls is used up, and ValueError for any other ``complexity``.
    """
    if complexity is None:
        return Verdict(NAME, None, "the question has no complexity label")
    if complexity not in (SIMPLE, COMPLEX):
        raise ValueError(f"complexity must be simple or complex, got {complexity!r}")
    decision = (response.judge or "").strip()
    if not decision:
        return Verdict(NAME, 0.0, "malformed: the response has no judge section, or an empty one")

    def read(reply: CallResult) -> Reading:
        fields = json_object(reply.text)
        decided = fields.get("decision")
        if not isinstance(decided, str) or decided not in DECISIONS:
            raise BadReply(f"the reply's field 'decision' must be one of {', '.join(DECISIONS)}, got {decided!r:.80}")
        return float(DECISIONS[decided] == complexity), f"{decided}, labelled {complexity}: {reason_of(fields)}"

    return await judge(NAME, JudgeTask(PROMPT, {"decision": decision}, read, max_chars=MAX_JUDGE_CHARS), caller)


async def _score(case: Case) -> Verdict:
    return await score_judging(case.response, case.context.added(COMPLEXITY), case.caller)


SCORER = Scorer(
    NAME,
    "the question is labelled as simple or complex",
    _score,
    needs=((lambda case: case.context.added(COMPLEXITY) is not None, "the question has no complexity label"),),
    asks=(Asks(ROLE, (PROMPT,), all_media=False),),
)
