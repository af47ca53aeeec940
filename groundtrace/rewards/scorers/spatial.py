"""Scores whether the points are on the objects that they name (Argos §3.1, Eq. 1–3).

For each label, :mod:`groundtrace.rewards.locating` finds the masks of its instances (Eq. 1). A point is on its object
if it is in one of the masks of its label (Eq. 2). Eq. 3 is the mean over the points.

The targets are the objects that the question is about (:mod:`groundtrace.rewards.targets`). The score deviates from the
paper in four ways, so that a response gets a reward only for pointing at targets:

- Each point is right, wrong or neutral. A point is right if it is on its object, and this object is a target. All
  points on one target together are one right point, even if they have different labels or are in different frames of a
  clip. A point is neutral if it is on its object, but this object is not a target; it does not change the score. A
  point is wrong if it is not on its object.
- A label can be too general to name the targets. An example is "object" if the targets are black circles. Then two
  scores are computed, and the higher one is used. For the first score, a point with a general label is right if it is
  on a target, and wrong if it is on another object. For the second score, all points with general labels are neutral.
  For example, a response points at all objects of an image, and gives each point the label "object". Both scores of
  this response are low: in the first score, its points on other objects are wrong, and in the second score, it has no
  right point. There is one exception: for clips, only one score is computed. In this score, a point with a general
  label is right if it is on a target, and neutral if it is on another object (:func:`point_checker`).
- :func:`groundtrace.rewards.pointing_score.pointing_score` computes the value from the numbers of right and wrong
  points. The first factor of its formula is Eq. 3. The value is negative if all points are wrong. If there are targets,
  a response without points has the value 0.
- If the question has no targets and no point is wrong, the scorer is not applicable. If it is unknown whether there are
  targets, and the response has no right and no wrong point, the verdict (the result of the scorer) has failed.
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
from groundtrace.rewards.pointing_score import PointCounts, pointing_score
from groundtrace.rewards.scorer import LOCATABLE, NO_CLIPS, Scorer
from groundtrace.rewards.targets import Targets, fits_target, is_a_count, is_target, lies_on, names_target, targets_of
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.label_parts import thing_of
from groundtrace.schemas.labels import is_counted, own_words, plain_label
from groundtrace.schemas.records import Verdict
from groundtrace.schemas.text import counted

NAME = "spatial"


@dataclass(frozen=True)
class PointView:
    """Describes one point of a response, and whether it is on the object that its label names.

    Attributes:
        number: the position of the point in the response, counted from 1.
        label: the label of the point.
        x: the x coordinate in pixels of the original image.
        y: the y coordinate in pixels of the original image.
        media_index: the index of the point's image or clip among the question's media.
        frame: the number of the frame in a clip; None for an image.
        on: whether the point is on an instance (an object) of its label; s_i in Argos Eq. 2.
        instance: the index of the smallest instance that contains the point; None if no instance contains it.
        instances: the number of instances of the label.
        by: the model role that searched for the label, such as ``detector``. It is "" if no role could search, or if
            the pointer searched in place of the detector and found nothing.
        note: remarks on the search, for example that the role returned boxes, which are used as masks; "" if there are
            none.
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
        """Return all fields as one JSON object, which a verdict (the result of a scorer) stores as evidence."""
        return json.dumps(vars(self), ensure_ascii=False, separators=(",", ":"))


async def view_point(number: int, point: Point, masks: ObjectMasks) -> tuple[PointView, Mask | None]:
    """Check whether a point is on an object that its label names (Argos Eq. 2).

    Returns a description of the result, and the mask that contains the point (None if no mask contains it). ``number``
    is the position of the point in the response, counted from 1. ``masks`` finds the objects of a label in the
    question's images and clips.

    Raises CallError if a call of a model that finds objects fails, and BadReply if its reply cannot be parsed.
    """
    place = (number, point.label, point.x, point.y, point.media_index, point.frame)
    if masks.part_of(point.media_index, point.frame) is None:
        return PointView(*place, False, None, 0, "", "no such image"), None
    found = await masks.of(point.label, point.media_index, point.frame)
    instance = _smallest_under(point, found.masks, masks)
    on = None if instance is None else found.masks[instance]
    return PointView(*place, on is not None, instance, len(found.masks), found.by, found.note), on


