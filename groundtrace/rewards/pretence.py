"""Detects calls (executions of code) that only pretend to look at the image.

CodeDance Eq. 1 considers only exit codes, so ``print(1)`` and a crop of one pixel also earn the reward of a successful
call. Deviation: here such a call is a pretence, and does not count as a success. A call is a pretence if its output
does not depend on the objects that the question is about. In this package, a call *looked at* an object if its output
depends on the object, or if it draws a mark on the object. The reward grows with the share of the question's objects
that the calls looked at. So a crop of a fixed third of the image earns less than a crop of these objects.

The environment executes the code several times, and this module compares the outputs. The runs are:

- two runs on the image;
- one run on the image with a few pixels changed (:func:`nudged`);
- one run for each group of the question's objects (:func:`groups_of`), on the image without this group
  (:func:`without_objects`).

Each run must have a fresh process, an empty folder and the same file names. Otherwise code could recognise the run by a
counter, a file or an image's name, and print a different text in each run.

The following pretences are not detected, because an honest call may have the same output. Most of them earn no more
reward than an answer without a call (:mod:`groundtrace.rewards.selectivity`):

- a number that depends on the amount of colour in the image (entropy, histogram, sums of rows);
- a long list of random digits whose seed is computed from the pixels. A digit seems to depend on an object if it is
  equal in the runs on the image and on the nudged image, but different in the run without the object. In a long list,
  this is true of some digits by chance;
- the whole image, enlarged, turned, in other colours or in parts: the paper teaches these operations;
- crops of all objects in the image, by a policy that does not know which of them the question is about.

There is one exception to the first item: the mean colour of the whole image is detected as a pretence. If an object is
removed from the image, this mean changes so little that it counts as the same number. But the pretence is not detected
if the code magnifies the change.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from groundtrace.rewards.marks import (
    MARK_MARGIN_PX,
    MARKS_COVER,
    Groups,
    Pixels,
    changed_pixels,
    covered,
    marked_groups,
    marks_stay,
)
from groundtrace.schemas.geometry import Box

SHOWS_NOTHING = "shows nothing"
DIFFERS_EACH_TIME = "shows something else each time"
REPEATS = "repeats an earlier call"
SHOWS_ALL = "shows the image as it is"
IGNORES_OBJECTS = "shows the same without what the question asks about"
IDLE = "has only comments and constants"
UNUSED = "gives a result that no later turn uses"
TOLD = "prints the answer that was written into it"

MAX_GROUPS = 4
"""The maximum number of groups of objects. The number of groups determines how often the code of a call is executed.

The code is executed once for each group, on the image without this group. All other checks of the call together execute
the code three to eight more times (:func:`groundtrace.rewards.executing.executions`).
"""
MAX_TEXT_CHARS = 10_000
"""The maximum number of characters of an output's text in which words, numbers and lines are compared.

The text after them is ignored. With its default settings, the sandbox also cuts stdout and stderr after 10,000
characters each. :meth:`Output.is_same` compares whole texts.
"""
_NUDGED_PIXELS = 8
_NOISE = 1.5
"""A call looked at an object if the removal of the object from the question's image changes the output images of
the call by more than this factor times the noise.

The noise is the change of the output images if only a few pixels of the question's image are changed (:func:`nudged`).
"""
_SAME_NUMBER = 0.02
"""Two numbers are the same if they differ by at most this share of the larger one."""
_ENLARGED = 2.0
"""An output image counts as enlarged if it has at least this many times the pixels of the question's image.

