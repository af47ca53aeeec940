"""Determines the targets of a question, which are the objects that a response should point at.

The targets do not depend on the response. Otherwise a response without points would have no targets, and nothing would
be checked. The targets are determined by the question, its gold answer, and its entities. The entities are phrases for
objects in the question. Only entities that the pointer (the model that points at objects) found are used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.inference.grounding import Mask
from groundtrace.rewards.case import Case
from groundtrace.rewards.masks import SAME_OBJECT_IOU, on_pixels, overlap_iou
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.label_lists import names_several
from groundtrace.schemas.label_parts import thing_of
from groundtrace.schemas.labels import counted_phrase, counted_words, is_counted, is_named, names_only, own_words
from groundtrace.schemas.records import Question


@dataclass(frozen=True)
class Targets:
    """Holds the targets of a question, which are the objects that the question is about.

    Attributes:
        exist: whether there are targets; None if this is unknown.
        number: the number of targets; None if it is unknown. For example, it is unknown for the question "Is there a
            dog?", since the image may show several dogs.
        counted: for a question that counts objects, the phrases with which the counted objects are searched for. It is
            empty for other questions; their targets are all objects that the question mentions.
        reason: the reason why there are no targets, or why it is unknown whether there are any; "" if there are some.
    """

    exist: bool | None
    number: int | None = None
    counted: tuple[str, ...] = ()
    reason: str = ""


async def targets_of(case: Case) -> Targets:
    """Return the targets of the case's question, which are the objects that the question is about.

    The rules are, in this order:

    - If the question asks for a count and the gold answer is 0, there are no targets.
    - If it asks for a count and the gold answer is above 0, the number of targets is the gold answer. This rule applies
      only if the pointer or the detector finds a counted object.
    - If the pointer found an entity of the question (a phrase for an object), there are targets, and their number is
      unknown.
    - If the entities are unknown, it is unknown whether there are targets.
    - Otherwise there are none: the question has no entity, or the pointer found none of them.

    A case is a response with its question. Raises CallError if a call of a model that finds objects fails, and BadReply
    if its reply cannot be parsed.
    """
    number = gold_count(case.question)
    if number == 0:
        return Targets(False, 0, reason="the answer is a count of 0")
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
        lacking = "the detector does not find what is counted" if number else "no role names what the question is about"
        return Targets(None, reason=lacking)
    return Targets(False, reason=_none_found(case.entities))


def _none_found(entities: Sequence[str]) -> str:
    """Return the reason why a question has no targets (objects to point at).

    ``entities`` are the question's phrases for objects; none of these objects was found.
    """
    if not entities:
        return "the question names no object"
    named = ", ".join(f"{entity!r:.60}" for entity in entities[:5]) + (" and more" if len(entities) > 5 else "")
    return f"the pointer found no object of the question ({named})"


async def is_target(point: Point, case: Case, targets: Targets) -> bool:
    """Return whether a point is on a target, which is an object that the question is about.

    The caller has checked that the point is on an object of its label. ``case`` is the response with its question, and
    ``targets`` are the targets of this question (:func:`targets_of`).

    Either the position or the label of the point must fit. The result is True in three cases:

    - By position: the point is on an instance (a detected object) of a phrase for the targets. The phrases are
      ``targets.counted`` if the question counts objects, else the entities of the question (its phrases for objects).
    - By label, if the question counts objects, such as black squares: the label has all words for the counted objects,
      and names no other objects. "small black square" is such a label; "black or blue square" is not.
    - By label, for other questions: the question, its answer, its choices or its entities name the object of the label.
      There is one exception: this case does not apply if the label is too general. A label is too general if an entity
      has all words of the label and further words, and the point's image shows an object that this entity names.
      General nouns such as "object" do not count as words of a label. For example, one entity is "black circle", and
      the image shows a black circle. Then the labels "circle" and "object" are too general.

    If a label names several things ("blue or red circle"), only the first case can apply.

    Raises CallError if a call of a model that finds objects fails, and BadReply if its reply cannot be parsed.
    """
    question = case.question
    if names_several(point.label):
        return await lies_on(targets.counted or case.entities or (), point, case)
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
    """Return whether a point's label distinguishes the targets (what the question is about) from other objects.

    ``case`` is the response with its question, and ``targets`` are the targets of this question (:func:`targets_of`).

    The result is True if the words of the label name the targets, or if all objects of this label in the image are
    targets. It is always False for a label that names several things. Two examples:

    - The targets are black blocks, and all black squares in the image are black blocks. The result is True for the
      label "black square".
    - The targets are black circles, and the image also shows white circles. The result is False for the label "circle".

    Raises CallError if a call of a model that finds objects fails, and BadReply if its reply cannot be parsed.
    """
    if names_several(point.label):
        return False
    if _names_targets(point.label, case, targets):
        return True
    own, wanted = await _fitting(thing_of(point.label), point, case), await _wanted(point, case, targets)
    return bool(own) and all(_is_one_of(mask, wanted) for mask in own)


async def fits_target(point: Point, case: Case, targets: Targets) -> bool:
    """Return whether a point's label can also name a target (an object that the question is about) in the image.

    The function is called for points on objects that are not targets. The result is True if a search for the label
    finds a target. For example, if the targets are black circles, the label "object" can also name a target, and the
    label "blue circle" cannot.

    Words for position, rank and relative size, such as "third" and "from the left", select an object, but do not
    describe the object. So the search leaves these words out: for the label "third object from the left", the search is
    for "object". There is one exception. Suppose that the targets are black circles, and that the label is "third black
    circle". The other words of the label, "black circle", are the name of the targets, so a search for these words
    would always find a target. In such a case, the search is for the whole label.

    ``case`` is the response with its question, and ``targets`` are the targets of this question (:func:`targets_of`).
    Raises CallError if a call of a model that finds objects fails, and BadReply if its reply cannot be parsed.
    """
    thing = thing_of(point.label)
    own = await _fitting(point.label if _names_targets(thing, case, targets) else thing, point, case)
    wanted = await _wanted(point, case, targets)
    return any(_is_one_of(mask, wanted) for mask in own)


def _names_targets(label: str, case: Case, targets: Targets) -> bool:
    """Return whether the words of a label name the targets, which are the objects that the question is about."""
    question = case.question
    if targets.counted:
        return names_only(label, counted_words(question.question) or frozenset())
    own, entities = own_words(label), case.entities or ()
    texts = (question.question, question.answer, *(question.choices or ()))
    return is_named(label, texts, entities) and not any(own < own_words(entity) for entity in entities)


async def _fitting(label: str, point: Point, case: Case) -> tuple[Mask, ...]:
    """Return the masks of all objects that ``label`` names, in the image (or the clip's frame) of the point."""
    return (await case.masks.of(label, point.media_index, point.frame)).masks


async def _wanted(point: Point, case: Case, targets: Targets) -> list[Mask]:
    """Return the masks of the targets (the objects that the question is about) in the point's image or frame."""
    phrases = targets.counted or case.entities or ()
    return [mask for phrase in phrases for mask in await _fitting(phrase, point, case)]


def _is_one_of(mask: Mask, wanted: Sequence[Mask]) -> bool:
    return any(overlap_iou(mask, each) >= SAME_OBJECT_IOU for each in wanted)


def is_a_count(case: Case) -> bool:
    """Return whether the case's question asks for a number of objects, and its gold answer is a whole number above 0.

    A case is a response with its question.
    """
    return bool(gold_count(case.question))


def gold_count(question: Question) -> int | None:
    """Return the gold answer of a question that asks for a number of objects, as a whole number.

    The result is None for other questions, and if the gold answer is not a whole number of at least 0.
    """
    if not answer_type_named(question.answer_type).is_number or counted_words(question.question) is None:
        return None
    number = read_numerals(question.answer).single
    return int(number.value) if number is not None and number.value.denominator == 1 and number.value >= 0 else None


async def _is_found(phrase: str, case: Case) -> bool:
    """Return whether an image of the question shows an object that the phrase names; clips are not searched."""
    for index, medium in enumerate(case.question.media):
        if not medium.frames and (await case.masks.of(phrase, index)).masks:
            return True
    return False


async def _is_there(phrases: Iterable[str], point: Point, case: Case) -> bool:
    """Return whether the point's image or frame shows an object that one of the phrases names."""
    for phrase in phrases:
        if (await case.masks.of(phrase, point.media_index, point.frame)).masks:
            return True
    return False


async def lies_on(phrases: Iterable[str], point: Point, case: Case) -> bool:
    """Return whether a point is on an object that one of the phrases names, for example "red cup".

    The objects are searched for in the image or frame of the point; ``case`` is the response with its question. Raises
    CallError if a call of a model that finds objects fails, and BadReply if its reply cannot be parsed.
    """
    medium = case.question.media[point.media_index]
    x, y = on_pixels(point.x, medium.width), on_pixels(point.y, medium.height)
    for phrase in phrases:
        found = await case.masks.of(phrase, point.media_index, point.frame)
        if any(mask.holds(x, y) for mask in found.masks):
            return True
    return False
