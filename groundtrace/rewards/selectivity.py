"""Measures how selective a call is: how much more its output shows the question's objects than the rest of the image.

A call is one execution of code in a response. The module :mod:`groundtrace.rewards.pretence` checks whether the output
of a call depends on the question's objects. But some outputs depend on all objects in the image. Examples are a
histogram of the image, and the whole image inverted, turned or divided into tiles. A policy (the model in training) can
make such a call without knowing which objects the question is about. So the code is also executed on two copies of the
image that are changed only outside the question's objects. In the first copy, all other things are erased
(:func:`erased_elsewhere`). In the second copy, a faint pattern is added (:func:`patterned_elsewhere`).

Two numbers are compared. The number o measures how much the output shows the question's objects, and e measures how
much it shows the rest of the image. Both are quotients: the change of the call's output, divided by the change of the
image that caused it. For o, the question's objects are removed from the image. For e, the quotient is computed for each
of the two copies above, and the larger quotient is used. The selectivity of the call is (o - e) / (o + e), and at least
0. It has these values:

- It is 1 if the output shows nothing but the objects.
- It is 0 if the output shows all parts of the image equally, e.g. the whole image enlarged, turned, in other colours or
  in tiles. Such a view can be useful, but a policy can produce it without knowing the question. Such a call is rewarded
  only if it leads to a right answer.
- It is 0 if the output shows all things in the image equally. An example is a mask of everything but the background.
  The faint pattern does not change this output, but the erasing of the other things does.
- It is 0 if the number or the size of the output's images depends on the other things. An example is a montage of all
  things.

A crop around several of the question's objects also shows the other things between these objects. In the first copy,
the other things between the objects are erased, too. So a crop is more selective if it shows fewer other things. The
pattern of the second copy is not between the objects: it is only outside the smallest rectangle around all of the
question's objects. This is because a plain background between the objects reveals nothing. So a crop that shows such a
background should not be less selective.

For a text, o and e are the numbers of lines that change. A count of the objects is selective, and a list of all shapes
is less selective. Some lines, such as an entropy, also change if a few pixels anywhere in the image change. Such lines
are not counted in o, but are counted in e.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.rewards.marks import Groups, Pixels, marked_groups, precision_of_marks
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
"""The change of a colour value (0 to 255) in the faint pattern that :func:`patterned_elsewhere` adds to an image.

The change is visible, but too small to affect code that finds objects by a threshold.
"""
_MARGIN_PX = 6
"""Within this distance of the objects' boxes, the changed images are the same as the question's image.

An honest crop often has a margin around the objects. A change in this margin would lower the crop's selectivity.
"""
_MAX_BACKGROUND_PX = 400
"""The maximum length of an image's longer side when its median colours are computed. A larger image is first reduced to
this length, because the computation would take longer for the large image.
"""
_MIN_ELSEWHERE = 0.02
"""The minimum size of the part outside the objects, as a share of the image. A smaller part is not changed. If the part
is not changed in any image of a question, every call has the highest selectivity, 1.
"""


def erased_elsewhere(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return a copy of the image without the things that are outside the boxes.

    ``boxes`` are the boxes of the question's objects in pixels. Each pixel that is more than 6 px outside all boxes
    gets the median colour of a square around it, whose side is half the shorter side of the image. So small things
    disappear, and large parts of the background stay. If the part outside the boxes is less than 2 % of the image, the
    copy is not changed.
    """
    found, elsewhere = image.copy(), np.ones(image.shape[:2], bool)
    for box in boxes:
        elsewhere &= _outside(image, [box])
    elsewhere = _large(elsewhere)
    found[elsewhere] = _background(image)[elsewhere]
    return found


