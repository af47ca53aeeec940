"""Proposals (Argos §4.1, App. C.1, Fig. 5): the visible things that question, gold answer and a rollout speak of.

In: drafts with attempts. Out: drafts with 1 to ``max_entities`` entities, or a rejection. The initial rollout of the
paper is the first right attempt of the policy, or its first one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.grounding import BadReply, json_object
from inference.repair import ask_for
from inference.request import Sampling
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from schemas.messages import media_part
from schemas.reasons import Reason
from schemas.records import Draft, Rejected
from stages.calling import CallModels, Session, reject, split, with_calls
from stages.spreading import SpreadDrafts

STAGE = "propose"
PROMPT = "propose.v1"
MAX_ENTITY_CHARS = 120
MAX_ROLLOUT_CHARS = 8000


@dataclass(frozen=True)
class ProposeSettings:
    """``max_entities`` as in the paper: at most 10."""

    max_entities: int = 10
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.max_entities < 1:
            raise ValueError("propose.max_entities must be at least 1")


def entities_of_reply(text: str, max_entities: int) -> tuple[str, ...]:
    """The entities in order, each once, at most ``max_entities``. Raises BadReply when the form is wrong."""
    names = json_object(text).get("entities")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadReply(f"entities: expected a list of phrases, got {names!r:.80}")
    cleaned = (" ".join(name.split())[:MAX_ENTITY_CHARS] for name in names)
    return tuple(dict.fromkeys(name for name in cleaned if name))[:max_entities]


async def propose(draft: Draft, session: Session, settings: ProposeSettings) -> Draft | Rejected:
    """Ask the teacher what to point at."""
    rollout = next((attempt for attempt in draft.attempts if attempt.correct), draft.attempts[0])
    prompt = load_prompt(PROMPT).render(
        {"original": [media_part(medium) for medium in draft.question.media]},
        question=draft.question.question,
        answer=draft.question.answer,
        rollout=rollout.text[:MAX_ROLLOUT_CHARS],
        max_entities=str(settings.max_entities),
    )
    entities, answered = await ask_for(
        session,
        "teacher",
        prompt,
        Sampling(max_tokens=settings.max_tokens),
        lambda reply: entities_of_reply(reply.text, settings.max_entities),
    )
    if not entities:
        detail = "the teacher named no visible thing"
        return reject(draft, STAGE, Reason.NO_ENTITIES, detail, session.calls, answered.call.keys[0])
    return with_calls(draft, session, entities=entities)


@dataclass
class ProposeEntities(beam.PTransform):
    """Name what to point at; see the module."""

    settings: ProposeSettings
    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        calls = CallModels(STAGE, partial(propose, settings=self.settings), self.models)
        return split(drafts | SpreadDrafts(), "Call", calls)
