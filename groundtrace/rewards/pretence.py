"""Detects tool calls (executed code) that only pretend to look at the image.

CodeDance Eq. 1 rewards every call with exit code 0, so ``print(1)`` and a crop of one pixel earn it, too. Deviation: a
call whose output does not depend on the objects in the question is a pretence and counts as failed. The reward grows
with the share of those objects that the calls looked at, so that a crop of a fixed third of the image earns less than a
crop of the objects. The environment that executes the code runs it on the image, on the image again, and on the image
with each group of those objects painted over (:func:`groups_of`, :func:`without_objects`); this module compares the
outputs.

Not detected: code whose output depends on the objects but is useless, such as the sum of the pixels, and an enlarged
copy of the whole image, which is an operation that the paper teaches.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.schemas.geometry import Box

Pixels = NDArray[np.uint8]
"""An image: height × width × 3."""

SHOWS_NOTHING = "shows nothing"
DIFFERS_EACH_TIME = "shows something else each time"
REPEATS = "repeats an earlier call"
SHOWS_ALL = "shows the image as it is"
IGNORES_OBJECTS = "shows the same without what the question asks about"

MAX_GROUPS = 4
"""The maximum number of object groups that are painted over; a call is executed at most this many times plus two."""
_THUMBNAIL_PX = 16
_SAME_LEVELS = 4.0
"""Two images are the same if the mean difference of their thumbnails is at most this, of 255 levels."""


@dataclass(frozen=True, eq=False)
class Output:
    """The output of a call: printed text and shown images."""

    text: str = ""
    images: tuple[Pixels, ...] = ()

    def is_same(self, other: "Output") -> bool:
        """Whether both have the same text and pixels."""
        images = len(self.images) == len(other.images) and all(map(np.array_equal, self.images, other.images))
        return images and self.text == other.text


def pretence(
    shown: Output,
    again: Output,
    without: Sequence[Output],
    original: Pixels,
    earlier: Sequence[Output] = (),
    computes: bool = False,
) -> str:
    """Returns the reason why a successful call did not look at the image; "" if it did.

    ``again`` is the output of the same code on the same image, ``without`` are its outputs on the image without each
    group of the question's objects, ``original`` is the image, ``earlier`` are the outputs of earlier calls.
    ``computes`` is whether calculation helps to answer the question (mathematics); then the output need not depend on
    the image.
    """
    images_alone = not shown.text.strip()
    if images_alone and all(map(_is_uniform, shown.images)):
        return SHOWS_NOTHING
    if not shown.is_same(again):
        return DIFFERS_EACH_TIME
    if any(map(shown.is_same, earlier)):
        return REPEATS
    if images_alone and all(_is_whole(image, original) for image in shown.images):
        return SHOWS_ALL
    return "" if computes or looked_at(shown, without) else IGNORES_OBJECTS


def looked_at(shown: Output, without: Sequence[Output]) -> frozenset[int]:
    """Returns the indices of the object groups that a call looked at: without them, its output differs."""
    return frozenset(index for index, output in enumerate(without) if not shown.is_same(output))


def groups_of(boxes: Sequence[Box]) -> tuple[tuple[Box, ...], ...]:
    """Returns the objects in at most :data:`MAX_GROUPS` groups of neighbours, from left to right.

    Without objects there is one empty group.
    """
    ordered = sorted(boxes, key=lambda box: (box.x1, box.y1))
    count = max(1, min(MAX_GROUPS, len(ordered)))
    bounds = [len(ordered) * index // count for index in range(count + 1)]
    return tuple(tuple(ordered[start:end]) for start, end in itertools.pairwise(bounds))


def without_objects(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Returns the image with each box (in pixels) painted over in the mean colour of the pixels around it.

    Without boxes the objects of the question are unknown: then the image is rotated by 180° and its colours inverted.
    """
    if not boxes:
        return np.invert(image[::-1, ::-1]).astype(np.uint8)
    painted, (height, width) = image.copy(), image.shape[:2]
    for box in boxes:
        left, right = np.clip((int(box.x1), int(np.ceil(box.x2)) + 1), 0, width)
        top, bottom = np.clip((int(box.y1), int(np.ceil(box.y2)) + 1), 0, height)
        around = np.zeros((height, width), dtype=bool)
        around[max(0, top - 2) : bottom + 2, max(0, left - 2) : right + 2] = True
        around[top:bottom, left:right] = False
        colour = image[around].mean(axis=0) if around.any() else 255 - image.mean(axis=(0, 1))
        painted[top:bottom, left:right] = np.round(colour)
    return painted


def _is_whole(image: Pixels, original: Pixels) -> bool:
    """Whether an image is the original or nearly all of it, and not larger."""
    if image.size > original.size:
        return False
    small, whole = (cv2.resize(each, (_THUMBNAIL_PX,) * 2, interpolation=cv2.INTER_AREA) for each in (image, original))
    return float(np.abs(small.astype(float) - whole).mean()) <= _SAME_LEVELS


def _is_uniform(image: Pixels) -> bool:
    return image.size == 0 or bool((image == image[0, 0]).all())
