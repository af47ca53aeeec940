"""The reasoning reward: does the reasoning support the answer (Argos §3.1, Eq. 5)?

The paper takes the probability P(answer | question, reasoning, image) of a larger model. Where the judge's endpoint
gives no log-probabilities a yes/no question stands for it, and the verdict says so.
"""

from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Caller
from inference.request import Sampling
from prompts.loader import load_prompt
from schemas.messages import media_part
from schemas.records import Question, Verdict

NAME = "reasoning"
JUDGE_PROMPT = "judge_reasoning.v1"
MAX_REASONING_CHARS = 20_000


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
        fields = json_object((await caller.generate("judge", prompt, Sampling(max_tokens=1024))).text)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"judge: {error}")
    value = {"yes": 1.0, "no": 0.0}.get(str(fields.get("supports")))
    return Verdict(NAME, value, f"judge yes/no for Eq. 5: {str(fields.get('reason', ''))[:200]}")
