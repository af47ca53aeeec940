"""Pointing (Argos §4.1): the 2D points of every entity in every medium, by the pointer.

In: drafts with entities. Out: drafts with points in original pixels, or a rejection. An entity that is in no picture
has no points; the points of a draft are numbered from 1 in the order in which they stand.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.grounding import points_of_reply
from inference.request import Sampling
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from schemas.geometry import Point
from schemas.messages import media_part
from schemas.records import Draft
from stages.calling import CallModels, Session, split, with_calls

STAGE = "point"
PROMPT = "point.v1"
_EXACT = Sampling(max_tokens=2048)


async def point(draft: Draft, session: Session) -> Draft:
    """Ask the pointer for every entity in every medium, all at once."""

    async def ask(entity: str, index: int) -> tuple[Point, ...]:
        medium = draft.question.media[index]
        prompt = load_prompt(PROMPT).render({"original": [media_part(medium)]}, entity=entity)
        answered = await session.models.generate("pointer", prompt, _EXACT)
        calls[entity, index] = answered.call
        return points_of_reply(answered.text, entity, answered.frame, medium, index)

    calls = {}
    asked = [(entity, index) for index in range(len(draft.question.media)) for entity in draft.entities]
    try:
        found = await asyncio.gather(*(ask(entity, index) for entity, index in asked))
    finally:
        session.calls.extend(calls[key] for key in asked if key in calls)
    points = tuple(dict.fromkeys(point for points in found for point in points))
    return with_calls(draft, session, points=points)


@dataclass
class PointEntities(beam.PTransform):
    """Point at every entity; see the module."""

    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        return split(drafts, "Call", CallModels(STAGE, point, self.models))
