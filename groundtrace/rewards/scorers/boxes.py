"""Scores how well the boxes of a response match the gold boxes (iVGR §3.2, Eq. 2).

The recall is the mean, over the gold boxes, of the best IoU with a predicted box. The precision is the mean, over the
predicted boxes, of the best IoU with a gold box. :func:`score_group` makes one value of the two. Eq. 2 uses only
positions, so labels are not compared. A caller that compares labels (:mod:`groundtrace.rewards.scorers.boxes_named`)
passes a function ``names``. Then a predicted box has the IoU 0 with a gold box if its label cannot name the object of
the gold box.

This module deviates from Eq. 2 by the rules below. Some of them are for cases that Eq. 2 does not define. Without the
other rules, a response could raise its value with needless boxes.

- Without gold boxes, the verdict is not applicable (value None). With gold boxes, but without predicted boxes, the
  value is 0.
- Boxes on different images never overlap. An invalid box has the IoU 0 with every box. So an invalid predicted box
  lowers the precision, and an invalid gold box lowers the recall. A box is invalid if it has no area, if its corners
  are in the wrong order, or if its coordinates are infinite, undefined or extremely large.
- The right and lower edges are exclusive: a box from 10 to 20 is 10 pixels wide.
- Near-duplicates count as one box. (In Eq. 2, the boxes of a response are a set. So only exact copies count as one
  box.) Two predicted boxes with the same nearest gold box are near-duplicates in two cases: their IoU with each other
  is at least :data:`SAME_BOX_IOU`, or each of them has at least this IoU with the gold box. If a box is a
  near-duplicate of two other boxes, these two are near-duplicates of each other, too.
- Of several near-duplicates, only the worst box is used. To find it, the highest IoU with any gold box is computed for
  each of them. The worst box is the one with the lowest of these values. So copies of a good box do not hide bad boxes,
  and several boxes for one object earn no more than one box.
- The order of the boxes does not matter.
- A response with more different boxes than :func:`max_boxes` scores 0.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import ASKED_FOR_BOXES, Scorer
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Verdict

NAME = "boxes"
SAME_BOX_IOU = 0.7
"""The minimum IoU at which two predicted boxes with the same nearest gold box count as one box.

Either the two boxes have at least this IoU with each other, or each of them has at least this IoU with the gold box.
"""
BOXES_PER_GOLD, MIN_BOXES_ALLOWED = 4, 8
_MAX_AREA = 1e300  # so that no sum of two areas overflows

Values = NDArray[np.float64]
Place = tuple[int, float, float, float, float]
Named = tuple[Place, str]
"""A box as a pair (place, label). The place is the index of the box's image, x1, y1, x2 and y2.

