"""The spatial reward: do the points lie on the objects that they name (Argos §3.1, Eq. 1–3)?

For each label a detector gives boxes, a segmenter the mask in each box (Eq. 1); a point scores 1 when it lies in one
of the masks of its label (Eq. 2), and the reward is the mean over the points (Eq. 3). On synthetic pictures, and where
the detector fails, a pointing model's points go to the segmenter in place of boxes (paper, before Eq. 3).

Deviations: the paper takes one box per point; a label with several instances has several boxes here, and any of their
masks will do. A pointer that also made the points under verification would confirm itself, so verdicts say when it did.
"""

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from inference.errors import CallError
from inference.grounding import BadReply, Mask, masks_of_reply
from inference.models import Caller
from inference.repair import ask_for
from inference.request import Sampling
from prompts.loader import load_prompt
from rewards.selection import Served
from schemas.coordinates import CoordinateFrame
from schemas.geometry import Point
from schemas.messages import MediaPart, media_part
from schemas.records import MediaRef, Question, Verdict

NAME = "spatial"
SEGMENT_PROMPT, SEGMENT_POINTS_PROMPT = "segment.v1", "segment_points.v1"
_EXACT = Sampling(max_tokens=16384)


def box_order(frame: CoordinateFrame) -> str:
    """How a model that speaks ``frame`` is asked to write a box (:mod:`schemas.coordinates`)."""
    return "[y1, x1, y2, x2]" if frame is CoordinateFrame.GEMINI else "[x1, y1, x2, y2]"


@dataclass(frozen=True)
class Instances:
    """The instances of a label in one picture. ``by`` is the role that found them, ``note`` why that one where it
    needs saying."""

    masks: tuple[Mask, ...]
    by: str
    note: str = ""


@dataclass(frozen=True)
class PointView:
    """What the verifier saw of one point of a response.

    ``number`` counts from 1 in the response; ``x``, ``y`` are pixels of the original. ``on`` is s_i of Eq. 2,
    ``instance`` the index among its label's ``instances`` of the one that it lies on (the smallest of several). ``by``
    and ``note`` are those of :class:`Instances`.
    """

    number: int
    label: str
    x: float
    y: float
    media_index: int
    frame: int | None
    on: bool
    instance: int | None
    instances: int
    by: str
    note: str = ""

    @property
    def evidence(self) -> str:
        """The view as a JSON object, for :attr:`schemas.records.Verdict.evidence`."""
        return json.dumps(vars(self), ensure_ascii=False, separators=(",", ":"))


@dataclass
class ObjectMasks:
    """The masks of labels in one question's media; each label of a picture is looked for once."""

    question: Question
    caller: Caller
    served: Served
    _found: dict[tuple[int, int | None, str], Instances] = field(default_factory=dict)

    async def of(self, label: str, media_index: int, frame: int | None = None) -> Instances:
        """Every instance of the label in an image, or in a frame of a clip. Raises CallError and BadReply."""
        key = (media_index, frame, " ".join(label.casefold().split()))
        if key not in self._found:
            self._found[key] = await self._look_for(key[2], media_index, frame)
        return self._found[key]

    def part_of(self, media_index: int, frame: int | None) -> MediaPart | None:
        """The picture that a point speaks of; None where the question has no such medium or frame."""
        if not 0 <= media_index < len(self.question.media):
            return None
        medium = self.question.media[media_index]
        if not medium.frames:
            return media_part(medium) if frame is None else None
        shown = None if frame is None else medium.frame(frame)
        return None if shown is None else media_part(shown)

    async def _look_for(self, label: str, media_index: int, frame: int | None) -> Instances:
        """By the first locator that gives a readable reply; what failed before it is noted."""
        picture, medium = self.part_of(media_index, frame), self.question.media[media_index]
        assert picture is not None
        synthetic = self.question.source in self.served.synthetic_sources
        note = f"{self.question.source} holds synthetic pictures" if synthetic else ""
        failed: CallError | BadReply | None = None
        for role in self.served.locators(self.question.source):
            find = self._by_detector if role == "detector" else self._by_pointer
            try:
                masks = await find(label, picture, medium)
            except (CallError, BadReply) as error:
                failed = failed or error
                continue
            if failed is not None and not masks:
                # The pointer's "none" says nothing of a label that the detector does not know.
                break
            if failed is not None:
                note = f"the detector failed: {failed}"
            if role == "pointer" and self.served.own_pointer:
                note += "; by the endpoint that placed these points"
            return Instances(tuple(mask for mask in masks if mask.pixels.any()), role, note)
        raise failed or BadReply("no endpoint is configured to look for it")

    async def _by_detector(self, label: str, picture: MediaPart, medium: MediaRef) -> tuple[Mask, ...]:
        family = self.caller.family("detector")
        prompt = load_prompt(family.box_prompt).render(
            {"original": [picture]}, label=label, box_order=box_order(self.served.detector_frame)
        )
        boxes, _ = await ask_for(
            self.caller,
            "detector",
            prompt,
            _EXACT,
            lambda reply: family.boxes(reply.text, label, medium, 0),
        )
        listed = [[box.x1, box.y1, box.x2, box.y2] for box in boxes]
        return await self._segmented(SEGMENT_PROMPT, "boxes", listed, picture, medium)

    async def _by_pointer(self, label: str, picture: MediaPart, medium: MediaRef) -> tuple[Mask, ...]:
        family = self.caller.family("pointer")
        points, _ = await ask_for(
            self.caller,
            "pointer",
            load_prompt(family.point_prompt).render({"original": [picture]}, entity=label),
            _EXACT,
            lambda reply: family.points(reply.text, label, medium, 0),
        )
        listed = [[point.x, point.y] for point in points]
        return await self._segmented(SEGMENT_POINTS_PROMPT, "points", listed, picture, medium)

    async def _segmented(
        self, prompt: str, variable: str, places: Sequence[list[float]], picture: MediaPart, medium: MediaRef
    ) -> tuple[Mask, ...]:
        if not places:
            return ()
        masks, _ = await ask_for(
            self.caller,
            "segmenter",
            load_prompt(prompt).render({"original": [picture]}, **{variable: json.dumps(places)}),
            _EXACT,
            lambda reply: masks_of_reply(reply.text, len(places), medium),
        )
        return masks


