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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.geometry import Box
from schemas.records import Verdict

NAME = "boxes"
MAX_BOXES = 256
"""Predicted boxes that a response may always have; see :func:`max_boxes`."""

Values = NDArray[np.float64]

_BLOCK = 1 << 13  # pairs compared at once: the arrays of a block stay in the processor's cache
_MAX_AREA = 1e300  # so that no sum of two areas overflows
_FIELDS = ("x1", "y1", "x2", "y2", "media_index")
_ROW, _COLUMNS = attrgetter(*_FIELDS), tuple(map(attrgetter, _FIELDS))


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


def iou_matrix(predicted: ArrayLike, gold: ArrayLike) -> Values:
    """IoU of every pair of boxes: (n, 4) and (m, 4) in x1, y1, x2, y2 pixels give (n, m) in [0, 1], never NaN.

    Raises:
        ValueError: an array is not of that shape.
    """
    sides = [np.asarray(side, np.float64) for side in (predicted, gold)]
    sides = [side if side.size else side.reshape(0, 4) for side in sides]
    if any(side.ndim != 2 or side.shape[1] != 4 for side in sides):
        raise ValueError(f"boxes must be (n, 4), got {sides[0].shape} and {sides[1].shape}")
    columns = np.empty((5, sum(map(len, sides))))
    np.concatenate(sides, out=columns[:4].T)
    _set_areas(columns)
    n = len(sides[0])
    return _iou(columns[:, :n, None], columns[:, None, n:])


def max_boxes(gold: Sequence[Box]) -> int:
    """How many boxes a response may have: :data:`MAX_BOXES`, or twice the gold boxes in a crowded picture."""
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
    kept = [index for index, boxes in enumerate(sets) if boxes]
    if len(kept) == len(sets) > 0:
        return _match(sets, gold)
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
    if len(set(map(_COLUMNS[0], boxes))) == len(boxes):
        return boxes
    return tuple(dict(zip(map(_ROW, boxes), boxes, strict=True)).values())


def _match(sets: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> tuple[Values, Values]:
    """Recall and precision of responses that each have a box."""
    n, counts = len(gold), list(map(len, sets))
    starts = list(accumulate(counts, initial=0))
    boxes = [*gold, *chain.from_iterable(sets)]
    columns = np.array([np.fromiter(map(column, boxes), np.float64, len(boxes)) for column in _COLUMNS])
    media = columns[4].copy()
    _set_areas(columns)
    same = media[:n, None] == media[None, n:] if (media != media[0]).any() else None
    best = np.empty(starts[-1])  # of each predicted box
    found = np.empty((n, len(sets)))  # of each gold box within each response
    blocks = _blocks(counts, max(1, _BLOCK // n))
    wide, predicted = columns[:, :n, None], columns[:, None, n:]
    if len(blocks) > 1:
        # NumPy is several times slower where one side stands still along the row; worth a copy that serves all blocks.
        wide = np.repeat(wide, max(starts[last] - starts[first] for first, last in blocks), axis=2)
    for first, last in blocks:
        low, high = starts[first], starts[last]
        overlap = _iou(wide[:, :, : high - low], predicted[:, :, low:high])
        if same is not None:
            overlap *= same[:, low:high]
        np.maximum.reduce(overlap, out=best[low:high])
        np.maximum.reduceat(overlap, [start - low for start in starts[first:last]], axis=1, out=found[:, first:last])
    return np.add.reduce(found) / n, np.add.reduceat(best, starts[:-1]) / counts


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
    areas = columns[4]
    with np.errstate(all="ignore"):
        sides = columns[2:4] - columns[:2]
        np.maximum(sides, 0, out=sides)
        np.multiply(sides[0], sides[1], out=areas)
    if not (np.minimum.reduce(areas, initial=1) > 0 and np.maximum.reduce(areas, initial=1) < _MAX_AREA):
        no_box = ~((areas > 0) & (areas < _MAX_AREA))
        columns[:4, no_box] = 0
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
