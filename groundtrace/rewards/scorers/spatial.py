"""The spatial reward: do the points lie on the objects that they name (Argos §3.1, Eq. 1–3)?

For each label :mod:`groundtrace.rewards.locating` finds the masks of its instances (Eq. 1); a point is on its object
when it lies in one of the masks of its label (Eq. 2). Eq. 3 is the mean over the points.

Deviations, so that a response earns by looking at what it was asked about, and by nothing else:

- a point on its object is right where that object is a target (:mod:`groundtrace.rewards.targets`); each target counts
  once, in however many points, under however many labels, of a clip in however many frames. A point on another object
  is
  neutral: it neither helps nor hurts. A point off its object is wrong, each of them;
- a label that does not name the targets ("object", where black circles are asked for) claims all that it is put on:
  points under such labels that lie on other objects are wrong, or all points under such labels are neutral, whichever
  earns more. So pointing at everything does not earn what pointing at the targets does. In clips such points on other
  objects are neutral (:func:`point_checker`);
- of the right and the wrong ones the value is made by :func:`groundtrace.rewards.pointing_score.pointing_score`, whose
  first factor is Eq. 3; it goes below 0 where all points are wrong, and is 0 for a response that does not point where
  there are targets;
- without targets the scorer is not applicable, unless a point is wrong. Where nothing tells whether there are targets,
  a response that points at nothing of what the question speaks of has failed to be checked.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply, Mask
from groundtrace.rewards import locating
from groundtrace.rewards.case import Case
from groundtrace.rewards.locating import ObjectMasks
from groundtrace.rewards.masks import distinct, on_pixels
from groundtrace.rewards.pointing_score import Pointed, pointing_score
from groundtrace.rewards.scorer import LOCATABLE, NO_CLIPS, Scorer
from groundtrace.rewards.targets import Targets, fits_target, is_a_count, is_target, lies_on, names_target, targets_of
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.label_parts import thing_of
from groundtrace.schemas.labels import is_counted, own_words, plain_label
from groundtrace.schemas.records import Verdict

NAME = "spatial"


@dataclass(frozen=True)
class PointView:
    """What the verifier saw of one point of a response.

    ``number`` counts from 1 in the response; ``x``, ``y`` are pixels of the original. ``on`` is s_i of Eq. 2,
    ``instance`` the index among its label's ``instances`` of the one that it lies on (the smallest of several). ``by``
    and ``note`` are those of :class:`groundtrace.rewards.locating.Instances`.
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
        """The view as a JSON object, for :attr:`groundtrace.schemas.records.Verdict.evidence`."""
        return json.dumps(vars(self), ensure_ascii=False, separators=(",", ":"))