async def find_instances(label: str, masks: ObjectMasks, media_index: int, frame: int | None = None) -> Instances:
    """:meth:`ObjectMasks.of`; raises BadReply, with the label said, for a failed call too."""
    try:
        return await masks.of(label, media_index, frame)
    except (CallError, BadReply) as error:
        raise BadReply(f"{label!r}: {error}") from error


async def view_points(points: Sequence[Point], masks: ObjectMasks) -> tuple[PointView, ...]:
    """Eq. 2 for each point. Raises BadReply, with the label said, when one cannot be looked for."""
    views = []
    for number, point in enumerate(points, 1):
        place = (number, point.label, point.x, point.y, point.media_index, point.frame)
        if masks.part_of(point.media_index, point.frame) is None:
            views.append(PointView(*place, False, None, 0, "", "no such picture"))
            continue
        found = await find_instances(point.label, masks, point.media_index, point.frame)
        medium = masks.question.media[point.media_index]
        x, y = _within(point.x, medium.width), _within(point.y, medium.height)
        holding = [index for index, mask in enumerate(found.masks) if mask.holds(x, y)]
        instance = min(holding, key=lambda index: int(found.masks[index].pixels.sum()), default=None)
        views.append(PointView(*place, bool(holding), instance, len(found.masks), found.by, found.note))
    return tuple(views)


def _within(value_px: float, side_px: int) -> float:
    """A position on the far edge counts to the last pixel: the top of a model's frame lands there."""
    return math.nextafter(side_px, 0) if value_px == side_px else value_px


async def score_spatial(points: tuple[Point, ...], pointer_found_any: bool, masks: ObjectMasks) -> Verdict:
    """Eq. 3 over the points of one response, with one :class:`PointView` per point as evidence.

    Without points: 0 when the pointer found an entity of the question, else unscored (there is nothing to point at). A
    label that is not detected scores its points 0. A failed detector or segmenter leaves the response unscored.
    """
    if not points:
        if pointer_found_any:
            return Verdict(NAME, 0.0, "no point, though the pointer found what the question speaks of")
        return Verdict(NAME, None, "nothing to point at")
    try:
        views = await view_points(points, masks)
    except BadReply as error:
        return Verdict(NAME, None, str(error))
    off = [_fault(view) for view in views if not view.on]
    notes = dict.fromkeys(f"; {view.by}: {view.note}" for view in views if view.by and view.note)
    said = f"{len(views) - len(off)} of {len(views)} on their objects{_listed(off)}{''.join(notes)}"
    return Verdict(NAME, 1 - len(off) / len(views), said, tuple(view.evidence for view in views))


def point_checker(masks: ObjectMasks, media_index: int) -> Callable[[Point], Awaitable[bool]]:
    """Eq. 2 for single points of the clip that is medium ``media_index``, as :mod:`rewards.scorers.temporal` asks for
    it.

    What it gives raises BadReply where the detector or the segmenter fails.
    """

    async def on_object(point: Point) -> bool:
        (view,) = await view_points((replace(point, media_index=media_index),), masks)
        return view.on

    return on_object


def _fault(view: PointView) -> str:
    if not view.by:
        frame = "" if view.frame is None else f", frame {view.frame}"
        return f"{view.label!r} on medium {view.media_index}{frame}"
    return f"{view.label!r} at ({view.x:g}, {view.y:g}) {'off its object' if view.instances else 'not detected'}"


def _listed(off: list[str]) -> str:
    return f"; {', '.join(off[:5])}" + (" and more" if len(off) > 5 else "") if off else ""