An enlarged image does not count as a view of the whole image (:func:`is_whole`).
"""
_THUMBNAIL_PX = 16
_SAME_LEVELS = 4.0
"""Two pixels look the same if their colour levels (0 to 255) differ by at most this. Two images look the same if the
levels of their thumbnails differ by at most this on average.
"""
_TOKEN = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\w)|(\w+|[^\w\s])", re.IGNORECASE)
_Tokens = tuple[Counter[str], list[float]]
"""The words and signs of a text, and its numbers in ascending order."""


@dataclass(frozen=True, eq=False)
class Output:
    """Holds the output of one execution of code: the text that it printed, and the images that it showed."""

    text: str = ""
    images: tuple[Pixels, ...] = ()

    def is_same(self, other: "Output") -> bool:
        """Return whether this output and ``other`` have exactly the same text and the same pixels."""
        images = len(self.images) == len(other.images) and all(map(np.array_equal, self.images, other.images))
        return images and self.text == other.text


@dataclass(frozen=True, eq=False)
class CallOutputs:
    """Holds the outputs of one call's code in several runs, on the image of the question and on changed copies of it.

    Attributes:
        shown: the output on the image.
        again: the output on the same image in a second run.
        nudged: the output on the image with a few pixels changed (:func:`nudged`).
        without: the outputs on the image without one group of the question's objects; there is one output for each
            group.
    """

    shown: Output
    again: Output
    nudged: Output
    without: tuple[Output, ...]


def pretence(
    runs: CallOutputs, original: Pixels, groups: Groups, earlier: Sequence[Output] = (), computes: bool = False
) -> str:
    """Return the reason why a call only pretends to look at the image; "" if it does not pretend.

    The reason is one of the constants of this module, such as :data:`SHOWS_NOTHING`. A call that ended with an error is
    checked in the same way: this function does not consider how the call ended.

    Args:
        runs: the outputs of the call in all runs.
        original: the image of the question.
        groups: the objects that the question is about, in groups (:func:`groups_of`).
        earlier: the outputs of the earlier calls in the same response. A call that repeats one of them is a pretence.
        computes: whether calculation alone can answer the question (mathematics). If so, the output need not depend on
            the image.
    """
    shown, has_text = runs.shown, bool(runs.shown.text.strip())
    seen = looked_at(runs, original, groups)
    if not seen and not has_text and all(map(_is_uniform, shown.images)):
        return SHOWS_NOTHING
    if not shown.is_same(runs.again):
        return DIFFERS_EACH_TIME
    if any(map(shown.is_same, earlier)):
        return REPEATS
    if not seen and not has_text and all(is_whole(image, original) for image in shown.images):
        return SHOWS_ALL
    return "" if computes or seen else IGNORES_OBJECTS


def looked_at(runs: CallOutputs, original: Pixels, groups: Groups) -> frozenset[int]:
    """Return the indices of the object groups that a call looked at.

    A call is one execution of code, and a group is one or several neighbouring objects of the question. A call looked
    at a group in two cases:

    - The output of the call is different for the image without this group. Two kinds of differences are ignored:
      differences that also occur for the image with a few pixels changed (:func:`nudged`), and tiny changes of a
      number. Output images that show the whole question image are ignored, too, because they change whenever an object
      is removed.
    - An output image shows the whole question image, and has marks near each object of the group
      (:func:`groundtrace.rewards.marks.marked_groups`). Marks are pixels that the code drew.

    If the objects of the question are unknown, ``groups`` holds one empty group, which has the index 0. The code is
    then run on a copy in which the whole image is changed (:func:`without_objects`). The result contains 0 in two
    cases:

    - The output is different for this copy. The same differences as above are ignored.
    - An output image shows the whole question image, and the code looks at the image to choose the places of its marks.
      These places are different on the changed copy, but the same on a copy with only a few pixels changed.

    ``runs`` holds the outputs of the call, ``original`` is the image of the question, and ``groups`` are the objects
    that the question is about, in groups (:func:`groups_of`).
    """
    partial = [index for index, image in enumerate(runs.shown.images) if not is_whole(image, original)]
    noise = levels_apart(runs.shown, runs.nudged, partial)
    seen = {
        index
        for index, output in enumerate(runs.without)
        if text_changes(runs, output) or levels_apart(runs.shown, output, partial) > _NOISE * noise
    }
    whole = [index for index in range(len(runs.shown.images)) if index not in partial]
    if not any(groups) and any(_marks_move(runs, index, original) for index in whole):
        seen.add(0)
    return frozenset(seen).union(*(marked_groups(runs.shown.images[index], original, groups) for index in whole))


def _marks_move(runs: CallOutputs, index: int, original: Pixels) -> bool:
    """Return whether the place of the marks (pixels that code drew) in an output image depends on the question's image.

    ``index`` is the index of the output image. The objects of the question are unknown. The result is True if two
    conditions are true:

    - The marks keep their places if only a few pixels of the question's image are changed (:func:`nudged`).
    - The marks are at other places if the whole image is turned by 180° and inverted (:func:`without_objects`).
    """
    shown, *others = (_image(each, index) for each in (runs.shown, runs.nudged, runs.without[0]))
    marks = changed_pixels(shown, original)
    if not 0 < marks.mean() <= MARKS_COVER:
        return False
    stays = (marks_stay(marks, shown, other, image) for other, image in zip(others, _images(original), strict=True))
    return list(stays) == [True, False]


def _images(original: Pixels) -> tuple[Pixels, Pixels]:
    """Return two changed copies of the image, for a question whose objects are unknown.

    In the first copy, a few pixels are changed (:func:`nudged`). In the second copy, the whole image is turned by 180°
    and has inverted colours (:func:`without_objects`).
    """
    return nudged(original, ()), without_objects(original, ())


def _image(output: Output, index: int) -> Pixels:
    """Return the image with this index of an output; an empty image if the output has no such image."""
    return output.images[index] if index < len(output.images) else np.zeros((0, 0, 3), np.uint8)


def text_changes(runs: CallOutputs, other: Output) -> bool:
    """Return whether the text of a call loses a word or a number if the question's image is changed.

    ``runs`` holds the outputs of the call in all runs, and ``other`` is the output for the changed image, such as the
    image without a group of objects. A word or number that the text also loses for the nudged image (a few pixels
    changed) is ignored. Additional words and numbers in ``other``, and the order of the words, are ignored, too. Two
    numbers are the same if they are nearly equal.
    """
    stable = _common(_read(runs.shown), _read(runs.nudged))
    return _common(stable, _read(other)) != stable


def groups_of(boxes: Sequence[Box]) -> tuple[tuple[Box, ...], ...]:
    """Return the objects in at most :data:`MAX_GROUPS` groups of neighbours, ordered from left to right.

    ``boxes`` are the boxes of the objects. If ``boxes`` is empty, the result is one empty group.
    """
    ordered = sorted(boxes, key=lambda box: (box.x1, box.y1))
    count = max(1, min(MAX_GROUPS, len(ordered)))
    bounds = [len(ordered) * index // count for index in range(count + 1)]
    return tuple(tuple(ordered[start:end]) for start, end in itertools.pairwise(bounds))


def nudged(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return a copy of the image that looks the same: a few pixels get the colours of their right neighbours.

    The output of some code depends on the exact pixels. Examples of such outputs are a hash of the pixels, a parity,
    and random numbers that are seeded with the pixels. Such code gives another output for the copy. Honest code gives
    the same output: the counts and positions of objects do not change, and the copy has no new colour.

    Only pixels whose right neighbour has another colour can be changed. ``boxes`` are the boxes of the question's
    objects, in pixels. Pixels near these boxes are changed only if no pixel elsewhere can be changed.
    """
    changes = (image[:, :-1] != image[:, 1:]).any(axis=2)
    away = changes & ~covered(image, boxes, MARK_MARGIN_PX)[:, :-1]
    rows, columns = np.nonzero(away if away.any() else changes)
    chosen = np.linspace(0, max(0, len(rows) - 1), min(_NUDGED_PIXELS, len(rows))).astype(int)
    found = image.copy()
    found[rows[chosen], columns[chosen]] = image[rows[chosen], columns[chosen] + 1]
    return found


