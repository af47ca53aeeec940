"""Finds the objects of a label in a question's images: the masks against which points are checked (Argos Eq. 1).

A detector finds the boxes of a label, and a segmenter finds the mask in each box. In two cases the pointer, a model
that points at objects, replaces the detector: for synthetic images, and for labels that the detector does not know or
refuses. In these cases, the segmenter gets points instead of boxes (Argos, before Eq. 3).

A label has no instances if it does not name an object. It also has no instances if the detector does not know it or
refuses it, and the pointer finds nothing for it. A label without instances is a fault of the response, and the points
with this label are wrong. If a call fails for any other reason, or if a reply is empty or cannot be parsed, the points
cannot be checked, and an error is raised.

Deviations: the paper uses one box per point; here a label with several instances has several boxes, and a point may be
on any of their masks. A box over nearly the whole image is ignored, since any point would be inside it. The pointer can
be the same model that made the points. In this case, the check is not independent, and the verdict mentions this.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from groundtrace.grading.messages import MediaPart, media_part
from groundtrace.inference.caller import Caller
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import BadReply, Mask, ParsedPointing, masks_of_reply
from groundtrace.inference.pointing import boxes_of, points_of
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.labels import label_fault, plain_label
from groundtrace.schemas.records import MediaRef, Question

SEGMENT_PROMPT, SEGMENT_POINTS_PROMPT = "segment.v1", "segment_points.v1"
ASKS = (
    Asks("detector", (PLAIN.box_prompt,), required=False, all_media=False),
    Asks("pointer", (PLAIN.point_prompt,), required=False, all_media=False),
    Asks("segmenter", (SEGMENT_PROMPT, SEGMENT_POINTS_PROMPT), required=False, all_media=False),
)
"""The roles that are called to find objects. No role is required: without them, points are not checked."""
MAX_COVER = 0.9
"""A box that covers a larger share of the image is ignored."""
BOXES_FOR_MASKS = "boxes replace masks: no segmenter"
_EXACT = Sampling(max_tokens=16384)


@dataclass(frozen=True)
class ServedRoles:
    """Holds the model roles that have endpoints in a run, and facts about these roles for the scorers (checks of
    responses).

    Attributes:
        roles: the roles that have endpoints, such as ``judge`` and ``detector``.
        own_pointer: whether the endpoint of the pointer (the model that points at objects) also made the points that
            are verified. If so, the verdict mentions this.
        synthetic_sources: the values of ``Question.source`` whose images are synthetic, such as drawn charts and maps.
    """

    roles: frozenset[str] = frozenset()
    own_pointer: bool = True
    synthetic_sources: frozenset[str] = frozenset()

    def locators(self, source: str) -> tuple[str, ...]:
        """Return the roles that can find the objects of a label in an image, in the order in which they are tried.

        ``source`` is the name of the data set that the image is from. The rules are:

        - The first role is the detector, and the second is the pointer (the model that points at objects). Synthetic
          images are an exception: for them, the pointer is the first and only role (Argos §3.1).
        - If the first role has no endpoint, the result is (). If only the second has no endpoint, it is left out.
        - If the segmenter has no endpoint, the pointer is left out, since no mask can be made from a point. So for
          synthetic images the result is (). For other images only the detector is left, and its boxes replace masks.
        """
        roles = ("pointer",) if source in self.synthetic_sources else ("detector", "pointer")
        if roles[0] not in self.roles:
            return ()
        return tuple(role for role in roles if role in self.roles and (self.has_segmenter or role == "detector"))

    @property
    def has_segmenter(self) -> bool:
        """Return whether the role segmenter has an endpoint. If it has none, boxes replace masks."""
        return "segmenter" in self.roles


def served_by(
    models: ModelsSettings, synthetic_sources: Sequence[str] = (), makers: Sequence[str] = ("pointer", "teacher")
) -> ServedRoles:
    """Return which model roles (such as detector or judge) have endpoints in a run, with facts that the scorers (checks
    of responses) need.

    Args:
        models: the settings of the run's models, with the endpoint of each role.
        synthetic_sources: the names of data sets with synthetic images, such as drawn charts and maps.
        makers: the roles that made the points to verify. The field ``own_pointer`` of the result is True if one of
            these roles has the same endpoint (model server) as the pointer, the model that points at objects.
    """
    roles = frozenset(role for role, _ in models.roles)
    made_by = {models.endpoint_name(role) for role in makers if role in roles}
    own = "pointer" in roles and models.endpoint_name("pointer") in made_by
    return ServedRoles(roles, own, frozenset(synthetic_sources))


@dataclass(frozen=True)
class Instances:
    """Holds the instances of a label in one image, which are the objects that the label names.

    Attributes:
        masks: the mask of each instance.
        by: the model role that searched for the instances, perhaps without finding any. The role ``detector`` searches
            first. If ``detector`` does not know the label or refuses it, the role ``pointer`` searches. For synthetic
            images, only ``pointer`` searches. ``by`` is "" in four cases: the label is invalid; no role can search;
            each role that is called does not know the label or refuses it; or ``pointer`` searches in place of
            ``detector`` and finds nothing.
        note: remarks on the search, for example why no role searched, or that boxes replace masks; "" if there are
            none.
    """

    masks: tuple[Mask, ...]
    by: str
    note: str = ""


@dataclass
class ObjectMasks:
    """Finds the masks of the objects that labels name in the images of one question, and remembers them.

    ``caller`` is the object with which the models are called. ``served`` holds the model roles (such as detector) that
    have endpoints.
    """

    question: Question
    caller: Caller
    served: ServedRoles
    _found: dict[tuple[int, int | None, str], Instances] = field(default_factory=dict)

    async def of(self, label: str, media_index: int, frame: int | None = None) -> Instances:
        """Return all objects that a label names in an image, or in a frame of a video clip.

        ``media_index`` is the index of the image or clip among the question's media. The result has no masks if the
        label does not name an object, or if no model finds an object of the label. If a model does not know the label,
        or refuses it (:func:`is_of_label`), this counts as finding no object.

        Raises CallError if a call fails for another reason, and BadReply if a reply cannot be parsed. Errors are not
        cached.
        """
        fault = label_fault(" ".join(label.split()))
        label = plain_label(label)
        if fault is not None:
            return Instances((), "", fault)
        key = (media_index, frame, label)
        if key not in self._found:
            self._found[key] = await self._look_for(label, media_index, frame)
        return self._found[key]

    def part_of(self, media_index: int, frame: int | None) -> MediaPart | None:
        """Return an image, or a frame of a video clip, in the form in which prompts contain it.

        ``media_index`` is the index of the image or clip among the question's media. ``frame`` is the number of the
        frame; None for an image. The result is None if the question has no such image or frame.
        """
        if not 0 <= media_index < len(self.question.media):
            return None
        medium = self.question.media[media_index]
        if not medium.frames:
            return media_part(medium) if frame is None else None
        shown = None if frame is None else medium.frame(frame)
        return None if shown is None else media_part(shown)

    async def _look_for(self, label: str, media_index: int, frame: int | None) -> Instances:
        """Find the objects with this label by a model: the detector, or the pointer for synthetic images.

        If the detector's call fails because of the label (:func:`is_of_label`), the pointer is called instead.
        Exception: the pointer does not replace the detector if the pointer's endpoint also made the points to verify.

        If the detector's call fails because of the label, the note of the result holds the error. If the pointer's call
        fails because of the label, the note does not hold the error. Any other error is raised, since a verdict must
        not depend on outages or on replies that cannot be parsed.
        """
        image, medium = self.part_of(media_index, frame), self.question.media[media_index]
        assert image is not None
        locators = self.served.locators(self.question.source)
        if not locators:
            return Instances((), "", "no endpoint is configured to look for it")
        first, *others = locators
        note = f"{self.question.source} holds synthetic images" if first == "pointer" else ""
        for role in (first, *(() if self.served.own_pointer else others)):
            try:
                located = await self._places(role, label, image, medium)
            except CallError as error:
                if not is_of_label(error):
                    raise
                note = note or f"the {role} cannot serve it: {error}"
                continue
            places = located.found
            if located.called:
                note += f"{'; ' if note else ''}the {role} calls it {located.called!r}"
            if role != first and not places:
                # If the pointer finds nothing either, this proves nothing about a label unknown to the detector.
                break
            if role == "pointer" and self.served.own_pointer:
                note += "; by the endpoint that placed these points"
            if role == "detector" and not self.served.has_segmenter:
                boxes = tuple(filled(place) for place in places if isinstance(place, Box))
                return Instances(boxes, role, f"{BOXES_FOR_MASKS}{note and f'; {note}'}")
            masks = await self._segmented(places, image, medium)
            return Instances(tuple(mask for mask in masks if mask.pixels.any()), role, note)
        return Instances((), "", note)

    async def _places(self, role: str, label: str, image: MediaPart, medium: MediaRef) -> ParsedPointing[Box | Point]:
        """Return the detector's boxes for the label if ``role`` is "detector", else the pointer's points for it.

        ``image`` is the image, or the frame of a video clip, that the model sees. ``medium`` is the image or clip that
        ``image`` is from.
        """
        if role == "detector":
            found = await boxes_of(self.caller, role, label, image, medium, 0, _EXACT)
            return ParsedPointing(tuple(box for box in found.found if not _is_whole(box, medium)), found.called)
        return await points_of(self.caller, role, label, image, medium, 0, _EXACT)

    async def _segmented(self, places: Sequence[Box | Point], image: MediaPart, medium: MediaRef) -> tuple[Mask, ...]:
        if not places:
            return ()
        boxes = [[place.x1, place.y1, place.x2, place.y2] for place in places if isinstance(place, Box)]
        points = [[place.x, place.y] for place in places if isinstance(place, Point)]
        name, variables = (SEGMENT_PROMPT, {"boxes": boxes}) if boxes else (SEGMENT_POINTS_PROMPT, {"points": points})
        masks, _ = await ask_for(
            self.caller,
            "segmenter",
            load_prompt(name).render(
                {"original": [image]}, **{key: json.dumps(value) for key, value in variables.items()}
            ),
            _EXACT,
            lambda reply: masks_of_reply(reply.text, len(places), medium),
        )
        return masks


def is_of_label(error: CallError | BadReply) -> bool:
    """Return whether a call failed because of the label: the model does not know the label, or refuses it.

    All other failures are due to the server, the config or the model. An empty reply is one of them: it does not mean
    that the label is wrong.
    """
    return isinstance(error, CallError) and error.failure in (Failure.UNKNOWN_LABEL, Failure.REFUSED)


def _is_whole(box: Box, medium: MediaRef) -> bool:
    return box.width * box.height > MAX_COVER * medium.width * medium.height


def filled(box: Box) -> Mask:
    """Return the box as a mask that contains each pixel that the box touches."""
    left, top = math.floor(box.x1), math.floor(box.y1)
    return Mask(left, top, np.ones((math.ceil(box.y2) - top, math.ceil(box.x2) - left), bool))
