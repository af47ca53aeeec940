"""Counting by pointing: the points on what a question counts stand one to one with the instances that are found.

Not in the papers. Argos Eq. 3 asks of each point whether it lies on its object; it does not see an object that was
passed over, nor two points on one object. Where a question asks how many and the response points at what it counts, the
detector's instances of these labels (:mod:`rewards.locating`) are the other side of the pairing. The verdict is
not a term of Eq. 9; the stage holds it against a floor of its own.

"How many red squares touch the edge?" counts some of the red squares only, and which ones no detector can say. So the
verdict is given only where the number of instances is the answer, which the outcome has found right; else unscored.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from inference.grounding import BadReply, Mask
from rewards import locating
from rewards.case import Case
from rewards.locating import ObjectMasks, find_instances
from rewards.scorer import LOCATABLE, NO_CLIPS, Scorer
from schemas.answers.numerals import read_numerals
from schemas.answers.registry import answer_type_named
from schemas.geometry import Point
from schemas.records import Verdict

NAME = "counting"
SAME_OBJECT_IOU = 0.5
"""Masks of two labels that overlap by this much are one object: "square" and "red square"."""

_ASKS = re.compile(r"\b(?:how many|number of|count(?: all)?(?: of)?)\s([^?.,;:!\"]{1,120})", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_ENDS = re.compile(
    "are|is|was|were|do|does|did|can|could|have|has|had|there|you|in|on|at|of|to|with|without|that|which|who|from|for|"
    "touching|inside|under|over|near|behind|between"
)
_SKIPPED = frozenset({"the", "a", "an", "all", "these", "those", "different", "total", "or", "and", "of"})
_COMPARED = frozenset({"more", "fewer", "less"})
_GENERAL = frozenset({"object", "item", "thing", "shape", "figure", "instance"})
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "mice": "mouse"}


def counted_phrase(question: str) -> tuple[str, ...] | None:
    """The words, in the singular, for what a question counts; None where it does not ask how many, or how many more.

    "How many of the red cars are parked?" gives red, car.
    """
    asked = _ASKS.search(question)
    if asked is None:
        return None
    words: list[str] = []
    for word in (match.group().lower() for match in _WORD.finditer(asked.group(1))):
        if _ENDS.fullmatch(word) and (words or word != "of"):
            break
        if word not in _SKIPPED:
            words.append(_singular(word))
    return None if _COMPARED.intersection(words) else tuple(words)


def counted_words(question: str) -> frozenset[str] | None:
    """The words of :func:`counted_phrase` that tell things apart: none for "How many objects?", which fits all."""
    phrase = counted_phrase(question)
    return None if phrase is None else frozenset(phrase) - _GENERAL


def is_counted(label: str, words: frozenset[str]) -> bool:
    """Whether a label names what is counted: one of both phrases has all the words of the other."""
    own = frozenset(_singular(match.group().lower()) for match in _WORD.finditer(label)) - _SKIPPED - _GENERAL
    return words <= own or (bool(own) and own <= words)


def counted_points(question: str, points: Sequence[Point]) -> tuple[Point, ...] | None:
    """The points on what the question counts; None where it does not ask how many."""
    words = counted_words(question)
    return None if words is None else tuple(point for point in points if is_counted(point.label, words))


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True)
class Pairing:
    """Points against instances. ``missed`` counts instances without a point, ``twice`` instances with one too many,
    ``off`` points on none."""

    points: int
    instances: int
    missed: int
    twice: int
    off: int

    @property
    def value(self) -> float:
        """Instances with a point, over these and all that is too much or too little: 1 only when one to one.

        There must be a point or an instance.
        """
        pointed = self.instances - self.missed
        return pointed / (self.points + self.instances - pointed)


def pair(places_px: Sequence[tuple[float, float]], masks: Sequence[Mask]) -> Pairing:
    """Pairs as many positions as possible with masks that hold them, each with one: a maximum matching.

    The order of the positions changes nothing.
    """
    options = [[index for index, mask in enumerate(masks) if mask.holds(*place)] for place in places_px]
    # Positions on the same masks are alike, so that the sorted ones are the same for every order of positions.
    on = sorted(filter(None, options))
    taken = _matched(on)
    crowded = {held[0] for number, held in enumerate(on) if number not in taken}
    return Pairing(len(places_px), len(masks), len(masks) - len(taken), len(crowded), len(options) - len(on))


def _matched(options: Sequence[Sequence[int]]) -> dict[int, int]:
    """A maximum matching by augmenting paths: for positions by number one mask of their options, each mask once.

    A position whose masks are all taken gets one where those that have them can move on, one after another, to a mask
    that is free. One that was matched stays so.
    """
    mask_of: dict[int, int] = {}
    holder: dict[int, int] = {}
    for start in range(len(options)):
        reached: dict[int, int] = {}  # of each mask the position that would move there
        waiting, free = deque([start]), None
        while waiting and free is None:
            position = waiting.popleft()
            for mask in options[position]:
                if mask in reached:
                    continue
                reached[mask] = position
                if mask not in holder:
                    free = mask
                    break
                waiting.append(holder[mask])
        while free is not None:  # from the free mask back to the start, each position moves one mask on
            position = reached[free]
            holder[free], mask_of[position], free = position, free, mask_of.get(position)
    return mask_of


def distinct(masks: Iterable[Mask]) -> tuple[Mask, ...]:
    """The masks without those that show an object once more; of such the largest stays, whatever their order."""
    kept: list[Mask] = []
    for mask in sorted(masks, key=_size_and_place, reverse=True):
        if all(_iou(mask, other) < SAME_OBJECT_IOU for other in kept):
            kept.append(mask)
    return tuple(kept)


def _size_and_place(mask: Mask) -> tuple[int, int, int, tuple[int, ...], bytes]:
    return int(np.count_nonzero(mask.pixels)), mask.x, mask.y, mask.pixels.shape, mask.pixels.tobytes()


def _iou(a: Mask, b: Mask) -> float:
    left, top = max(a.x, b.x), max(a.y, b.y)
    right = min(a.x + a.pixels.shape[1], b.x + b.pixels.shape[1])
    bottom = min(a.y + a.pixels.shape[0], b.y + b.pixels.shape[0])
    if right <= left or bottom <= top:
        return 0.0
    ours = a.pixels[top - a.y : bottom - a.y, left - a.x : right - a.x]
    theirs = b.pixels[top - b.y : bottom - b.y, left - b.x : right - b.x]
    both = np.count_nonzero(ours & theirs)
    return both / max(np.count_nonzero(a.pixels) + np.count_nonzero(b.pixels) - both, 1)


async def score_counting(
    points: Sequence[Point], answer: str | None, entities: Sequence[str], masks: ObjectMasks
) -> Verdict:
    """The share of a perfect pairing, over all images of the question: 1 when points and instances are one to one.

    ``points`` are those of the whole response, ``answer`` is its final one. ``entities`` are the phrases that the
    pointer was asked for: those of what is counted are looked for too, so that a class passed over altogether is seen.
    Where the instances are still not as many as the answer, what is counted is looked for in the question's own words.
    Evidence: one JSON object per image, the fields of :class:`Pairing` with ``media_index``.
    """
    question = masks.question.question
    words, counted = counted_words(question), counted_points(question, points)
    if words is None or not counted:
        return Verdict(NAME, None, "no point is on what is counted")
    number = read_numerals(answer or "").single
    if number is None or number.value.denominator != 1:
        return Verdict(NAME, None, "the answer is not a whole number")
    labels = [point.label for point in counted] + [entity for entity in entities if is_counted(entity, words)]
    try:
        verdict = _verdict(await _pairings(labels, counted, masks), int(number.value))
    except BadReply as error:
        return Verdict(NAME, None, str(error), failed=True)
    if verdict.value is not None or not words:
        return verdict
    try:
        again = await _pairings([*labels, " ".join(counted_phrase(question) or ())], counted, masks)
    except BadReply:  # the phrase may be beyond the detector; its word on the labels stands
        return verdict
    by_phrase = _verdict(again, int(number.value))
    return verdict if by_phrase.value is None else by_phrase


async def _pairings(labels: Sequence[str], counted: Sequence[Point], masks: ObjectMasks) -> list[Pairing]:
    """One pairing per medium, and at last that of the points on media that the question does not have."""
    pairings: list[Pairing] = []
    for index in range(len(masks.question.media)):
        found = [await find_instances(label, masks, index) for label in dict.fromkeys(labels)]
        instances = distinct(mask for each in found for mask in each.masks)
        pairings.append(pair([(p.x, p.y) for p in counted if p.media_index == index], instances))
    astray = len(counted) - sum(each.points for each in pairings)
    return [*pairings, Pairing(astray, 0, 0, 0, astray)]


def _verdict(pairings: Sequence[Pairing], answer: int) -> Verdict:
    """The value of all pairings together; none where the instances are not as many as the answer."""
    evidence = tuple(json.dumps({"media_index": n, **vars(each)}) for n, each in enumerate(pairings[:-1]))
    total = Pairing(*(sum(getattr(each, name) for each in pairings) for name in Pairing.__dataclass_fields__))
    if total.instances != answer:
        said = f"{total.instances} are found where the answer is {answer}: not all of them may be meant"
        return Verdict(NAME, None, said, evidence)
    faults = {"without a point": total.missed, "pointed at twice": total.twice, "points on none": total.off}
    named = "".join(f"; {count} {fault}" for fault, count in faults.items() if count)
    return Verdict(NAME, total.value, f"{total.points} points for {total.instances} instances{named}", evidence)


def _counted(case: Case) -> tuple[Point, ...] | None:
    return counted_points(case.question.question, case.points)


async def _score(case: Case) -> Verdict:
    return await score_counting(case.points, case.answer, case.entities, case.masks)


SCORER = Scorer(
    NAME,
    "points count what is asked for",
    _score,
    needs=(
        NO_CLIPS,
        (lambda case: answer_type_named(case.question.answer_type).is_number, "the answer is not a number"),
        (lambda case: _counted(case) is not None, "the question does not ask how many"),
        LOCATABLE,
        (lambda case: bool(_counted(case)), "no point is on what is counted"),
    ),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
