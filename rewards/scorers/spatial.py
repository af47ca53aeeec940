"""The spatial reward: do the points lie on the objects that they name (Argos §3.1, Eq. 1–3)?

For each label :mod:`rewards.locating` finds the masks of its instances (Eq. 1); a point scores 1 when it lies in one of
the masks of its label (Eq. 2), and the reward is the mean over the points (Eq. 3).

Deviations, so that points only pay where they show that the response looked at what it was asked about:

- each object votes once: points that are repeated, and several points on one object, are one vote of the mean. A point
  off its object votes for itself;
- a point on its object votes only where that object matters: the question, its answer or the proposed entities name it
  (:func:`schemas.labels.is_named`), or the point lies on an instance of a proposed entity. Where no point does, the
  score is 0;
- without points (Eq. 3 leaves it open) the score is 0 where the pointer found something that the question speaks of,
  else the scorer is not applicable.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from inference.errors import CallError
from inference.grounding import BadReply, Mask
from rewards import locating
from rewards.case import Case
from rewards.locating import ObjectMasks
from rewards.masks import distinct, on_pixels
from rewards.scorer import LOCATABLE, NO_CLIPS, Scorer
from schemas.geometry import Point
from schemas.labels import is_named, plain_label
from schemas.records import Verdict

NAME = "spatial"


@dataclass(frozen=True)
class PointView:
    """What the verifier saw of one point of a response.

    ``number`` counts from 1 in the response; ``x``, ``y`` are pixels of the original. ``on`` is s_i of Eq. 2,
    ``instance`` the index among its label's ``instances`` of the one that it lies on (the smallest of several). ``by``
    and ``note`` are those of :class:`rewards.locating.Instances`.
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


async def view_point(number: int, point: Point, masks: ObjectMasks) -> tuple[PointView, Mask | None]:
    """Returns Eq. 2 for a point, and the mask that it lies on. Raises CallError and BadReply as
    :meth:`rewards.locating.ObjectMasks.of` does.
    """
    place = (number, point.label, point.x, point.y, point.media_index, point.frame)
    if masks.part_of(point.media_index, point.frame) is None:
        return PointView(*place, False, None, 0, "", "no such image"), None
    found = await masks.of(point.label, point.media_index, point.frame)
    instance = _smallest_under(point, found.masks, masks)
    on = None if instance is None else found.masks[instance]
    return PointView(*place, on is not None, instance, len(found.masks), found.by, found.note), on


def _smallest_under(point: Point, found: Sequence[Mask], masks: ObjectMasks) -> int | None:
    """The index of the smallest mask that holds the point."""
    medium = masks.question.media[point.media_index]
    x, y = on_pixels(point.x, medium.width), on_pixels(point.y, medium.height)
    holding = [index for index, mask in enumerate(found) if mask.holds(x, y)]
    return min(holding, key=lambda index: int(found[index].pixels.sum()), default=None)


async def score_spatial(case: Case) -> Verdict:
    """Returns Eq. 3 over the points of one response, with one :class:`PointView` per distinct point as evidence.

    A label that is not detected or cannot be looked for scores its points 0. A server that does not answer, or not in a
    form that can be read, fails the verdict.
    """
    if not case.points:
        return Verdict(NAME, 0.0, "no point, though the pointer found what the question speaks of")
    views, voted, idle = list[PointView](), dict[tuple[int, int | None], list[Mask]](), 0
    first = {replace(point, label=plain_label(point.label)): n for n, point in reversed([*enumerate(case.points, 1)])}
    try:
        for point, number in sorted(first.items(), key=lambda each: each[1]):
            view, mask = await view_point(number, point, case.masks)
            views.append(view)
            if mask is None:
                continue
            if not await _matters(point, case):
                idle += 1
                continue
            voted.setdefault((point.media_index, point.frame), []).append(mask)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"{point.label!r}: {error}", failed=True)
    off = [_fault(view) for view in views if not view.on]
    on = sum(len(distinct(masks)) for masks in voted.values())
    notes = dict.fromkeys(f"; {view.by}: {view.note}" for view in views if view.by and view.note)
    said = f"{on} objects pointed at, {len(off)} points off their objects{_listed(off)}{''.join(notes)}"
    if idle:
        said += f"; {idle} points on what the question does not speak of"
    evidence = tuple(view.evidence for view in views)
    return Verdict(NAME, on / (on + len(off)) if on else 0.0, said, evidence)


async def _matters(point: Point, case: Case) -> bool:
    """Whether question, answer or proposals name what is pointed at, or the point lies on what they name."""
    question = case.question
    texts = (question.question, question.answer, *(question.choices or ()))
    if is_named(point.label, texts, case.entities):
        return True
    for entity in case.entities:
        found = await case.masks.of(entity, point.media_index, point.frame)
        if _smallest_under(point, found.masks, case.masks) is not None:
            return True
    return False


def point_checker(case: Case, media_index: int) -> Callable[[Point], Awaitable[bool | None]]:
    """Returns Eq. 2 for single points of the clip that is medium ``media_index``, as :mod:`rewards.scorers.temporal`
    asks for it.

    What it gives is None for a point without a vote: on an object of its frame that has voted, or on one that the
    question does not speak of. It raises CallError and BadReply as :func:`view_point` does.
    """
    voted: dict[int | None, tuple[Mask, ...]] = {}

    async def on_object(point: Point) -> bool | None:
        point = replace(point, media_index=media_index)
        _, mask = await view_point(1, point, case.masks)
        if mask is None:
            return False
        if not await _matters(point, case):
            return None
        known = voted.get(point.frame, ())
        voted[point.frame] = distinct((*known, mask))
        return True if len(voted[point.frame]) > len(known) else None

    return on_object


def _fault(view: PointView) -> str:
    where = f"on medium {view.media_index}" + ("" if view.frame is None else f", frame {view.frame}")
    if not view.by:
        return f"{view.label!r:.60} {where}: {view.note}"
    return f"{view.label!r} at ({view.x:g}, {view.y:g}) {'off its object' if view.instances else 'not detected'}"


def _listed(off: list[str]) -> str:
    return f"; {', '.join(off[:5])}" + (" and more" if len(off) > 5 else "") if off else ""


SCORER = Scorer(
    NAME,
    "the response points, or should",
    score_spatial,
    needs=(NO_CLIPS, (lambda case: bool(case.points) or bool(case.pointable), "nothing to point at")),
    means=(LOCATABLE,),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