def without_objects(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return a copy of the image in which each box is filled with the mean colour of the pixels around it.

    ``boxes`` are the boxes of the objects to remove, in pixels. If ``boxes`` is empty, the objects of the question are
    unknown. In this case the function returns the image turned by 180°, in inverted colours.
    """
    if not boxes:
        return np.invert(image[::-1, ::-1]).astype(np.uint8)
    painted = image.copy()
    for box in boxes:
        inside = covered(image, (box,))
        around = covered(image, (box,), 2) & ~inside
        colour = image[around].mean(axis=0) if around.any() else 255 - image.mean(axis=(0, 1))
        painted[inside] = np.round(colour)
    return painted


def numbers_in(output: Output) -> list[float]:
    """Return the numbers in the text of an output, in ascending order; for example, [3.0, 12.5] for "12.5 and 3"."""
    return _read(output)[1]


def _read(output: Output) -> _Tokens:
    found = _TOKEN.findall(output.text[:MAX_TEXT_CHARS])
    return Counter(word for _, word in found if word), sorted(float(number) for number, _ in found if number)


def _common(tokens: _Tokens, others: _Tokens) -> _Tokens:
    """Return the part of ``tokens`` that ``others`` also contains; numbers match if they are nearly equal."""
    (words, numbers), (other_words, other_numbers) = tokens, others
    found, first, second = list[float](), 0, 0
    while first < len(numbers) and second < len(other_numbers):
        own, other = numbers[first], other_numbers[second]
        is_same = math.isclose(own, other, rel_tol=_SAME_NUMBER)
        if is_same:
            found.append(own)
        first += is_same or own < other
        second += is_same or own > other
    return words & other_words, found


def levels_apart(shown: Output, other: Output, indices: Sequence[int]) -> float:
    """Return how much the images of two outputs differ: the sum of their differences in colour levels (0 to 255).

    The sum is over all pixels and colour channels. Differences of at most ``_SAME_LEVELS`` levels are left out, because
    they are hardly visible. ``indices`` holds the indices of the images to compare: an image of ``shown`` is compared
    with the image of ``other`` at the same index. If their sizes differ, the image of ``other`` is first resized. The
    result is infinite if the outputs have different numbers of images, or if an image is empty in only one of the
    outputs.
    """
    if len(shown.images) != len(other.images):
        return math.inf
    apart = 0.0
    for image, changed in ((shown.images[index], other.images[index]) for index in indices):
        if image.shape != changed.shape:
            if not (image.size and changed.size):
                return math.inf
            changed = np.asarray(cv2.resize(changed, image.shape[1::-1]), np.uint8)
        levels = np.abs(image.astype(int) - changed)
        apart += float(levels[levels > _SAME_LEVELS].sum())
    return apart


def is_whole(image: Pixels, original: Pixels) -> bool:
    """Return whether an output image shows the whole original image or nearly all of it, with or without marks.

    Marks are pixels that the code drew. The result is False for an empty image, and for an enlarged one (at least twice
    the pixels of the original).
    """
    if image.size == 0 or image.size >= _ENLARGED * original.size:
        return False
    if image.shape == original.shape and (image != original).any(axis=2).mean() <= MARKS_COVER:
        return True
    size = min(_THUMBNAIL_PX, image.shape[1]), min(_THUMBNAIL_PX, image.shape[0])
    small, whole = (cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in (image, original))
    return float(np.abs(small.astype(float) - whole).mean()) <= _SAME_LEVELS


def _is_uniform(image: Pixels) -> bool:
    return image.size == 0 or bool((image == image[0, 0]).all())
