"""Scores counting by pointing: whether the points on counted objects match the detector's instances one to one.

An instance is one object that the detector finds for a label. The papers do not have this scorer. Argos Eq. 3 checks
whether each point is on its object. It does not detect a missed object, or two points on one object. This scorer runs
if a question asks how many, and the response points at the counted objects (:mod:`groundtrace.rewards.locating` finds
their instances). The verdict does not count in the score of Argos Eq. 9. The step of the pipeline that verifies traces
(a teacher's responses) drops a trace whose verdict is below a minimum value.

A detector often finds more objects than the question is about. For example, it finds all red squares for "How many red
squares touch the edge?". So the check depends on the number of instances. In the following rules, "the answer" is the
number that the response gives. It is always right, because this scorer does not run for a wrong answer.

- If there are as many instances as the answer, points and instances must match one to one.
- If there are more instances than the answer, the number of instances with a point must be at least the answer.
- If there are fewer instances than the answer, nothing is checked.

These rules do not apply to a response without a point for the counted objects: no point has a label for them, and no
point is on one of them. The value is then 0 if the answer is above 0 and the pointer (the model that points at objects)
finds counted objects. Otherwise nothing is checked.
"""

import json
from collections.abc import Sequence

from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply
from groundtrace.rewards import locating
from groundtrace.rewards.case import Case
from groundtrace.rewards.masks import Pairing, distinct, on_pixels, pair
from groundtrace.rewards.scorer import LOCATABLE, NO_CLIPS, Need, Scorer
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.labels import counted_phrase, counted_words, is_counted
from groundtrace.schemas.records import Verdict

NAME = "counting"


async def score_counting(case: Case) -> Verdict:
    """Return the verdict on the points of a response to a question that asks how many; 1 means a perfect match.

    ``case`` holds the response, its question, and access to the models that find objects.

    Let a be the answer, n the number of instances (detected objects) in all images together, and p the number of
    instances with a point. Points at the same position are one point.

    A response points at the counted objects if a point has a label for them, or if a point is on one of them. For a
    response that points at them, the value is:

    - :attr:`groundtrace.rewards.masks.Pairing.value` if n = a; it is 1 if points and instances match one to one.
    - p / a if n is above a and p is below a.

    For any other response, the value is 0 if a is above 0 and the pointer (the model that points at objects) found
    counted objects in the images. In all other cases, e.g. if n is below a, the value is None, and the verdict is not
    applicable.

    The instances are searched for up to three times, with different phrases, until there is a value. The phrases are:

    1. the labels of the points, and the question's entities (its phrases for objects). Labels and entities are used
       only if they can name counted objects;
    2. the phrases of the first search, and the question's words for the counted objects, such as "red square";
    3. only the question's words for the counted objects.

    The entities are used so that missed objects are found. For example, a question counts dogs and cats, and no point
    is on a cat. Then the cats are missed instances. The second search helps if the first search finds too few
    instances, and the third helps if a label is too general ("square"), so that too many are found. Both are left out
    if the question has only general words for the counted objects ("How many objects are there?").

    The evidence is one JSON object for each image, with ``media_index`` and the fields of
    :class:`groundtrace.rewards.masks.Pairing`. The verdict has failed if a model that finds the objects does not
    answer, or gives an unreadable answer.
    """
    words = counted_words(case.question.question)
    number = read_numerals(case.answer or "").single
    if words is None or number is None or number.value.denominator != 1:
        return Verdict(NAME, None, "the answer is not a whole number")
    answer, called = int(number.value), {point.label for point in case.points if is_counted(point.label, words)}
    expected = [entity for entity in case.pointable if is_counted(entity, words)]
    phrase = " ".join(counted_phrase(case.question.question) or ())
    labels = [
        *dict.fromkeys(point.label for point in case.points if point.label in called),
        *(entity for entity in case.entities or () if is_counted(entity, words)),
    ]
    sought = (*expected, *([phrase] if words else []))
    try:
        # Other labels may name the same objects: their points must be on counted objects and, if other points have
        # counted labels, also on instances of their own label.
        on = [point for point in case.points if point.label in called or await _is_on(sought, point, case)]
        named = [p for p in on if not called or p.label in called or await _is_on([p.label], p, case)]
        if not named:
            return _without_points(answer, expected)
        verdict = _verdict(await _pairings(labels, named, case), answer)
        for wanted in ([*labels, phrase], [phrase]) if words else ():
            if verdict.value is None:
                by_phrase = _verdict(await _pairings(wanted, named, case), answer)
                verdict = verdict if by_phrase.value is None else by_phrase
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, str(error), failed=True)
    return verdict