Two boxes at the same place with different labels are two different values.
"""
Names = Callable[[str, str], bool]
"""A function that returns whether the label of a box (first argument) can name the object of a gold box (second
argument: its label).
"""


def _bidirectional(recall: Values, precision: Values) -> Values:
    return (recall + precision) / 2


def _recall_only(recall: Values, precision: Values) -> Values:
    return recall


def _f1(recall: Values, precision: Values) -> Values:
    total = recall + precision
    return np.divide(2 * recall * precision, total, out=np.zeros_like(total), where=total > 0)


FORMS: dict[str, Callable[[Values, Values], Values]] = {
    "bidirectional": _bidirectional,
    "recall_only": _recall_only,
    "f1": _f1,
}
"""Functions that combine recall and precision, each (G,), into scores (G,). ``bidirectional`` is their mean (iVGR Eq.
2). ``f1`` is their harmonic mean, which is lower than the mean if recall and precision differ. ``recall_only`` is the
recall alone. It is only for comparison, because a response can raise it with more boxes."""


def max_boxes(gold: Sequence[Box]) -> int:
    """Return the maximum number of different boxes that a response may have; a response with more boxes scores 0.

    The maximum is :data:`BOXES_PER_GOLD` boxes for each box in ``gold``, and at least :data:`MIN_BOXES_ALLOWED`.
    """
    return max(MIN_BOXES_ALLOWED, BOXES_PER_GOLD * len(gold))


def match_group(
    responses: Sequence[tuple[Box, ...]], gold: Sequence[Box], names: Names | None = None
) -> tuple[Values, Values]:
    """Return the recall and the precision of each of G responses, as two arrays (G,) in [0, 1] (iVGR Eq. 2).

    For the recall, each gold box gets its highest IoU with a box of the response; the recall is the mean of these IoUs.
    For the precision, each box of the response gets its highest IoU with a gold box; the precision is the mean of these
    IoUs. A response without boxes, or with too many boxes (:func:`max_boxes`), has recall 0 and precision 0.

    Args:
        responses: the boxes of each response.
        gold: the gold boxes of the question.
        names: a function of two labels, the label of a box of the response and the label of a gold box. It returns
            whether the first label can name the object of the gold box. If not, recall and precision use the IoU 0 for
            these two boxes. None means that labels are not compared.

    Raises:
        ValueError: if there is no gold box.
    """
    if not gold:
        raise ValueError("the question has no gold boxes: call match_group only with at least one gold box")
    limit, wanted = max_boxes(gold), _named(gold, names is not None)
    columns = _columns([place for place, _ in wanted])
    matched = list[tuple[float, float]]()
    for boxes in responses:
        given = _named(boxes, names is not None)
        is_read = 0 < len({place for place, _ in given}) <= limit
        matched.append(_match(given, wanted, columns, names) if is_read else (0.0, 0.0))
    recall, precision = np.array(matched).reshape(-1, 2).T
    return recall, precision


def score_group(
    responses: Sequence[tuple[Box, ...]], gold: tuple[Box, ...], form: str = "bidirectional", names: Names | None = None
) -> tuple[Verdict, ...]:
    """Return one verdict (result of scoring) on the boxes of each response to a question, in order.

    The value of a verdict is from 0 to 1; it is None if ``gold`` is empty. It is 0 for a response without boxes or with
    too many boxes (:func:`max_boxes`). The module's docstring describes more special cases.

    Args:
        responses: the boxes of each response.
        gold: the gold boxes of the question.
        form: the way to combine recall and precision, a name in :data:`FORMS`.
        names: a function that returns whether two labels can name the same object (:func:`match_group`). None means
            that labels are not compared.

    Raises:
        ValueError: if ``form`` is not in :data:`FORMS`.
    """
    if form not in FORMS:
        raise ValueError(f"the form {form!r} of the box reward is unknown: choose one of {', '.join(FORMS)}")
    if not gold:
        return (Verdict(NAME, None, "no gold boxes"),) * len(responses)
    recall, precision = match_group(responses, gold, names)
    scores = FORMS[form](recall, precision).tolist()
    limit, of = max_boxes(gold), f"{len(gold)} gold boxes ({form})"
    return tuple(
        Verdict(NAME, score, _reason(len(_places(boxes)), limit, of, r, p))
        for boxes, score, r, p in zip(responses, scores, recall.tolist(), precision.tolist(), strict=True)
    )


def score_boxes(predicted: tuple[Box, ...], gold: tuple[Box, ...], form: str = "bidirectional") -> Verdict:
    """Return the verdict (result of scoring) on how well the boxes of one response match the gold boxes.

    ``predicted`` holds the boxes of the response, and ``gold`` the gold boxes. ``form`` is the way to combine recall
    and precision, a name in :data:`FORMS`. The value is from 0 to 1; it is None if ``gold`` is empty.

    Raises:
        ValueError: if ``form`` is not in :data:`FORMS`.
    """
    return score_group((predicted,), gold, form)[0]


def _reason(count: int, limit: int, of: str, recall: float, precision: float) -> str:
    if not count:
        return f"no box, of {of}"
    if count > limit:
        return f"{count} boxes, more than {limit}"
    return f"{count} boxes, of {of}: recall {recall:.3f}, precision {precision:.3f}"


def _places(boxes: Iterable[Box]) -> set[Place]:
    """Return the set of distinct (media_index, x1, y1, x2, y2) of the boxes; labels are ignored."""
    return {(box.media_index, box.x1, box.y1, box.x2, box.y2) for box in boxes}


def _named(boxes: Iterable[Box], by_label: bool) -> list[Named]:
    """Return the boxes as sorted (place, label) pairs, without duplicates.

    If ``by_label`` is False, the label in each pair is "". Boxes at the same place are then duplicates.
    """
    named = {((box.media_index, box.x1, box.y1, box.x2, box.y2), box.label if by_label else "") for box in boxes}
    return sorted(named)


def _match(given: Sequence[Named], wanted: Sequence[Named], gold: Values, names: Names | None) -> tuple[float, float]:
    """Return the recall and the precision of one response that has boxes.

    ``given`` are the boxes of the response, and ``wanted`` are the gold boxes. ``gold`` has the gold boxes again, as an
    array (:func:`_columns`). ``names`` compares labels (:func:`match_group`).
    """
    columns = _columns([place for place, _ in given])
    placed = _iou(columns, gold)
    overlap = placed
    if names is not None:
        can = np.zeros(placed.shape, bool)
        for n, g in np.argwhere(placed > 0).tolist():
            can[n, g] = names(given[n][1], wanted[g][1])
        overlap = placed * can
    counted = overlap[_distinct(columns, placed, overlap)]
    return float(counted.max(axis=0).mean()), float(counted.max(axis=1).mean())


def _distinct(columns: Values, placed: Values, overlap: Values) -> NDArray[np.intp]:
    """Return the indices of the predicted boxes that are scored: only the worst box of several near-duplicates.

    ``columns`` are the predicted boxes (:func:`_columns`). ``placed`` is the IoU of each of the m predicted boxes with
    each of the n gold boxes, (m, n). ``overlap`` is the same IoU, but 0 if the labels do not match. The worst of
    several near-duplicates is the box whose highest ``overlap`` with any gold box is the lowest.

    The nearest gold box of a predicted box is the one with the highest sum of ``placed`` and ``overlap``. Two boxes
    with the same nearest gold box are near-duplicates in two cases:

    1. Their IoU with each other is at least :data:`SAME_BOX_IOU`.
    2. Each of them has at least this IoU with the gold box.

    Two boxes are also treated as near-duplicates if both are near-duplicates of the same third box.

    Case 2 is needed because otherwise an additional good box could lower the score. For example, a response has two
    good boxes A and B for one gold box, and their IoU with each other is below :data:`SAME_BOX_IOU`. Without case 2,
    they count as two boxes. If the response gets a third good box C, which is a near-duplicate of both, the three count
    as one box. With case 2, A and B count as one box from the start.
    """
    nearest, best, count = (placed + overlap).argmax(axis=1), overlap.max(axis=1), len(overlap)
    on_it = placed[np.arange(count), nearest] >= SAME_BOX_IOU
    near = (_iou(columns, columns) >= SAME_BOX_IOU) | (on_it[:, None] & on_it)
    linked = near & (nearest[:, None] == nearest) | np.eye(count, dtype=bool)
    if np.count_nonzero(linked) == count:
        return np.arange(count)
    cluster, before = np.arange(count), None
    while before is None or (cluster != before).any():
        cluster, before = np.where(linked, cluster, count).min(axis=1), cluster
    worst_first = np.argsort(best, kind="stable")
    return worst_first[np.unique(cluster[worst_first], return_index=True)[1]]


def _columns(places: Sequence[Place]) -> Values:
    """Return n boxes as an array (6, n). Its rows are the index of the box's image, x1, y1, x2, y2 and the area.

    Coordinates are in pixels, and areas in square pixels. The order of ``places`` is kept.
    An invalid box becomes a point with area 1, so that its overlap with any box is 0 and no union is 0.
    """
    columns = np.array([(*place, 0.0) for place in places]).T.copy()
    with np.errstate(all="ignore"):
        width, height = np.maximum(columns[3:5] - columns[1:3], 0)
        areas = width * height
    no_box = ~((areas > 0) & (areas < _MAX_AREA))
    columns[1:5, no_box], areas[no_box] = 0, 1
    columns[5] = areas
    return columns


def _iou(a: Values, b: Values) -> Values:
    """Return the IoU of each of n boxes with each of m boxes, as an array (n, m).

    ``a`` holds the n boxes as an array (6, n), and ``b`` holds the m boxes as an array (6, m). Both arrays are results
    of :func:`_columns`.
    """
    a = a[:, :, None]
    b = b[:, None, :]
    width, height = np.maximum(np.minimum(a[3:5], b[3:5]) - np.maximum(a[1:3], b[1:3]), 0)
    shared = width * height * (a[0] == b[0])
    return shared / (a[5] + b[5] - shared)


async def _score(case: Case) -> Verdict:
    return score_boxes(case.boxes, case.question.gold_boxes or ())


SCORER = Scorer(
    NAME,
    "there are gold boxes to lie on",
    _score,
    needs=((lambda case: bool(case.question.gold_boxes), "no gold boxes"),),
)
"""The scorer for rewards: it scores how well the boxes of a response match the question's gold boxes.

The scorer is applicable only to a question with gold boxes. It compares no labels.
"""
OF_TRACES = replace(SCORER, needs=(ASKED_FOR_BOXES, *SCORER.needs), floor=0.5, is_grounding=True)
"""The scorer for the curation of traces: it runs if boxes were requested and the question has gold boxes.

A trace is a teacher's response. The floor, which is the minimum value at which a trace is kept, is 0.5: inputs often
have gold boxes on more objects than an answer needs. So a trace with precise boxes on only some of the gold boxes must
pass. With the recall r and the precision 1, its value is (r + 1) / 2.
"""
