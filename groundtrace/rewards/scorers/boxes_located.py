"""Scores whether a trace's boxes are on the objects that they name, with one box per object (iVGR §3.2, §4.1).

A trace is a response of a teacher. The paper has no such scorer, since annotators made the boxes of its grounded
traces. :mod:`groundtrace.rewards.scorers.boxes` (Eq. 2) compares only positions, and rewards every box near a gold box.
So it does not detect swapped labels. In this module, each box of a trace is either right or wrong, and the value is the
share of right boxes. Missing boxes do not lower the value: a trace with one precise box can have the value 1, although
the question has many gold boxes. A box is right if all of these conditions are true:

- Its label names an object (:func:`groundtrace.schemas.labels.label_fault`).
- It overlaps an object of the same name with an IoU of at least :data:`MIN_IOU`. First, the box is compared with the
  gold boxes of this name. If none of them fits, the box is compared with the objects that the detector finds for the
  label (:mod:`groundtrace.rewards.locating`). For comparison: a box that is shifted by half its width has an IoU of
  1/3.
- The question is about the object: the question, its choices, its answer or the label of a gold box names the object
  (:func:`groundtrace.schemas.labels.is_named`). A label for things of several kinds ("circle and square") does not
  meet this condition. There is one exception: a box meets the condition with any label if its IoU with any gold box is
  at least :data:`MIN_IOU`.
- It is the only box for its object. If two boxes are on one object, only the first of them is right. So a copy of a box
  is wrong.

A response without boxes, or with more than :data:`MAX_BOXES`, scores 0. A box is wrong if no object of its label can be
found. If the detector does not answer, the verdict has failed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply, Mask
from groundtrace.rewards import locating
from groundtrace.rewards.case import Case
from groundtrace.rewards.masks import matched
from groundtrace.rewards.scorer import ASKED_FOR_BOXES, LOCATABLE, NO_CLIPS, Scorer
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.label_lists import names_several
from groundtrace.schemas.labels import is_named, label_fault, words_of
from groundtrace.schemas.records import Verdict

NAME = "boxes_located"
MIN_IOU = 0.5
"""The minimum IoU of a box with an object at which the box counts as being on the object."""
MAX_BOXES = 64


@dataclass(frozen=True)
class BoxView:
    """Describes one box of a response, and whether it is right.

    Attributes:
        number: the position of the box in the response, counted from 1.
        label: the label of the box.
        at: x1, y1, x2, y2 in pixels of the original image.
        media_index: the index of the box's image among the question's media.
        iou: the highest IoU of the box with an object that the label of the box names.
        by: the source of the objects that the label names. It is ``gold`` for gold boxes, else the name of the model
            role that searched for the objects, such as ``detector``. It is "" if no model could search, or if the
            pointer searched in place of the detector and found nothing.
        fault: the reason why the box is wrong; "" if it is right.
    """

    number: int
    label: str
    at: tuple[float, float, float, float]
    media_index: int
    iou: float
    by: str
    fault: str

    @property
    def evidence(self) -> str:
        """Return all fields as one JSON object, which is stored in the evidence of the verdict."""
        return json.dumps(vars(self), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class _Found:
    """Holds the objects that the label of a box names, and the source of these objects.

    ``things`` are the boxes of the objects. ``by`` is ``gold`` if they are gold (known right) boxes. Otherwise, ``by``
    is the name of the model role that searched for them, such as ``detector``. ``by`` is "" if no model could search,
    or if the pointer searched in place of the detector and found nothing. ``note`` is the reason why there are no
    objects. If there are objects, ``note`` is not used.
    """

    things: tuple[Box, ...]
    by: str
    note: str = ""


async def score_located(case: Case) -> Verdict:
    """Return a verdict whose value is the share of right boxes in a response, from 0 to 1.

    A box is right if the box overlaps an object that the label of the box names, and the question is about this object.
    If several boxes are on one object, only the first of them is right. The module's docstring has the details.

    ``case`` holds the response. The evidence has one :class:`BoxView` for each box. The verdict has failed (value None)
    if a model that finds the objects does not answer, or gives an unreadable answer.
    """
    if not case.boxes:
        return Verdict(NAME, 0.0, "no box")
    if len(case.boxes) > MAX_BOXES:
        return Verdict(NAME, 0.0, f"{len(case.boxes)} boxes, more than {MAX_BOXES}")
    try:
        found = [await _things(box, case) for box in case.boxes]
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, str(error), failed=True)
    alone = _each_alone(case.boxes, found)
    views = [_view(n, box, found[n], n in alone, case) for n, box in enumerate(case.boxes)]
    faults = [f"{view.label!r:.60}: {view.fault}" for view in views if view.fault]
    reason = f"{len(views) - len(faults)} of {len(views)} boxes lie on what they name"
    reason += "".join(f"; {fault}" for fault in faults[:5]) + (" and more" if len(faults) > 5 else "")
    value = (len(views) - len(faults)) / len(views)
    return Verdict(NAME, value, reason, tuple(view.evidence for view in views))


async def _things(box: Box, case: Case) -> _Found:
    """Return the objects that the label of the box names, and the source of these objects.

    The label names a gold (correct) box if the gold label has all words of the label (:func:`_is_of`). If the box has
    an IoU of at least :data:`MIN_IOU` with such a gold box, the objects are all gold boxes that the label names, in all
    images. Otherwise they are the objects that the detector (or another model, see :mod:`groundtrace.rewards.locating`)
    finds for the label in the box's image. The result has no objects if the question does not have this image, or if
    the label is invalid.

    ``case`` is the response with its question. Raises CallError if a call of a model fails, and BadReply if its reply
    cannot be parsed.
    """
    if case.masks.part_of(box.media_index, None) is None:
        return _Found((), "", "no such image")
    fault = label_fault(" ".join(box.label.split()))
    if fault is not None:
        return _Found((), "", fault)
    gold = tuple(each for each in case.question.gold_boxes or () if _is_of(box, each))
    if any(box.iou(each) >= MIN_IOU for each in gold):
        return _Found(gold, "gold")
    located = await case.masks.of(box.label, box.media_index)
    things = tuple(bounds(mask, box.label, box.media_index) for mask in located.masks)
    return _Found(things, located.by, located.note or "not detected")


def _is_of(box: Box, gold: Box) -> bool:
    """Return whether the gold label has all words of the box's label.

    For example, the result is True for the gold label "red square" and the label "square", and False for the reverse.
    """
    own = frozenset(words_of(box.label))
    return bool(own) and own <= frozenset(words_of(gold.label))


def bounds(mask: Mask, label: str = "", media_index: int = 0) -> Box:
    """Return the smallest box that contains all pixels of a mask, in pixels of the image.

    The mask must have at least one pixel. ``label`` and ``media_index`` are the label of the returned box, and the
    index of its image among the question's media.
    """
    rows, columns = np.flatnonzero(mask.pixels.any(axis=1)), np.flatnonzero(mask.pixels.any(axis=0))
    left, top = mask.x + float(columns[0]), mask.y + float(rows[0])
    return Box(label, left, top, mask.x + float(columns[-1]) + 1, mask.y + float(rows[-1]) + 1, media_index)


def _each_alone(boxes: Sequence[Box], found: Sequence[_Found]) -> frozenset[int]:
    """Return the indices of the boxes that have an object of their own, after boxes and objects are paired one to one.

    ``found`` holds, for each box, the objects that its label names. A box can get one of these objects if the IoU of
    the box and the object is at least :data:`MIN_IOU`. As many boxes as possible get an object. If two boxes can get
    only the same object, the earlier box gets it.
    """
    things: list[Box] = []
    for each in found:
        things += [thing for thing in each.things if all(thing.iou(known) < MIN_IOU for known in things)]
    options = list[list[int]]()
    for box, each in zip(boxes, found, strict=True):
        under = [thing for thing in each.things if box.iou(thing) >= MIN_IOU]
        options.append([n for n, known in enumerate(things) if any(known.iou(thing) >= MIN_IOU for thing in under)])
    return frozenset(matched(options))


def _view(index: int, box: Box, found: _Found, is_alone: bool, case: Case) -> BoxView:
    iou = max((box.iou(thing) for thing in found.things), default=0.0)
    if not found.things:
        fault = found.note
    elif iou < MIN_IOU:
        fault = f"off it (IoU {iou:.2f})"
    elif not is_alone:
        fault = "boxed already"
    elif not _is_spoken_of(box, case):
        fault = "the question does not speak of it"
    else:
        fault = ""
    at = (box.x1, box.y1, box.x2, box.y2)
    return BoxView(index + 1, box.label, at, box.media_index, round(iou, 3), found.by, fault)


def _is_spoken_of(box: Box, case: Case) -> bool:
    question = case.question
    gold = question.gold_boxes or ()
    texts = (question.question, question.answer, *(question.choices or ()))
    labels = [each.label for each in gold if words_of(each.label)]
    is_mentioned = not names_several(box.label) and is_named(box.label, texts, labels)
    return is_mentioned or any(box.iou(each) >= MIN_IOU for each in gold)


SCORER = Scorer(
    NAME,
    "the response was asked for with boxes",
    score_located,
    needs=(ASKED_FOR_BOXES, NO_CLIPS),
    means=(LOCATABLE,),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