def _smallest_under(point: Point, found: Sequence[Mask], masks: ObjectMasks) -> int | None:
    """Return the index in ``found`` of the smallest mask that contains the point; None if no mask contains it.

    ``found`` holds the masks of the objects that the point's label names. ``masks`` is used only for the width and the
    height of the point's image or clip.
    """
    medium = masks.question.media[point.media_index]
    x, y = on_pixels(point.x, medium.width), on_pixels(point.y, medium.height)
    holding = [index for index, mask in enumerate(found) if mask.holds(x, y)]
    return min(holding, key=lambda index: int(found[index].pixels.sum()), default=None)


async def score_spatial(case: Case) -> Verdict:
    """Return the verdict on the points of one response, which ``case`` holds; its value is at most 1.

    The value is computed from the numbers of right and wrong points
    (:func:`groundtrace.rewards.pointing_score.pointing_score`). It is negative if all points are wrong. If the
    response has no points, or only points that count neither as right nor as wrong, the value depends on the targets
    (objects to point at): it is 0 if the question has targets, and None if it has none or if this is unknown.

    The evidence is one :class:`PointView` for each distinct point. A point is wrong if no object of its label is found,
    or if its label cannot be searched for. If a server does not answer, or its reply cannot be parsed, the verdict has
    failed (value None).
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
"""The type of a mapping from an image or a frame of a clip to masks in it. A key is a pair: the index of the image or
clip among the question's media, and the number of the frame (None for an image).
"""


@dataclass
class _Tally:
    """Collects the objects at which a response points. A point is left out if it is not on an object of its label.

    A target is an object that the question is about. In the examples below, the question is about black circles.

    Attributes:
        named: the targets that have a point whose label names them ("black circle").
        claimed: the targets that have a point whose label is too general ("object").
        mistaken: the other objects that have a point whose label could also name a target. For example, a white square
            has a point with the label "object".
        neutral: the number of points on objects that are not targets.
    """

    named: Masks = field(default_factory=dict)
    claimed: Masks = field(default_factory=dict)
    mistaken: Masks = field(default_factory=dict)
    neutral: int = 0

    async def add(self, point: Point, mask: Mask, case: Case, targets: Targets) -> None:
        """Record the object that a point is on; ``mask`` is the object's mask. The point's label names this object.

        The method first finds out whether the object is a target (an object that the question is about). For this, it
        may call models. Raises CallError if a call of a model that finds objects fails, and BadReply if its reply
        cannot be parsed.
        """
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
        """Return the number of targets at which the response points, with any label.

        A target is an object that the question is about.
        """
        return _count(self.named, self.claimed)

    def readings(self, off: int, number: int | None) -> tuple[PointCounts, PointCounts]:
        """Return the numbers of right and wrong points, counted in two ways.

        The two ways differ only for points whose label is too general to name the targets (the objects that the
        question is about), such as "object".

        In the first way, such a point is right if it is on a target, and wrong if it is on another object. In the
        second way, such a point is neutral. ``off`` is the number of points that are not on the object that their label
        names; these points are wrong. ``number`` is the number of targets; None if it is unknown. At most ``number``
        points can be right; further right points are counted as wrong. For example, if ``number`` is 3, then 4 right
        points become 3 right points and 1 wrong point.
        """
        claim = PointCounts.within(self.found, off + _count(self.mistaken), number)
        return claim, PointCounts.within(_count(self.named), off, number)


def _count(*masks: Masks) -> int:
    """Return the number of objects that the masks show. Masks of the same object in one image or frame count once."""
    places = {place for each in masks for place in each}
    return sum(len(distinct([mask for each in masks for mask in each.get(place, ())])) for place in places)


def _verdict(case: Case, targets: Targets, tally: _Tally, views: Sequence[PointView]) -> Verdict:
    """Return the verdict of :func:`score_spatial` on the points of a response.

    ``targets`` are the objects that the question is about. ``tally`` counts the points that are on an object of their
    label. ``views`` holds the results of the checks of all points.
    """
    off, evidence = [_fault(view) for view in views if not view.on], tuple(view.evidence for view in views)
    if not tally.found and not off and not targets.exist:
        return Verdict(NAME, None, _why_unscored(targets, len(views)), evidence, failed=targets.exist is None)
    if not views:
        return Verdict(NAME, 0.0, "no point, though there is something to point at")
    pointed = max(tally.readings(len(off), targets.number), key=lambda each: pointing_score(each, case.pointing))
    reason = _counts_text(targets, pointed, off, tally.neutral)
    notes = dict.fromkeys(f"; {view.by}: {view.note}" for view in views if view.by and view.note)
    return Verdict(NAME, pointing_score(pointed, case.pointing), reason + "".join(notes), evidence)


def _counts_text(targets: Targets, pointed: PointCounts, off: list[str], neutral: int) -> str:
    """Return a text with the numbers of right, wrong and neutral points.

    ``pointed`` holds the numbers of right and wrong points. ``off`` has the fault of each point that is not on its
    object, and ``neutral`` is the number of points on objects that are not targets (objects that the question is
    about). If ``targets`` holds no target, the text begins with the reason for this: then no point can be right, even
    on an object that the question names.
    """
    wrong = f"{counted(len(off), 'point off its object', 'points off their objects')}{_listed(off)}"
    if targets.exist is False:
        on = counted(neutral, "point, which is on its object, is", "points, which are on their objects, are")
        return f"{targets.reason}; {wrong}" + (f"; {on} not scored" if neutral else "")
    if targets.number is None:
        text = f"{counted(pointed.right, 'target')} pointed at, {wrong}"
    else:
        text = f"{pointed.right} of {counted(targets.number, 'target')} pointed at, {wrong}"
    if surplus := pointed.wrong - len(off):
        more = "object more is pointed at as a target than is one", "objects more are pointed at as targets than are"
        return f"{text}; {counted(surplus, *more)}"
    return text + (f"; {counted(neutral, 'point')} on what the question does not ask about" if neutral else "")


def _why_unscored(targets: Targets, points: int) -> str:
    """Return the reason why the points of a response are not scored, although each is on an object of its label.

    The reason is that the question has no targets (objects to point at), or that this is unknown. ``points`` is the
    number of points.
    """
    if targets.exist is None:
        return targets.reason
    if not points:
        return f"nothing to point at: {targets.reason}"
    on = counted(points, "point, which is on its object, is", "points, which are on their objects, are")
    return f"{targets.reason}; {on} not scored"


def point_checker(case: Case, media_index: int, targets: Targets) -> Callable[[Point], Awaitable[bool | None]]:
    """Return a function that checks the points of a clip, one point in each call.

    The scorer (check) of clips uses the returned function. This function counts the targets (objects that the question
    is about) that have a point. It is unknown whether the dog in one frame is the same dog as in another frame. So for
    each kind of object, the targets are counted in one frame only: the frame with the largest number of targets that
    have a point. For example, a response points at 2 dogs in one frame and at 3 dogs in another frame. Then 3 dogs are
    counted. Two labels are of one kind in two cases: they can name the same objects ("dog" and "brown dog"), or a point
    with one label is on an instance (a detected object) of the other label.

    The returned function takes a point. It raises CallError if a model call fails, and BadReply if a reply cannot be
    parsed. It returns one of three values:

    - False: the point is not on an object that its label names.
    - True: the point is on such an object, the object is a target, and the number of counted targets grows by one.
    - None: the point is on such an object, but does not change the score. The object is not a target, or the number of
      counted targets does not grow, e.g. because the target was counted before.

    ``media_index`` is the index of the clip among the question's media, and ``targets`` are the targets of the
    question.
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
    """Return the kind of the object that a point names, e.g. "dog".

    A kind is a label. ``kinds`` are the kinds of earlier points. The first kind that fits is returned. A kind fits in
    two cases:

    - The point's label and the kind can name the same object ("brown dog" and "dog").
    - The point is on an object that is found by a search for the kind. For example, the kind is "dog", and a point with
      the label "animal" is on a dog.

    If no kind fits, the point's label is returned as a new kind. Words that select one of several objects are removed:
    "third dog from the left" becomes "dog".
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
    """Return whether the question can have targets (objects that it is about); if not, points are not scored.

    The result is True if the response has points, or if the pointer (the model that points at objects) found an object
    of the question. Otherwise the result is True only if both conditions are met:

    - The form that the response must have (``case.form``) allows points and requires reasoning.
    - The question's entities (its phrases for objects) are unknown, or the question counts objects.
    """
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
