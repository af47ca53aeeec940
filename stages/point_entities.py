"""Points at entities, i.e. visible things (Argos §4.1): finds the 2D points of every entity in every image and clip.

The inputs are drafts (questions with their data) that have entities. The outputs are the same drafts with points, in
pixels of the upright original image or frame. A draft is rejected if a call failed.

The pointer (the model that points at objects) is called for each entity in each image. For a clip, it is called for
some evenly spread frames, and each point holds the number and the time of its frame. An entity that is in no image has
no points. Later stages number the points by their order, from 1. In clips, all points of one object have the same
number (:func:`groundtrace.stages.draw_overlays.mark_numbers`).
"""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from groundtrace.grading.messages import media_part
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.pointing import points_of
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.ordering import thinned
from groundtrace.schemas.records import Draft, FrameRef, MediaRef
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.vision.clips import VideoSettings

_EXACT = Sampling(max_tokens=2048)


async def point(draft: Draft, session: Session, video: VideoSettings) -> Draft:
    """Let the pointer (a model that points at objects) find every entity in every image, and return the draft (a
    question with its data) with the points.

    An entity is a phrase for a visible thing. ``session`` makes the calls; all of them are sent at the same time.
    ``video`` holds the number of a clip's frames that the pointer sees.
    """
    asked = [
        (entity, medium, index, frame)
        for index, medium in enumerate(draft.question.media)
        for frame in thinned(medium.frames, video.pointed_frames) or (None,)
        for entity in draft.entities or ()
    ]
    sessions = [Session(session.models) for _ in asked]
    answers = await asyncio.gather(
        *(_point_at(*one, session=own) for one, own in zip(asked, sessions, strict=True)), return_exceptions=True
    )
    # In the order of the requests, not of the replies, so that the lineage is the same in every run.
    session.calls.extend(call for own in sessions for call in own.calls)
    found: list[Point] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found.extend(answer)
    return replace(draft, points=tuple(dict.fromkeys(found)))


async def _point_at(
    entity: str, medium: MediaRef, index: int, frame: FrameRef | None, session: Session
) -> tuple[Point, ...]:
    image = media_part(frame or medium)
    points = (await points_of(session, "pointer", entity, image, medium, index, _EXACT)).found
    if frame is None:
        return points
    return tuple(replace(point, frame=frame.number, t_s=frame.t_s) for point in points)


STAGE = Stage("point", "the pointer locates it", asks=(Asks("pointer", (PLAIN.point_prompt,), all_media=False),))


@dataclass
class PointEntities(CallingStage):
    """Stage (pipeline step) that finds the points of every entity (phrase for a visible thing) of a draft (a question
    with its data) in the draft's images and clips.

    ``models`` holds the settings of the run's models, and ``video`` the number of a clip's frames that the pointer
    sees.
    """

    models: ModelsSettings
    video: VideoSettings = field(default_factory=VideoSettings)
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the pointer, a model
        that points at objects, find the points of every entity (visible thing) (:func:`point`).
        """
        return partial(point, video=self.video)
