"""The outcome reward: is the final answer right (Argos §3.1, Eq. 6–8)?

Rules decide where they can (:mod:`schemas.answers.grading`); free text goes to the judge, where there is one. A judge
that fails to give a verdict leaves the answer unscored: it is neither right nor wrong.
"""

from inference.asking import Asks, ask_for
from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.request import Sampling
from prompts.loader import load_prompt
from rewards.judge_guard import quote
from schemas.answers.grading import grade_answer
from schemas.records import Question, Verdict

NAME = "outcome"
JUDGE_PROMPT = "judge_answer.v2"
MAX_ANSWER_CHARS = 2000
ASKS = (Asks("judge", (JUDGE_PROMPT,), required=False),)


async def score_outcome(question: Question, predicted: str | None, caller: Caller | None) -> Verdict:
    """1 for a right answer, 0 for a wrong or missing one, unscored where neither rule nor judge can tell.

    ``caller`` reaches the judge; None leaves answers that need one unscored.
    """
    grade = grade_answer(predicted, question.answer, question.answer_type, question.choices)
    if grade.value is not None or grade.method != "judge" or predicted is None:
        return Verdict(NAME, grade.value, f"{grade.method}: {grade.reason}")
    if caller is None:
        return Verdict(NAME, None, "judge: no judge is configured for free text")
    quoted = quote(predicted, limit=MAX_ANSWER_CHARS)
    prompt = load_prompt(JUDGE_PROMPT).render(
        question=question.question, gold=question.answer, predicted=quoted.texts[0], mark=quoted.mark
    )
    try:
        (same, reason), _ = await ask_for(caller, "judge", prompt, Sampling(max_tokens=512), _judged)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"judge: {error}")
    return Verdict(NAME, float(same), f"judge: {reason}")


def _judged(reply: Answered) -> tuple[bool, str]:
    fields = json_object(reply.text)
    same = fields.get("same")
    if not isinstance(same, bool):
        raise BadReply(f"expected true or false, got {same!r:.80}")
    return same, str(fields.get("reason", ""))[:200]
