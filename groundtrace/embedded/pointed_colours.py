"""Compares the colours and shapes that a reasoning states with the labels of its tags.

A tag is an XML element with a label and points, by which a reasoning points at objects. In the examples of this module,
a tag is written as its label in brackets. For example, the reasoning "[yellow triangle]. The triangle is blue." has a
tag with the label "yellow triangle", and states another colour than this label.
"""

import re

from groundtrace.embedded.marked_text import MARK, Marked, MarkedText, assertions, is_negated
from groundtrace.embedded.sight.labels import COLOURS, KINDS, Noun, colour_word, kind_word, read_label
from groundtrace.schemas.records import Question

_COLOUR = rf"(?P<colour>{'|'.join(COLOURS)}|gray|violet|magenta)"
_IS = (
    r" ?(?:is|are|looks|appears|was)(?: (?:also|clearly|indeed|both|obviously|therefore|thus|then|in fact|all))*"
    rf"(?: (?:an?|the|of colou?r))? {_COLOUR}(?: (?:squares?|blocks?|triangles?|circles?|objects?|shapes?|ones?|too))?"
    r"(?=\s*(?:$|[.,;:)!\n–—]|(?:and|so|but|while|whereas|as well|too|which)\b))"
)
_TAG_IS = re.compile(rf"(?P<mark>{MARK}){_IS}")
_THING_IS = re.compile(
    rf"(?:^|[,:;(–—]|\b(?:and|so|since|because|as|thus|hence)\b)\W{{0,4}}(?:the|this|that) (?P<thing>[a-z]+){_IS}"
)
_IT_IS = re.compile(
    rf"^\W*(?:(?:so|and|thus|hence|clearly|here),? )?(?:it|(?:its|the|this) (?:colou?r|hue)(?: of it)?){_IS}"
)
_ENDS_ON_TAG = re.compile(rf"{MARK}[)\s]*(?:(?:,? (?:which )?(?:is|lies|sits))? (?:in|inside) the [a-z ]+)?\W*$")
_ASKS = re.compile(r"\b(?:what|which)(?: is the)? (?P<asked>colou?r|shape)\b")
_COMPARES = re.compile(r"\b(?:more|most|fewer|less|same|different|than)\b")


def miscoloured(marked: MarkedText) -> str | None:
    """Return a message if a sentence states another colour for an object than the label of the object's tag; else None.

    ``marked`` is the reasoning; its tags are XML elements that point at objects. A sentence can name an object in three
    ways:

    - by the tag itself: "[yellow triangle] is blue";
    - by a noun, if all tags with this noun have the same colour: "the triangle is blue";
    - by "it", if the previous sentence ends with a single tag.
    """
    before: list[Marked] = []
    for sentence in assertions(marked):
        if not is_negated(sentence.text):
            for found in _TAG_IS.finditer(sentence.text):
                if _differs(found["colour"], marked.among(found["mark"])):
                    return _message(sentence.text)
            for found in _THING_IS.finditer(sentence.text):
                noun = read_label(found["thing"]) if kind_word(found["thing"]) is not None else None
                if noun is not None and _differs(found["colour"], _of(noun, marked)):
                    return _message(sentence.text)
            its = _IT_IS.match(sentence.text)
            if its is not None and len(before) == 1 and _differs(its["colour"], before):
                return _message(sentence.text)
        before = marked.among(sentence.text) if _ENDS_ON_TAG.search(sentence.text) else []
    return None


def _message(sentence: str) -> str:
    return f"it states another colour than a label: {re.sub(MARK, '…', sentence).strip()}"


def _of(noun: Noun, marked: MarkedText) -> list[Marked]:
    """Return the tags that a noun without a colour can mean: "square" can mean the tag with the label "red square".

    Return an empty list if the reasoning has an unclear tag. A tag is unclear if its label is unknown. A tag is also
    unclear if its label can name objects that the noun means, but also other objects. For example, the label "block" is
    unclear for the noun "square", since a block can be a square or another rectangle.
    """
    tags = list(marked.marks.values())
    if any(tag.noun is None or (tag.noun.overlaps(noun) and not noun.covers(tag.noun)) for tag in tags):
        return []
    return [tag for tag in tags if tag.noun is not None and noun.covers(tag.noun)]


def _differs(colour: str, tags: list[Marked]) -> bool:
    """Return whether the labels of all ``tags`` name the same single colour, and this colour is not ``colour``.

    A tag is an XML element that points at objects. The result is False if the text uses a tag only to describe another
    object, as in "the square below [circle] is blue": "blue" may then be the colour of the other object.
    """
    if any(tag.is_beside for tag in tags):
        return False
    colours = {tag.noun.colours if tag.noun is not None else () for tag in tags}
    alone = next(iter(colours)) if len(colours) == 1 else ()
    return len(alone) == 1 and alone[0] != colour_word(colour)


def answers_otherwise(marked: MarkedText, question: Question) -> str | None:
    """Return a message if the answer is a colour or shape, but the reasoning points at no such object; else None.

    ``marked`` is the reasoning; its tags are XML elements that point at objects. ``question`` holds the question and
    the answer. The result is None if the question does not ask for a colour or shape, or if it compares objects.

    These tags are not checked:

    - A tag without points and boxes.
    - A tag whose object is named in the question ("below the black square").
    - A tag that the reasoning uses only to describe another object ("the square below [the circle]").

    All other tags are checked. The function returns a message only if there is at least one of them, and the label of
    each of them names another colour (or shape) than the answer.
    """
    text, answer = question.question.casefold(), question.answer.strip().casefold()
    asks = _ASKS.search(text)
    if asks is None or _COMPARES.search(text):
        return None
    is_colour = asks["asked"] != "shape"
    if (colour_word(answer) is None) if is_colour else (answer not in KINDS):
        return None
    nouns = [tag.noun for tag in marked.marks.values() if tag.centres and not tag.is_beside]
    unnamed = [noun for noun in nouns if noun is None or not _is_named(noun, text)]
    if not unnamed or any(noun is None or _can_be(noun, answer, is_colour) for noun in unnamed):
        return None
    return f"nothing that it points at is a {answer}" if not is_colour else f"nothing that it points at is {answer}"


def _is_named(noun: Noun, question: str) -> bool:
    return bool(noun.colours) and re.search(rf"\b{re.escape(noun.phrase)}\b", question) is not None


def _can_be(noun: Noun, answer: str, is_colour: bool) -> bool:
    """Return whether an object that ``noun`` names can have the colour or shape ``answer``.

    ``answer`` is a colour if ``is_colour`` is True, else a shape. For the answer "blue", the result is False for the
    noun "yellow triangle". It is True for the noun "triangle", which names no colour and so allows all colours.
    """
    if is_colour:
        return not noun.colours or colour_word(answer) in noun.colours
    return not noun.kinds or bool({*noun.kinds} & {*(kind_word(answer) or ())})
