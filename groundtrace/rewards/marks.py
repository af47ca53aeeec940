"""Finds the marks in an image, and the objects that they mark.

Marks are pixels that code drew in the image, such as boxes, points and labels.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.schemas.geometry import Box

Pixels = NDArray[np.uint8]
"""An image: height × width × 3."""
Groups = Sequence[Sequence[Box]]
"""The boxes of a question's objects, in groups of neighbours (:func:`groundtrace.rewards.pretence.groups_of`)."""

MARKS_COVER = 0.1
"""The maximum share of pixels in which an output image may differ from the original image.

If the share is higher, the output does not count as the original image with marks.
"""
MARK_MARGIN_PX = 6
_MARK_LEVELS = 16
_BLEND_LEVELS = 32
"""A limit, in colour levels (0 to 255), that decides which pixels of an enlarged image are marks.

A pixel is a mark if its colour is outside the range of the original colours around it by more than this limit. The
limit is needed because resampling and sharpening blend the colours at an edge: such pixels are not marks.
"""
_MARK_PIXELS = 4
_MARKS_NEAR = 0.5
"""Code has marked objects (drawn at them) only if more than this share of all changed pixels is near the objects. Half
is not enough: if code moves an object, half of the changed pixels are near the object's old place, although the code
has marked nothing. An object is marked only if at least ``_MARK_PIXELS`` changed pixels are near its box."""
_PRECISE_NEAR = 0.9
_MARKS_STAY = 0.5
"""Marks (pixels that code drew) stay at their places if at least this share of their pixels is marked in both images:
the outputs of the code for the question's image and for a second image (:func:`marks_stay`)."""


def covered(image: Pixels, boxes: Sequence[Box], margin: int = 0) -> NDArray[np.bool_]:
    """Return a mask (height × width) that is True at the pixels inside or near the boxes.

    A pixel is near a box if it is at most ``margin`` pixels away. The boxes are given in pixels of the image.
    """
    found = np.zeros(image.shape[:2], dtype=bool)
    for box in boxes:
        left, top = (max(0, int(side) - margin) for side in (box.x1, box.y1))
        right, bottom = (max(0, math.ceil(side) + 1 + margin) for side in (box.x2, box.y2))
        found[top:bottom, left:right] = True
    return found


def changed_pixels(image: Pixels, given: Pixels) -> NDArray[np.bool_]:
    """Return a mask (height × width) that is True at the pixels at which two images visibly differ.

    ``image`` is an image that code returned, and ``given`` is the image that the code received. The mask has the size
    of ``given``. It is False everywhere if the images differ in size.
    """
    if image.shape != given.shape:
        return np.zeros(given.shape[:2], dtype=bool)
    return np.asarray((np.abs(image.astype(int) - given) > _MARK_LEVELS).any(axis=2))


def enlarged_marks(image: Pixels, original: Pixels) -> NDArray[np.bool_]:
    """Return a mask of the marks in an enlarged view of an image; marks are pixels that code drew.

    ``image`` is the output of the code, and ``original`` the image that the code received. The mask has the height and
    width of the original. It is False everywhere if ``image`` is not an enlarged view of the whole original. There are
    three such cases: ``image`` is not larger than the original, it has other proportions, or the share of pixels in
    which it differs from the original is above :data:`MARKS_COVER`.
    """
    height, width = original.shape[:2]
    none, scale = np.zeros((height, width), dtype=bool), image.shape[0] / height
    if scale <= 1 or abs(image.shape[1] - scale * width) > scale:
        return none
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).astype(int)
    around = np.ones((3, 3), np.uint8)
    low, high = cv2.erode(original, around).astype(int), cv2.dilate(original, around).astype(int)
    marks = np.asarray(((small < low - _BLEND_LEVELS) | (small > high + _BLEND_LEVELS)).any(axis=2))
    return marks if marks.mean() <= MARKS_COVER else none


def marked_groups(image: Pixels, original: Pixels, groups: Groups) -> frozenset[int]:
    """Return the indices of the object groups that code marked: each object of the group has marks near it.

    ``groups`` are the question's objects, in groups of neighbours. Marks are pixels that the code drew in ``image``.
    This image must have the size of the ``original``, or be an enlarged view of it (:func:`enlarged_marks`); otherwise
    the result is empty. It is also empty if half or more of the marks are not near any object.
    """
    changed = _marks(image, original)
    if _share_near(changed, original, groups) <= _MARKS_NEAR:
        return frozenset()
    return frozenset(
        index
        for index, group in enumerate(groups)
        if group and all(changed[covered(original, (box,), MARK_MARGIN_PX)].sum() >= _MARK_PIXELS for box in group)
    )


def precision_of_marks(image: Pixels, original: Pixels, groups: Groups) -> float:
    """Return the precision of the marks in an image, from 0 to 1: 1 if nearly all are near the question's objects.

    Marks are pixels that code drew in ``image``, a view of ``original``. ``groups`` are the question's objects, in
    groups of neighbours. A pixel is near an object if it is at most ``MARK_MARGIN_PX`` pixels away from the object's
    box. The precision depends on the share of the marks that is near an object. It is 0 for a share of at most 1/2, 1
    for a share of at least 9/10, and linear between them. A share of 9/10 is enough, because code may write a label
    next to an object: the label is a mark, too, and a part of it may be too far away to count as near.
    """
    share = _share_near(_marks(image, original), original, groups)
    return min(1.0, max(0.0, (share - _MARKS_NEAR) / (_PRECISE_NEAR - _MARKS_NEAR)))


def _marks(image: Pixels, original: Pixels) -> NDArray[np.bool_]:
    is_enlarged = image.shape != original.shape
    return enlarged_marks(image, original) if is_enlarged else changed_pixels(image, original)


def _share_near(marks: NDArray[np.bool_], original: Pixels, groups: Groups) -> float:
    """Return the share of the marks that is near the question's objects; 0 if there are no marks.

    ``marks`` is the mask of the marks: pixels that code drew. The mask has the height and width of ``original``, the
    image that the code received. ``groups`` are the objects, in groups of neighbours. A pixel is near an object if it
    is at most ``MARK_MARGIN_PX`` pixels away from the object's box.
    """
    near = covered(original, [box for group in groups for box in group], MARK_MARGIN_PX)
    return float(marks[near].sum() / marks.sum()) if marks.any() else 0.0


def marks_stay(marks: NDArray[np.bool_], shown: Pixels, other: Pixels, given: Pixels) -> bool:
    """Return whether code draws its marks in a second image at the same places as in the question's image.

    Marks are pixels that the code drew. For the question's image, the output of the code is ``shown``. For the second
    image ``given``, the output is ``other``. The result is True if at least half of the pixels of ``marks`` are also
    marked in ``other``. It is False if the two outputs differ in size.

    A pixel of ``other`` is marked in two cases. In the first case, its colour visibly differs from the colour at the
    same place in ``given``. In the second case, its colour equals the colour at the same place in ``shown``. The second
    case is needed for a mark in the colour of the second image, such as a black frame on black: the mark does not
    change the pixels of ``given``.

    Args:
        marks: the mask of the marks in ``shown`` (height × width), with at least one pixel.
        shown: the output of the code for the question's image.
        other: the output of the same code for the second image.
        given: the second image, as the code received it.
    """
    if other.shape != shown.shape:
        return False
    same = changed_pixels(other, given) | (other == shown).all(axis=2)
    return float(same[marks].mean()) >= _MARKS_STAY
