"""Pointing (Argos §4.1): the 2D points of every entity in every medium, by the pointer.

In: drafts with entities. Out: drafts with points in original pixels, or a rejection. An entity that is in no picture
has no points; the points of a draft are numbered from 1 in the order in which they stand.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.grounding import BadReply, points_of_reply
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
    media = draft.question.media
    asked = [(entity, index) for index in range(len(media)) for entity in draft.entities]
    prompt = load_prompt(PROMPT)
    answers = await asyncio.gather(
        *(
            session.generate("pointer", prompt.render({"original": [media_part(media[index])]}, entity=entity), _EXACT)
            for entity, index in asked
        ),
        return_exceptions=True,
    )
    found: list[Point] = []
    calls = []
    for (entity, index), answered in zip(asked, answers, strict=True):
        if isinstance(answered, BaseException):
            raise answered
        calls.append(answered.call)
        try:
            found.extend(points_of_reply(answered.text, entity, answered.frame, media[index], index))
        except BadReply as error:
            error.key = answered.call.keys[0]
            raise
    session.calls[:] = calls  # in the order asked, not of arrival, so that the lineage is the same in every run
    return with_calls(draft, session, points=tuple(dict.fromkeys(found)))


@dataclass
class PointEntities(beam.PTransform):
    """Point at every entity; see the module."""

    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        return split(drafts, "Call", CallModels(STAGE, point, self.models))
