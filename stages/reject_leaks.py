"""Leaks: traces that give away that their writer was told the answer (SAIL-RL App. A.1, guided prompting) are rejected.

In: verified drafts. Out: those whose kept trace shows no sign of it, first by its words (:mod:`rewards.leaks`), then,
where there is a judge that reads prose, by that judge. Words that leave it open are rejected where nobody reads them.
The judge is asked of every chain of thought that the words let pass, or with ``ask = "open"`` only of those that they
leave open: wordings that nobody thought of pass the words.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from inference.asking import Asks
from inference.session import Session
from inference.settings import ModelsSettings
from rewards.judge import JudgeTask, ask_judge, true_or_false
from rewards.judge_guard import question_text
from rewards.leaks.finding import Leak, find_leak, find_leak_in_judge_section
from schemas.config import settings
from schemas.records import Draft
from schemas.responses.response import parse_response
from stages.plumbing.calling import CallingStage, Work
from stages.plumbing.stage import Reject, Stage

LEAK, UNVERIFIABLE = "leak", "unverifiable"
PROMPT = "judge_leak.v1"


@settings
class LeakSettings:
    """Of which chains of thought the judge is asked."""

    ask: Annotated[Literal["all", "open"], "all that the words let pass, or those that they leave open"] = "all"


def leak_of(draft: Draft) -> Leak:
    """What the words of the kept trace show, the worse of its two sections. Raises ValueError for a draft without."""
    if draft.best is None:
        raise ValueError(f"{draft.id}: RejectLeaks needs a verified trace")
    response = parse_response(draft.traces[draft.best].text)
    found = (
        find_leak_in_judge_section(response.judge or "", draft.question),
        find_leak(response.think or "", draft.question),
    )
    return min(found, key=lambda leak: ("leak", "open", "clean").index(leak.state))


def trace_key(draft: Draft) -> str | None:
    """The cache key of the teacher's reply that the draft's trace stands in."""
    return next((call.keys[0] for call in reversed(draft.calls) if call.role == "teacher"), None)


async def reject_leak(draft: Draft, session: Session, settings: LeakSettings, judged: bool) -> Draft:
    """The draft as it is. Raises :class:`Reject` for a leak."""
    leak = leak_of(draft)
    if leak.state == "leak":
        raise Reject(LEAK, f"the trace says {leak.said!r}", trace_key(draft))
    if not judged:
        if leak.state == "open":
            raise Reject(UNVERIFIABLE, f"nobody reads whether {leak.said!r} gives the answer away", trace_key(draft))
        return draft
    thought = parse_response(draft.traces[draft.best or 0].text).think or ""
    if not thought or (leak.state == "clean" and settings.ask == "open"):
        return draft
    question = draft.question
    texts = {"question": question_text(question), "answer": question.answer, "reasoning": thought}
    knew, reason = await ask_judge(JudgeTask(PROMPT, texts, true_or_false("knew", "knew: ")), session)
    if knew:
        raise Reject(LEAK, f"by the judge: {reason}", trace_key(draft))
    return draft


STAGE = Stage(
    "leak",
    "traces that quote the given answer, or start from it, are dropped",
    reasons={
        LEAK: "the trace shows that its writer was told the answer",
        UNVERIFIABLE: "its words leave that open, and no judge reads them",
    },
    asks=(Asks("judge", (PROMPT,), required=False, all_media=False),),
    settings=LeakSettings,
)


@dataclass
class RejectLeaks(CallingStage):
    """Lets traces without a leak pass; see the module."""

    settings: LeakSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """See :func:`reject_leak`."""
        return partial(reject_leak, settings=self.settings, judged=self.models.judges_text)
