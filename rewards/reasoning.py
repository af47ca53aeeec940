"""The reasoning reward: does the reasoning support the answer (Argos §3.1, Eq. 5)?

The paper takes the probability P(answer | question, reasoning, image) of a larger model. Where the judge's endpoint
gives no log-probabilities a yes/no question stands for it, and the verdict says so.
"""

from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.repair import ask_for
from inference.request import Sampling
from prompts.loader import load_prompt
from schemas.messages import media_part
from schemas.records import Question, Verdict

NAME = "reasoning"
JUDGE_PROMPT = "judge_reasoning.v1"
MAX_REASONING_CHARS = 20_000
VALUES = {"yes": 1.0, "no": 0.0, "cannot_judge": None}


async def score_reasoning(question: Question, reasoning: str | None, predicted: str | None, caller: Caller) -> Verdict:
    """1 when the judge says that the reasoning supports the answer, 0 when it does not, else unscored."""
    if not reasoning or not reasoning.strip() or predicted is None:
        return Verdict(NAME, None, "no reasoning or no answer to judge")
    prompt = load_prompt(JUDGE_PROMPT).render(
        {"original": [media_part(medium) for medium in question.media]},
        question=question.question,
        reasoning=reasoning[:MAX_REASONING_CHARS],
        predicted=predicted,
    )
    try:
        (value, reason), _ = await ask_for(caller, "judge", prompt, Sampling(max_tokens=1024), _judged)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"judge: {error}")
    return Verdict(NAME, value, f"judge yes/no for Eq. 5: {reason}")


def _judged(reply: Answered) -> tuple[float | None, str]:
    fields = json_object(reply.text)
    supports = str(fields.get("supports"))
    if supports not in VALUES:
        raise BadReply(f"expected yes, no or cannot_judge, got {supports!r:.80}")
    return VALUES[supports], str(fields.get("reason", ""))[:200]