def _without_points(answer: int, expected: Sequence[str]) -> Verdict:
    if answer > 0 and expected:
        return Verdict(NAME, 0.0, f"the answer is {answer}, and no point is on what is counted ({expected[0]})")
    return Verdict(NAME, None, "no point is on what is counted")


async def _is_on(labels: Sequence[str], point: Point, case: Case) -> bool:
    """Return whether a point is on an object that was found in the point's image for one of the labels.

    ``case`` is the response with its question.
    """
    if case.masks.part_of(point.media_index, point.frame) is None:
        return False
    for label in dict.fromkeys(labels):
        found = await case.masks.of(label, point.media_index, point.frame)
        if any(mask.holds(*_place(point, case)) for mask in found.masks):
            return True
    return False


def _place(point: Point, case: Case) -> tuple[float, float]:
    media = case.question.media
    if not 0 <= point.media_index < len(media):
        return point.x, point.y
    medium = media[point.media_index]
    return on_pixels(point.x, medium.width), on_pixels(point.y, medium.height)


async def _pairings(labels: Sequence[str], counted: Sequence[Point], case: Case) -> list[Pairing]:
    """Return one :class:`Pairing` for each medium (image or clip) of the question, and one more for points on other
    media.

    A pairing has counts that describe how the points on a medium match the instances (detected objects) in it. The
    instances are searched for by ``labels``. ``counted`` are the response's points on counted objects. The last pairing
    has the points whose ``media_index`` is not the index of a medium of the question.
    """
    pairings: list[Pairing] = []
    places = list(dict.fromkeys((p.media_index, _place(p, case)) for p in counted))
    for index in range(len(case.question.media)):
        found = [await case.masks.of(label, index) for label in dict.fromkeys(labels)]
        instances = distinct(mask for each in found for mask in each.masks)
        pairings.append(pair([place for medium, place in places if medium == index], instances))
    astray = len(places) - sum(each.points for each in pairings)
    return [*pairings, Pairing(astray, 0, 0, 0, astray)]


def _verdict(pairings: Sequence[Pairing], answer: int) -> Verdict:
    """Return the verdict on the points of all media. ``pairings`` has the counts of :func:`_pairings` for each medium.

    ``answer`` is the number that the response gives as its answer. Let n be the number of instances (detected objects),
    and p the number of instances with a point. The value is:

    - :attr:`Pairing.value` if n = ``answer``; it is 1 if points and instances match one to one.
    - p / ``answer`` if n is above the answer and p is below the answer.
    - None in all other cases.
    """
    evidence = tuple(json.dumps({"media_index": n, **vars(each)}) for n, each in enumerate(pairings[:-1]))
    total = Pairing(*(sum(getattr(each, name) for each in pairings) for name in Pairing.__dataclass_fields__))
    pointed = total.instances - total.missed
    if total.instances > answer > pointed:
        return Verdict(NAME, pointed / answer, f"{pointed} are pointed at where the answer is {answer}", evidence)
    if total.instances != answer:
        reason = f"{total.instances} are found where the answer is {answer}: not all of them may be meant"
        return Verdict(NAME, None, reason, evidence)
    faults = {"without a point": total.missed, "pointed at twice": total.twice, "points on none": total.off}
    named = "".join(f"; {count} {fault}" for fault, count in faults.items() if count)
    return Verdict(NAME, total.value, f"{total.points} points for {total.instances} instances{named}", evidence)


ABOUT_A_COUNT: tuple[Need, ...] = (
    NO_CLIPS,
    (lambda case: answer_type_named(case.question.answer_type).is_number, "the answer is not a number"),
    (lambda case: counted_words(case.question.question) is not None, "the question does not ask how many"),
)
SCORER = Scorer(
    NAME,
    "the question asks for a count",
    score_counting,
    needs=(*ABOUT_A_COUNT, (lambda case: bool(case.points) or bool(case.pointable), "nothing to point at")),
    means=(LOCATABLE,),
    asks=locating.ASKS,
    floor=1.0,
    is_grounding=True,
)