async def view_point(number: int, point: Point, masks: ObjectMasks) -> tuple[PointView, Mask | None]:
    """Returns Eq. 2 for a point, and the mask that it lies on. Raises CallError and BadReply as
    :meth:`groundtrace.rewards.locating.ObjectMasks.of` does.
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
    """Returns the value of the points of one response, with one :class:`PointView` per distinct point as evidence.

    A label that is not detected or cannot be looked for makes its points wrong. A server that does not answer, or not
    in a form that can be read, fails the verdict.
    """
    views, tally = list[PointView](), _Tally()
    first = {replace(point, label=plain_label(point.label)): n for n, point in reversed([*enumerate(case.points, 1)])}
    about = "what the question speaks of"
    try:
        targets = await targets_of(case)
        for point, number in sorted(first.items(), key=lambda each: each[1]):
            about = repr(point.label)
            view, mask = await view_point(number, point, case.masks)
            views.append(view)
            if mask is None:
                continue
            await tally.add(point, mask, case, targets)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"{about}: {error}", failed=True)
    return _verdict(case, targets, tally, views)


Masks = dict[tuple[int, int | None], list[Mask]]
"""Masks by medium and frame."""


@dataclass
class _Tally:
    """What the points of a response lie on.

    Attributes:
        named: targets, under labels that name them.
        claimed: targets, under labels that do not ("object").
        mistaken: other objects, under labels that fit a target too.
        neutral: how many points lie on other objects.
    """

    named: Masks = field(default_factory=dict)
    claimed: Masks = field(default_factory=dict)
    mistaken: Masks = field(default_factory=dict)
    neutral: int = 0

    async def add(self, point: Point, mask: Mask, case: Case, targets: Targets) -> None:
        """Counts a point that lies on an object of its label. Raises CallError and BadReply."""
        place = point.media_index, point.frame
        if targets.exist is not False and await is_target(point, case, targets):
            held = self.named if await names_target(point, case, targets) else self.claimed
            held.setdefault(place, []).append(mask)
            return
        self.neutral += 1
        if targets.exist is not False and await fits_target(point, case, targets):
            self.mistaken.setdefault(place, []).append(mask)

    @property
    def found(self) -> int:
        """How many targets are pointed at, under whatever label."""
        return _count(self.named, self.claimed)

    def readings(self, off: int, number: int | None) -> tuple[Pointed, Pointed]:
        """What the points come to where labels that do not name the targets claim them, and where they do not."""
        claim = Pointed.within(self.found, off + _count(self.mistaken), number)
        return claim, Pointed.within(_count(self.named), off, number)


def _count(*masks: Masks) -> int:
    """How many distinct objects there are."""
    places = {place for each in masks for place in each}
    return sum(len(distinct([mask for each in masks for mask in each.get(place, ())])) for place in places)


def _verdict(case: Case, targets: Targets, tally: _Tally, views: Sequence[PointView]) -> Verdict:
    """The verdict on the points that lie on objects, beside those off their objects."""
    off, evidence = [_fault(view) for view in views if not view.on], tuple(view.evidence for view in views)
    if not tally.found and not off and not targets.exist:
        lacking = targets.reason or "nothing to point at"
        return Verdict(NAME, None, lacking, evidence, failed=targets.exist is None)
    if not views:
        return Verdict(NAME, 0.0, "no point, though there is something to point at")
    pointed = max(tally.readings(len(off), targets.number), key=lambda each: pointing_score(each, case.pointing))
    of_all = "" if targets.number is None else f" of {targets.number}"
    said = f"{pointed.right}{of_all} targets pointed at, {len(off)} points off their objects{_listed(off)}"
    if pointed.wrong > len(off):
        said += f"; {pointed.wrong - len(off)} objects more are pointed at as targets than are targets"
    elif tally.neutral:
        said += f"; {tally.neutral} points on what the question does not ask about"
    notes = dict.fromkeys(f"; {view.by}: {view.note}" for view in views if view.by and view.note)
    return Verdict(NAME, pointing_score(pointed, case.pointing), said + "".join(notes), evidence)


def point_checker(case: Case, media_index: int, targets: Targets) -> Callable[[Point], Awaitable[bool | None]]:
    """Returns the check of single points of the clip that is medium ``media_index``, as
    :mod:`groundtrace.rewards.scorers.temporal` asks for it.

    It gives True for a point on one more target, False for one off its object, and None for a neutral one. Nothing
    tells that the dog of one frame is another dog than that of the next: of a kind of things there are as many targets
    as are pointed at in the frame with most of them. Labels are of one kind where their words may name the same things,
    wherever these are and however many, and where a point of the one lies on an instance of the other. The check raises
    CallError and BadReply as :func:`view_point` does.
    """
    seen: dict[str, dict[int | None, tuple[Mask, ...]]] = {}
    one_by_one = asyncio.Lock()

    async def on_target(point: Point) -> bool | None:
        point = replace(point, media_index=media_index)
        _, mask = await view_point(1, point, case.masks)
        if mask is None:
            return False
        if targets.exist is False or not await is_target(point, case, targets):
            return None
        async with one_by_one:
            frames = seen.setdefault(await _kind(point, tuple(seen), case), {})
            most = max(map(len, frames.values()), default=0)
            frames[point.frame] = distinct((*frames.get(point.frame, ()), mask))
            return True if len(frames[point.frame]) > most else None

    return on_target


async def _kind(point: Point, kinds: Sequence[str], case: Case) -> str:
    """Which of the kinds the point's object is of, its own where it is of none: "dog" and "brown dog" may be one
    animal, and so may "dog" and the "animal" that lies there.
    """
    own = thing_of(plain_label(point.label))
    for kind in kinds:
        if is_counted(own, own_words(kind)) or await lies_on((kind,), point, case):
            return kind
    return own


def _fault(view: PointView) -> str:
    where = f"on medium {view.media_index}" + ("" if view.frame is None else f", frame {view.frame}")
    if not view.by:
        return f"{view.label!r:.60} {where}: {view.note}"
    return f"{view.label!r} at ({view.x:g}, {view.y:g}) {'off its object' if view.instances else 'not detected'}"


def _listed(off: list[str]) -> str:
    return f"; {', '.join(off[:5])}" + (" and more" if len(off) > 5 else "") if off else ""


def _may_have_targets(case: Case) -> bool:
    """A response that need not reason need not point either, unless the pointer found something."""
    if case.points or case.pointable:
        return True
    return case.form.points and case.form.reasoning and (case.entities is None or is_a_count(case))


SCORER = Scorer(
    NAME,
    "the response points, or should",
    score_spatial,
    needs=(NO_CLIPS, (_may_have_targets, "nothing to point at")),
    means=(LOCATABLE,),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
