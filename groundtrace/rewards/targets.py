"""What a question asks a response to point at, whatever the response says.

Whether there is anything to point at must not depend on the response: else a response decides by its silence that
nothing is checked. So the targets are read off the question, its gold answer, and what the pointer found of the
proposed entities.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundtrace.inference.grounding import Mask
from groundtrace.rewards.case import Case
from groundtrace.rewards.masks import SAME_OBJECT_IOU, on_pixels, overlap_iou
from groundtrace.schemas.answers.numerals import read_numerals
from groundtrace.schemas.answers.registry import answer_type_named
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.label_parts import thing_of
from groundtrace.schemas.labels import counted_phrase, counted_words, is_counted, is_named, names_only, own_words
from groundtrace.schemas.records import Question


@dataclass(frozen=True)
class Targets:
    """The objects that a question asks about.

    Attributes:
        exist: whether there are any; None where nothing tells.
        number: how many, None where nobody knows: "Is there a dog?" is answered by one of three dogs.
        counted: the phrases under which targets are looked for, where the question counts them; else targets are all
            that the question speaks of.
        reason: why nothing tells.
    """

    exist: bool | None
    number: int | None = None
    counted: tuple[str, ...] = ()
    reason: str = ""


async def targets_of(case: Case) -> Targets:
    """Returns what there is to point at.

    A count above 0 has as many targets as its gold answer, if the pointer or the detector finds what is counted. Else
    there are targets where the pointer found an entity. Raises CallError and BadReply as
    :meth:`groundtrace.rewards.locating.ObjectMasks.of` does.
    """
    number = gold_count(case.question)
    if number == 0:
        return Targets(False, 0)
    if number is not None:
        words = counted_words(case.question.question) or frozenset()
        phrase = " ".join(counted_phrase(case.question.question) or ())
        named = tuple(entity for entity in case.pointable if words and is_counted(entity, words))
        phrases = tuple(dict.fromkeys((*named, *((phrase,) if words else ()))))
        if named or (words and await _is_found(phrase, case)):
            return Targets(True, number, phrases)
    if case.pointable:
        return Targets(True)
    if case.entities is None:
        lacking = "the detector does not find what is counted" if number else "nobody told what the question speaks of"
        return Targets(None, reason=lacking)
    return Targets(False)


async def is_target(point: Point, case: Case, targets: Targets) -> bool:
    """Whether a point that lies on an object of its label lies on one that the question asks about.

    Of a count: its label has all the words of what is counted, and names nothing else with them, or it lies on an
    instance of that. Else: question, answer or entities name its label, or it lies on an instance of an entity. Where
    the label is less exact than an entity ("circle" and "object" for "black circle"), and the entity is found, only the
    latter counts. Raises CallError and BadReply.
    """
    question = case.question
    if targets.counted:
        words = counted_words(question.question) or frozenset()
        return names_only(point.label, words) or await lies_on(targets.counted, point, case)
    texts = (question.question, question.answer, *(question.choices or ()))
    entities = case.entities or ()
    own = own_words(point.label)
    exact = [entity for entity in entities if own < own_words(entity)]
    if exact and await _is_there(exact, point, case):
        return await lies_on(entities, point, case)
    return is_named(point.label, texts, entities) or await lies_on(entities, point, case)


async def names_target(point: Point, case: Case, targets: Targets) -> bool:
    """Whether a label tells the targets from other things in the image: it has the words of what is asked for, or all
    that it fits are targets ("black square" for "black block", where the only black things are squares). "circle" and
    "object" do not for "black circle" beside others. Raises CallError and BadReply.
    """
    if _says_target(point.label, case, targets):
        return True
    own, wanted = await _fitting(thing_of(point.label), point, case), await _wanted(point, case, targets)
    return bool(own) and all(_is_one_of(mask, wanted) for mask in own)


async def fits_target(point: Point, case: Case, targets: Targets) -> bool:
    """Whether the label of a point on another object is also that of a target in the image: "object" is, and "blue
    circle" is not, where black circles are asked for. What a label says of place and rank is left out where the rest
    does not name the targets: "third object from the left" picks a thing out and says nothing of what it is. Raises
    CallError and BadReply.
    """
    thing = thing_of(point.label)
    own = await _fitting(point.label if _says_target(thing, case, targets) else thing, point, case)
    wanted = await _wanted(point, case, targets)
    return any(_is_one_of(mask, wanted) for mask in own)


def _says_target(label: str, case: Case, targets: Targets) -> bool:
    """Whether the words of a label name what the question asks about."""
    question = case.question
    if targets.counted:
        return names_only(label, counted_words(question.question) or frozenset())
    own, entities = own_words(label), case.entities or ()
    texts = (question.question, question.answer, *(question.choices or ()))
    return is_named(label, texts, entities) and not any(own < own_words(entity) for entity in entities)


async def _fitting(label: str, point: Point, case: Case) -> tuple[Mask, ...]:
    """What a label fits in the image that the point speaks of."""
    return (await case.masks.of(label, point.media_index, point.frame)).masks


async def _wanted(point: Point, case: Case, targets: Targets) -> list[Mask]:
    """The targets in the image that the point speaks of."""
    phrases = targets.counted or case.entities or ()
    return [mask for phrase in phrases for mask in await _fitting(phrase, point, case)]


def _is_one_of(mask: Mask, wanted: Sequence[Mask]) -> bool:
    return any(overlap_iou(mask, each) >= SAME_OBJECT_IOU for each in wanted)


def is_a_count(case: Case) -> bool:
    """Whether the question asks how many, with a whole number above 0 as its gold answer."""
    return bool(gold_count(case.question))


def gold_count(question: Question) -> int | None:
    """Returns the gold answer of a question that asks how many, where it is a whole number; else None."""
    if not answer_type_named(question.answer_type).is_number or counted_words(question.question) is None:
        return None
    number = read_numerals(question.answer).single
    return int(number.value) if number is not None and number.value.denominator == 1 and number.value >= 0 else None


async def _is_found(phrase: str, case: Case) -> bool:
    """Whether the detector finds the phrase in an image of the question; of a clip nobody asks."""
    for index, medium in enumerate(case.question.media):
        if not medium.frames and (await case.masks.of(phrase, index)).masks:
            return True
    return False


async def _is_there(phrases: Iterable[str], point: Point, case: Case) -> bool:
    """Whether one of the phrases is found in the image that the point speaks of."""
    for phrase in phrases:
        if (await case.masks.of(phrase, point.media_index, point.frame)).masks:
            return True
    return False


async def lies_on(phrases: Iterable[str], point: Point, case: Case) -> bool:
    """Whether a point lies on an instance of one of the phrases. Raises CallError and BadReply."""
    medium = case.question.media[point.media_index]
    x, y = on_pixels(point.x, medium.width), on_pixels(point.y, medium.height)
    for phrase in phrases:
        found = await case.masks.of(phrase, point.media_index, point.frame)
        if any(mask.holds(x, y) for mask in found.masks):
            return True
    return False
