"""The spatial reward: do the points lie on the objects that they name (Argos §3.1, Eq. 1–3)?

For each label :mod:`rewards.locating` finds the masks of its instances (Eq. 1); a point scores 1 when it lies in one of
the masks of its label (Eq. 2), and the reward is the mean over the points (Eq. 3). Each point is checked by itself, so
that the order of points changes nothing.
"""

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from inference.grounding import BadReply
from rewards import locating
from rewards.case import Case
from rewards.locating import ObjectMasks, find_instances
from rewards.scorer import LOCATABLE, NO_CLIPS, Scorer
from schemas.geometry import Point
from schemas.records import Verdict

NAME = "spatial"


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


async def view_points(points: Sequence[Point], masks: ObjectMasks) -> tuple[PointView, ...]:
    """Eq. 2 for each point. Raises BadReply, which names the label, when one cannot be looked for."""
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
        return Verdict(NAME, None, str(error), failed=True)
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


async def _score(case: Case) -> Verdict:
    return await score_spatial(case.points, case.pointable, case.masks)


SCORER = Scorer(
    NAME,
    "the response points, or should",
    _score,
    needs=(NO_CLIPS, LOCATABLE, (lambda case: bool(case.points) or case.pointable, "nothing to point at")),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
