"""Measures how selective a call is: how much more its output shows the objects asked about than the rest of the image.

By :mod:`groundtrace.rewards.pretence` a call looked at an object if its output depends on the object. The output of an
operation on the whole image depends on all objects: the image inverted, turned or in tiles, or its histogram. A policy
can make such a call without knowing what the question asks about. So the code is also executed on an image that is
changed only away from the objects (:func:`changed_elsewhere`). With o the share of the visible change that an output
shows if the objects are removed, and e the share of the visible change elsewhere that it shows, the selectivity of the
call is (o - e) / (o + e), and at least 0:

- 1 if the output shows nothing but the objects and the image between them;
- 0 if it shows all parts of the image alike, whatever their size, colours and order. To enlarge or turn the whole image
  can be useful, but everybody can do it without knowing what the question asks about. It pays by a right answer.

Of a text, o and e are the numbers of lines that change: a count of the objects is selective, a list of all shapes less.
A line that also changes with a few pixels anywhere in the image, such as an entropy, does not count.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from groundtrace.rewards.marks import Groups, Pixels, marked_groups
from groundtrace.rewards.pretence import (
    MAX_TEXT_CHARS,
    CallOutputs,
    Output,
    is_whole,
    levels_apart,
    text_changes,
)
from groundtrace.schemas.geometry import Box

_CELL_PX = 8
_LEVELS = 12
"""The pattern's change of a colour, of 255: visible, but too small for code that finds objects by a threshold."""
_MARGIN_PX = 6
"""Nothing is changed within this distance of the objects: honest crops have a margin."""
_MIN_ELSEWHERE = 0.02
"""If a smaller share of the image is away from the objects, every call is selective."""


def changed_elsewhere(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return the image with the rest of it erased: the part outside the smallest rectangle around all boxes, which are
    given in pixels.

    This part gets its median colour with a faint chequered pattern, so that the change is visible there even if the
    image is plain. The image is unchanged if this part is tiny.
    """
    height, width = image.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    elsewhere = np.ones((height, width), bool)
    if boxes:
        left, top = (min(getattr(box, side) for box in boxes) - _MARGIN_PX for side in ("x1", "y1"))
        right, bottom = (max(getattr(box, side) for box in boxes) + _MARGIN_PX for side in ("x2", "y2"))
        elsewhere = (columns < left) | (columns > right) | (rows < top) | (rows > bottom)
    if elsewhere.mean() < _MIN_ELSEWHERE:
        return image
    plain = np.median(image[elsewhere], axis=0).astype(int)
    faint = plain + np.where(plain > 127, -_LEVELS, _LEVELS)
    is_faint = (rows // _CELL_PX + columns // _CELL_PX) % 2 == 0
    found = image.copy()
    found[elsewhere] = np.where(is_faint[elsewhere][:, None], faint, plain)
    return found


@dataclass(frozen=True)
class VisibleChanges:
    """The visible changes of a question's images, in levels, summed over all pixels.

    ``objects``: if the objects are removed; ``elsewhere``: if the images are changed elsewhere, 0 if they cannot be.
    """

    objects: float
    elsewhere: float

    @classmethod
    def between(
        cls, images: Sequence[Pixels], without: Sequence[Sequence[Pixels]], elsewhere: Sequence[Pixels]
    ) -> Self:
        """Return the changes. ``without`` holds the images without each group of the objects."""
        return cls(sum(_apart(images, each) for each in without), _apart(images, elsewhere))


def _apart(images: Sequence[Pixels], others: Sequence[Pixels]) -> float:
    return levels_apart(Output("", tuple(images)), Output("", tuple(others)), range(len(images)))


def selectivity(
    runs: CallOutputs, elsewhere: Output, original: Pixels, groups: Groups, changes: VisibleChanges
) -> float:
    """Return the selectivity of a call, within [0, 1].

    If a call returns text and images, the more selective of them counts. Marks on the whole image are selective,
    because they are looks only if most of them are near the objects. An enlarged view of the whole image shows all
    objects, so its marks are selective by the share of the groups that they are at.

    Args:
        runs: the outputs of the call.
        elsewhere: its output on the images that are changed elsewhere.
        original: the first image.
        groups: the objects that the question asks about.
        changes: the changes of the images.
    """
    shown = runs.shown.images
    whole = [image for image in shown if is_whole(image, original)]
    if not (changes.objects and changes.elsewhere) or any(marked_groups(image, original, groups) for image in whole):
        return 1.0
    without = sum(levels_apart(runs.shown, each, range(len(shown))) for each in runs.without)
    beside = levels_apart(runs.shown, elsewhere, range(len(shown)))
    marked = frozenset[int]().union(*(marked_groups(image, original, groups) for image in shown))
    by_marks = len(marked) / sum(map(bool, groups))
    return max(by_marks, _of_text(runs, elsewhere), _excess(without / changes.objects, beside / changes.elsewhere))


def _of_text(runs: CallOutputs, elsewhere: Output) -> float:
    if not any(text_changes(runs, each) for each in runs.without):
        return 0.0
    shown = _lines(runs.shown)
    steady, without = shown & _lines(runs.nudged), Counter[str]()
    for each in runs.without:
        without |= steady - _lines(each)
    return _excess(without.total(), (shown - _lines(elsewhere)).total())


def _lines(output: Output) -> Counter[str]:
    return Counter(output.text[:MAX_TEXT_CHARS].splitlines())


def _excess(objects: float, elsewhere: float) -> float:
    """Return (objects - elsewhere) / (objects + elsewhere), also if they are infinite; at least 0."""
    if math.isinf(objects):
        return 0.0 if math.isinf(elsewhere) else 1.0
    return (objects - elsewhere) / (objects + elsewhere) if objects > elsewhere else 0.0
