"""Whether a call of code looked: does what it shows tell anything of the image that the policy did not have?

A reward for calls that end well is also earned by ``print(1)`` and by a crop of one pixel (CodeDance Eq. 1 counts exit
statuses alone). Deviation: a call whose output is the same without what the question asks about is a pretence and
counts as one that did not succeed, and the calls earn by the share of those objects that they looked at, so that a crop
of a fixed third of the image does not earn what a crop of the objects does. The environment that executes the code runs
it on the image, on the image again, and on the image with each group of those objects painted over (:func:`groups_of`,
:func:`without_objects`), and compares the outputs here.

Not found out: code that depends on the objects and tells nothing of use, such as the sum of the pixels, and the whole
image enlarged, which is an operation that the paper teaches.
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
"""Of objects that are painted over one by one: a call is executed at most so often, and twice more."""
_THUMBNAIL_PX = 16
_SAME_LEVELS = 4.0
"""Two images show the same where their thumbnails differ by no more than this on average, of 255."""


@dataclass(frozen=True, eq=False)
class Output:
    """What a call printed, and the images that it showed."""

    text: str = ""
    images: tuple[Pixels, ...] = ()

    def is_same(self, other: "Output") -> bool:
        """Whether both hold the same text and pixels."""
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
    """Returns why a call that ended well was no look, "" where it was one.

    ``again`` is the output of the same code on the same image, ``without`` those on the image without each group of the
    objects asked about, ``original`` the image, ``earlier`` what the calls before it showed, ``computes`` that the
    question is one where calculating helps (mathematics), so that an output need not depend on the image.
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
    """Returns which groups of objects a call looked at: those without which its output is another."""
    return frozenset(index for index, output in enumerate(without) if not shown.is_same(output))


def groups_of(boxes: Sequence[Box]) -> tuple[tuple[Box, ...], ...]:
    """Returns the objects in at most :data:`MAX_GROUPS` groups of neighbours, from left to right; one empty group
    without objects.
    """
    ordered = sorted(boxes, key=lambda box: (box.x1, box.y1))
    count = max(1, min(MAX_GROUPS, len(ordered)))
    bounds = [len(ordered) * index // count for index in range(count + 1)]
    return tuple(tuple(ordered[start:end]) for start, end in itertools.pairwise(bounds))


def without_objects(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Returns the image with each box, in pixels, painted over in the mean colour of the pixels around it.

    Without boxes nobody knows what is asked about: the image is then turned around, in inverted colours.
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
    """Whether an image is the original, or nearly all of it, and no larger."""
    if image.size > original.size:
        return False
    small, whole = (cv2.resize(each, (_THUMBNAIL_PX,) * 2, interpolation=cv2.INTER_AREA) for each in (image, original))
    return float(np.abs(small.astype(float) - whole).mean()) <= _SAME_LEVELS


def _is_uniform(image: Pixels) -> bool:
    return image.size == 0 or bool((image == image[0, 0]).all())
