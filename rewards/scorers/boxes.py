"""The box reward: do the predicted boxes lie on the gold boxes (iVGR §3.2, Eq. 2)?

For every box the best IoU with any box of the other side is taken; the mean over the gold boxes is the recall, the
mean over the predicted ones the precision. Labels are not compared: Eq. 2 speaks of positions only, and a response
names its objects in its own words. A whole group of responses is matched with its gold boxes in one array operation.

Decided here, once:

- no gold box: not applicable (None); no predicted box where there is gold: 0 (Eq. 2 leaves both open);
- boxes on different media never overlap; boxes without area, with corners in the wrong order or with coordinates that
  are not finite (or absurdly large) overlap nothing, and count as boxes;
- edges are exclusive: a box from 10 to 20 is 10 pixels wide;
- repeats of a box are one box (the paper's B is a set), so that copies of a good one do not hide bad ones;
- more boxes than :func:`max_boxes` score 0, whatever they hit: what a response costs is bounded.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from struct import pack_into

import numpy as np
from numpy.typing import NDArray

from rewards.case import Case
from rewards.scorer import Scorer
from schemas.geometry import Box
from schemas.records import Verdict

NAME = "boxes"
MAX_BOXES = 256
"""Predicted boxes that a response may always have; see :func:`max_boxes`."""

Values = NDArray[np.float64]

_BLOCK = 1 << 13  # pairs compared at once: the arrays of a block stay in the processor's cache
_MAX_AREA = 1e300  # so that no sum of two areas overflows
_FAR, _SHORT = 1e149, 1e-150  # corners nearer than this and sides longer than that have an area between 0 and _MAX_AREA
_ROW = attrgetter("x1", "y1", "x2", "y2", "media_index")


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
"""From recall and precision, each (G,), to scores (G,). ``bidirectional`` is iVGR Eq. 2. ``f1`` is the harmonic mean of
the same two, harsher where they differ. ``recall_only`` pays for more boxes and is there to compare with."""


def max_boxes(gold: Sequence[Box]) -> int:
    """How many boxes a response may have: :data:`MAX_BOXES`, or twice the gold boxes in a crowded image."""
    return max(MAX_BOXES, 2 * len(gold))


def match_group(responses: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> tuple[Values, Values]:
    """Recall and precision of each response, both (G,) in [0, 1]: the two sums of iVGR Eq. 2.

    Both are 0 for a response without boxes or with too many.

    Raises:
        ValueError: there is no gold box.
    """
    if not gold:
        raise ValueError("without gold boxes there is nothing to match")
    limit = max_boxes(gold)
    sets = [_distinct(boxes) if len(boxes) <= limit else () for boxes in responses]
    if sets and all(sets):
        return _match(sets, gold)
    kept = [index for index, boxes in enumerate(sets) if boxes]
    recall, precision = np.zeros(len(sets)), np.zeros(len(sets))
    if kept:
        recall[kept], precision[kept] = _match([sets[index] for index in kept], gold)
    return recall, precision


def score_group(
    responses: Sequence[tuple[Box, ...]], gold: tuple[Box, ...], form: str = "bidirectional"
) -> tuple[Verdict, ...]:
    """One verdict per response of a group, in their order; see the module for the degenerate cases.

    Raises:
        ValueError: ``form`` is not one of :data:`FORMS`.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form {form!r} of the box reward; there are {', '.join(FORMS)}")
    if not gold:
        return (Verdict(NAME, None, "no gold boxes"),) * len(responses)
    recall, precision = match_group(responses, gold)
    scores = FORMS[form](recall, precision).tolist()
    limit, of = max_boxes(gold), f"{len(gold)} gold boxes ({form})"
    return tuple(
        Verdict(NAME, score, _said(len(boxes), limit, of, r, p))
        for boxes, score, r, p in zip(responses, scores, recall.tolist(), precision.tolist(), strict=True)
    )


def score_boxes(predicted: tuple[Box, ...], gold: tuple[Box, ...], form: str = "bidirectional") -> Verdict:
    """The verdict on one response; :func:`score_group` is cheaper for several on the same gold boxes.

    Raises:
        ValueError: ``form`` is not one of :data:`FORMS`.
    """
    return score_group((predicted,), gold, form)[0]


def _said(count: int, limit: int, of: str, recall: float, precision: float) -> str:
    if not count:
        return f"no box, of {of}"
    if count > limit:
        return f"{count} boxes, more than {limit}"
    return f"{count} boxes, of {of}: recall {recall:.3f}, precision {precision:.3f}"


def _distinct(boxes: tuple[Box, ...]) -> tuple[Box, ...]:
    """The boxes without repeats; labels do not tell them apart. Left edges that all differ settle it cheaply."""
    if len({box.x1 for box in boxes}) == len(boxes):
        return boxes
    return tuple(dict(zip(map(_ROW, boxes), boxes, strict=True)).values())