def _background(image: Pixels) -> Pixels:
    height, width = image.shape[:2]
    scale = min(1.0, _MAX_BACKGROUND_PX / max(height, width))
    size = max(1, round(scale * width)), max(1, round(scale * height))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    background = cv2.medianBlur(small, 2 * (min(size) // 4) + 1)
    return np.asarray(cv2.resize(background, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def patterned_elsewhere(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return a copy of the image with a faint chequered pattern outside the smallest rectangle around all boxes.

    ``boxes`` are the boxes of the question's objects in pixels. The pattern is a visible change even if the image is
    plain. If the part outside the rectangle is less than 2 % of the image, the copy is not changed.
    """
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    fainter = _large(_outside(image, boxes)) & ((rows // _CELL_PX + columns // _CELL_PX) % 2 == 0)
    found = image.copy()
    found[fainter] = np.where(image > 127, image - _LEVELS, image + _LEVELS)[fainter]
    return found


def _outside(image: Pixels, boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Return a mask, height × width, that is True outside the smallest rectangle around all boxes.

    A margin of 6 px around this rectangle is False, too. Without boxes, the mask is True everywhere.
    """
    if not boxes:
        return np.ones(image.shape[:2], bool)
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    left, top = (min(getattr(box, side) for box in boxes) - _MARGIN_PX for side in ("x1", "y1"))
    right, bottom = (max(getattr(box, side) for box in boxes) + _MARGIN_PX for side in ("x2", "y2"))
    return (columns < left) | (columns > right) | (rows < top) | (rows > bottom)


def _large(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask unchanged; if less than 2 % of it is True, return a mask that is False everywhere."""
    return mask & (mask.mean() >= _MIN_ELSEWHERE)


@dataclass(frozen=True)
class VisibleChanges:
    """Holds how much a question's images were changed, in colour levels, summed over all pixels.

    ``objects`` is the change of the images if the question's objects are removed. ``elsewhere`` has one number for each
    way of changing the images outside these objects; the number is 0 if this way changes no pixel.
    """

    objects: float
    elsewhere: tuple[float, ...]

    @classmethod
    def between(
        cls, images: Sequence[Pixels], without: Sequence[Sequence[Pixels]], elsewhere: Sequence[Sequence[Pixels]]
    ) -> Self:
        """Return how much the changed copies of the images differ from the images.

        Args:
            images: the question's images.
            without: for each group of neighbouring objects of the question, copies of the images without this group.
            elsewhere: for each way of changing the images outside the objects, the changed copies.
        """
        beside = tuple(_apart(images, each) for each in elsewhere)
        return cls(sum(_apart(images, each) for each in without), beside)


def _apart(images: Sequence[Pixels], others: Sequence[Pixels]) -> float:
    return levels_apart(Output("", tuple(images)), Output("", tuple(others)), range(len(images)))


def selectivity(
    runs: CallOutputs, elsewhere: Sequence[Output], original: Pixels, groups: Groups, changes: VisibleChanges
) -> float:
    """Return how much more the output of code shows the question's objects than the rest of the image, from 0 to 1.

    A call is one execution of code. Its selectivity is (o - e) / (o + e), and at least 0. Both o and e are quotients:
    the change of the output, divided by the change of the image that caused it. For o, the objects are removed from the
    image. For e, the rest of the image is changed; the largest quotient of all ways to change it is used. The following
    rules apply:

    - If a call has text and images as output, the selectivity is computed once from the text and once from the images.
      The higher of these two numbers is used. For the text, o and e are the numbers of lines that change.
    - A call may draw marks, such as boxes, at objects. The question's objects are divided into groups of neighbours,
      and a group is marked if each of its objects has a mark. If at least one group is marked, the selectivity is at
      least the precision of the marks. The precision is 1 if nearly all marked pixels are near the question's objects,
      and 0 if at most half of them are (:func:`groundtrace.rewards.marks.precision_of_marks`). If the output is an
      enlarged view, the precision is first multiplied by the share of the groups that are marked.
    - The selectivity is 1 if removing the objects changes no pixel (``changes.objects`` is 0), or if no way changes the
      rest of the image (all of ``changes.elsewhere`` are 0).

    Args:
        runs: the outputs of the call on the image, and on copies of the image; in each copy, one group of objects is
            removed.
        elsewhere: the outputs of the call on the images that are changed outside the objects, in the order of
            ``changes.elsewhere``.
        original: the first image of the question.
        groups: the objects that the question is about, in groups of neighbours.
        changes: how much the images themselves were changed.
    """
    shown = runs.shown.images
    if not (changes.objects and any(changes.elsewhere)):
        return 1.0
    places = range(len(shown))
    without = sum(levels_apart(runs.shown, each, places) for each in runs.without)
    beside = [
        _apart_or_resized(runs.shown, output) / change
        for output, change in zip(elsewhere, changes.elsewhere, strict=True)
        if change
    ]
    by_marks = max((_of_marks(image, original, groups) for image in shown), default=0.0)
    return max(by_marks, _of_text(runs, elsewhere), _excess(without / changes.objects, max(beside)))


def _of_marks(image: Pixels, original: Pixels, groups: Groups) -> float:
    precision = precision_of_marks(image, original, groups)
    if not precision:
        return 0.0
    marked = marked_groups(image, original, groups)
    share = bool(marked) if is_whole(image, original) else len(marked) / sum(map(bool, groups))
    return share * precision


def _apart_or_resized(shown: Output, elsewhere: Output) -> float:
    """Return how much the displayed images differ between two executions of the same code, in colour levels.

    ``shown`` is the output for the question's image. ``elsewhere`` is the output for a copy of this image that was
    changed only outside the question's objects. The result is infinite if the two outputs differ in the number or in
    the size of their images. The code then depends on more than the question's objects, so its selectivity is 0.
    """
    if any(image.shape != other.shape for image, other in zip(shown.images, elsewhere.images, strict=False)):
        return math.inf
    return levels_apart(shown, elsewhere, range(len(shown.images)))


def _of_text(runs: CallOutputs, elsewhere: Sequence[Output]) -> float:
    if not any(text_changes(runs, each) for each in runs.without):
        return 0.0
    shown = _lines(runs.shown)
    steady, without = shown & _lines(runs.nudged), Counter[str]()
    for each in runs.without:
        without |= steady - _lines(each)
    return _excess(without.total(), max((shown - _lines(each)).total() for each in elsewhere))


def _lines(output: Output) -> Counter[str]:
    return Counter(output.text[:MAX_TEXT_CHARS].splitlines())


def _excess(objects: float, elsewhere: float) -> float:
    """Return the selectivity (objects - elsewhere) / (objects + elsewhere), but at least 0.

    ``objects`` measures how much an output shows the question's objects, and ``elsewhere`` how much it shows the rest
    of the image. If only ``objects`` is infinite, the result is 1. If ``elsewhere`` is infinite, the result is 0.
    """
    if math.isinf(objects):
        return 0.0 if math.isinf(elsewhere) else 1.0
    return (objects - elsewhere) / (objects + elsewhere) if objects > elsewhere else 0.0