def _match(sets: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> tuple[Values, Values]:
    """Recall and precision of responses that each have a box."""
    n, counts = len(gold), list(map(len, sets))
    starts = list(accumulate(counts, initial=0))
    boxes = [*gold, *chain.from_iterable(sets)]
    columns, same = _columns(boxes), _same_medium(boxes, n)
    wide, predicted = columns[:, :n, None], columns[:, None, n:]
    if n * starts[-1] <= _BLOCK:
        best, found = _nearest(wide, predicted, same, starts[:-1])
    else:
        best, found = np.empty(starts[-1]), np.empty((n, len(sets)))
        blocks = _blocks(counts, max(1, _BLOCK // n))
        # NumPy is several times slower where one side stands still along the row; worth a copy that serves all blocks.
        wide = np.repeat(wide, max(starts[last] - starts[first] for first, last in blocks), axis=2)
        for first, last in blocks:
            low, high = starts[first], starts[last]
            best[low:high], found[:, first:last] = _nearest(
                wide[:, :, : high - low],
                predicted[:, :, low:high],
                None if same is None else same[:, low:high],
                [start - low for start in starts[first:last]],
            )
    return np.add.reduce(found) / n, np.add.reduceat(best, starts[:-1]) / counts


def _nearest(a: Values, b: Values, same: NDArray[np.bool_] | None, starts: list[int]) -> tuple[Values, Values]:
    """The best IoU of each predicted box, (m,), and of each gold box within each response, (n, G).

    ``a`` and ``b`` are as for :func:`_iou`, the gold boxes first; a response's boxes begin at its start.
    """
    overlap = _iou(a, b)
    if same is not None:
        overlap *= same
    return np.maximum.reduce(overlap), np.maximum.reduceat(overlap, starts, axis=1)


def _columns(boxes: list[Box]) -> Values:
    """The boxes as (5, n): corners and areas."""
    columns = np.empty((5, len(boxes)))
    # Lists packed into the array: half the time of np.fromiter over the attributes, which is much where boxes are few.
    left, top = [box.x1 for box in boxes], [box.y1 for box in boxes]
    right, bottom = [box.x2 for box in boxes], [box.y2 for box in boxes]
    pack_into(f"{4 * len(boxes)}d", columns.data, 0, *left, *top, *right, *bottom)
    _set_areas(columns)
    return columns


def _same_medium(boxes: list[Box], n: int) -> NDArray[np.bool_] | None:
    """Which of the first ``n`` boxes and the others lie on one medium, (n, m); None where all do."""
    if len({box.media_index for box in boxes}) == 1:
        return None
    media = np.array([box.media_index for box in boxes])
    return media[:n, None] == media[n:]


def _blocks(counts: list[int], width: int) -> list[tuple[int, int]]:
    """Runs of responses (first, last + 1) with at most ``width`` boxes together, or with one response."""
    runs, first, held = [], 0, 0
    for index, count in enumerate(counts):
        if held and held + count > width:
            runs.append((first, index))
            first, held = index, 0
        held += count
    return [*runs, (first, len(counts))]


def _set_areas(columns: Values) -> None:
    """Put areas in square pixels into the fifth row of (5, n) columns, whose other rows are x1, y1, x2, y2.

    What is no box becomes a point with area 1: its overlap with anything is 0, and no union is ever 0.
    """
    corners, areas = columns[:4], columns[4]
    # Finding a place is cheaper than NumPy's reductions; NaN counts as both the least and the most.
    if areas.size and corners.item(corners.argmin()) > -_FAR and corners.item(corners.argmax()) < _FAR:
        sides = columns[2:4] - columns[:2]
        if sides.item(sides.argmin()) > _SHORT:
            np.multiply(sides[0], sides[1], out=areas)
            return
    with np.errstate(all="ignore"):
        sides = columns[2:4] - columns[:2]
        np.maximum(sides, 0, out=sides)
        np.multiply(sides[0], sides[1], out=areas)
    no_box = ~((areas > 0) & (areas < _MAX_AREA))
    corners[:, no_box] = 0
    areas[no_box] = 1


def _iou(a: Values, b: Values) -> Values:
    """IoU (n, m) of columns with areas: (5, n, 1) or (5, n, m), and (5, 1, m)."""
    shared = np.minimum(a[2:4], b[2:4])
    shared -= np.maximum(a[:2], b[:2])
    np.maximum(shared, 0, out=shared)
    inner, union = shared
    inner *= union
    np.add(a[4], b[4], out=union)
    union -= inner
    inner /= union
    return inner


async def _score(case: Case) -> Verdict:
    return score_boxes(case.boxes, case.question.gold_boxes or ())


SCORER = Scorer(
    NAME,
    "there are gold boxes to lie on",
    _score,
    needs=((lambda case: bool(case.question.gold_boxes), "no gold boxes"),),
)
"""For training only: curation does not read gold boxes."""
