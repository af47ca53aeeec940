"""Parses a question about an image of shapes into a `Query`; the result is None if the question is unreadable.

A question is parsed only if all of its words are known. A question with a typo, a size ("small"), a comparison or an
ambiguous word is unreadable.
"""

from collections.abc import Sequence

from groundtrace.embedded.sight.labels import Noun
from groundtrace.embedded.sight.phrases import ONE, read_condition, read_conditions, read_listed, read_over
from groundtrace.embedded.sight.query import (
    Amount,
    AtEnd,
    AttributeQuery,
    Condition,
    CountQuery,
    GroupStatement,
    Has,
    ObjectStatement,
    OnlyOf,
    Query,
    Superlative,
)
from groundtrace.embedded.sight.words import MAX_WORDS, Words, read_amount, read_group, read_noun, read_touch

_IMAGE = (
    "in the image",
    "in the picture",
    "in this image",
    "in this picture",
    "in the figure",
    "in the chart",
)
_FORMAT = (
    "answer yes or no",
    "answer with yes/no",
    "answer with yes or no",
    "answer with only the number in numerical format",
    "answer with a number",
    "answer with the number only",
)
_SUPERLATIVES: dict[str, Superlative] = {
    "largest": "largest",
    "biggest": "largest",
    "smallest": "smallest",
    "tallest": "tallest",
    "highest": "tallest",
    "shortest": "shortest",
    "leftmost": "leftmost",
    "rightmost": "rightmost",
    "topmost": "topmost",
    "lowest": "lowest",
}


def read_question(text: str, choices: Sequence[str] | None = None) -> Query | None:
    """Parse a question, such as "How many yellow squares are there?". Return None if it is unreadable.

    `choices` are the question's answer choices; None if it has none. They become part of the result.
    """
    options = tuple(choices or ())
    body = _quoted_statement(text)
    words = Words(text if body is None else body)
    if len(words.words) > MAX_WORDS:
        return None
    if body is not None:
        query = _statement(words, options)
    elif words.take("how many"):
        query = _count(words, options)
    elif words.take("is there", "are there"):
        query = _existence(words, options)
    elif words.take("what is", "what"):
        query = _attribute(words, options)
    else:
        return None
    words.take(*_IMAGE)
    words.take(*_FORMAT)
    return query if words.done else None


def _quoted_statement(text: str) -> str | None:
    """Return the statement in 'Is the following statement about the image true? "..."'; None for another question."""
    head, quote, rest = text.partition('"')
    statement, closing, tail = rest.rpartition('"')
    if not quote or not closing or '"' in statement:
        return None
    asked = " ".join(head.lower().split()).rstrip(":")
    about = ("is the following statement", "is this statement", "is the statement")
    fits = asked.startswith(about) and "true" in asked and not {"not", "false", "untrue"} & set(asked.split())
    return statement if fits and tail.lower().strip(" .") in ("", *_FORMAT) else None


def _count(words: Words, choices: tuple[str, ...]) -> Query | None:
    noun = read_noun(words)
    if noun is None:
        return None
    touch = read_touch(words)
    if touch is None:
        words.take("are there", "are", "can you see", "do you see", "are shown", "are visible")
        touch = read_touch(words)
    return CountQuery(noun, touch, choices)


def _existence(words: Words, choices: tuple[str, ...]) -> Query | None:
    amount = read_amount(words)
    if amount is None or amount == Amount("exactly", 0):
        return None
    noun = read_noun(words)
    return None if noun is None else ObjectStatement(amount, noun, read_touch(words), choices)


def _attribute(words: Words, choices: tuple[str, ...]) -> Query | None:
    """Parse "What colour is the tallest bar", "what is the shape of the red object"; return None for other words."""
    words.take("the")
    asked = words.take("colour", "color", "shape")
    if asked is None or not words.take("is the", "is", "of the", "has the", "does the"):
        return None
    words.take("the")
    superlative = _SUPERLATIVES.get(words.next)
    if superlative is not None:
        words.at += 1
    noun = read_noun(words)
    words.take("have")
    return (
        None if noun is None else AttributeQuery("shape" if asked == "shape" else "colour", superlative, noun, choices)
    )


def _statement(words: Words, choices: tuple[str, ...]) -> Query | None:
    there = words.take("there is", "there are", "there exists", "there exist") is not None
    if not there:
        special = _universal(words, choices) or _definite(words, choices) or _none_of(words, choices)
        if special is not None:
            return special
    amount = read_amount(words)
    if amount is None:
        return None
    if not there:
        words.take("of the three", "of the 3", "of the")
    group = read_group(words)
    if group is None:
        return _about_objects(words, amount, choices)
    conditions = read_conditions(words, group[0])
    if conditions is None or (not there and not conditions):
        return None
    return GroupStatement(amount, group[0], _coloured(group[1]) + conditions, (), choices)


def _coloured(noun: Noun | None) -> tuple[Condition, ...]:
    return () if noun is None else (OnlyOf(noun),)


def _universal(words: Words, choices: tuple[str, ...]) -> Query | None:
    """Parse "Each box has ...", "all 3 towers have ..."; for other words, return None and consume none of them."""
    start = words.at
    if words.take("each", "every", "all the", "all three", "all 3", "all"):
        group = read_group(words)
        if group is not None and group[1] is None:
            conditions = read_conditions(words, group[0])
            if conditions:
                return GroupStatement(None, group[0], conditions, (), choices)
    words.at = start
    return None


def _definite(words: Words, choices: tuple[str, ...]) -> Query | None:
    """Parse "The tower with four blocks has ..."; for other words, return None and consume none of them."""
    start = words.at
    if words.take("the"):
        group = read_group(words)
        if group is not None and words.take("with"):
            which = read_condition(words, group[0])
            if which is not None and words.take("has", "contains"):
                then = read_listed(words, group[0])
                if then:
                    return GroupStatement(ONE, group[0], then, (*_coloured(group[1]), which), choices)
    words.at = start
    return None


def _none_of(words: Words, choices: tuple[str, ...]) -> Query | None:
    """Parse "None of the black triangles are touching the edge"; for other words, return None and consume none."""
    start = words.at
    if words.take("none of the"):
        noun = read_noun(words)
        touch = read_touch(words) if noun is not None else None
        if noun is not None and touch is not None:
            return ObjectStatement(Amount("exactly", 0), noun, touch, choices)
    words.at = start
    return None


def _about_objects(words: Words, amount: Amount, choices: tuple[str, ...]) -> Query | None:
    """Parse the part of a statement after the amount, such as "black blocks"; return None if it cannot be parsed.

    `amount` is the amount, such as "exactly two". It becomes part of the result. One more phrase may follow the noun:
    "touching the edge", "at the top of a tower" (a stack of blocks), "on a yellow block", "in each box", or similar.
    """
    noun = read_noun(words)
    if noun is None:
        return None
    end = words.take("as the top of a tower", "as the base of a tower", "as the bottom of a tower")
    end = end or words.take("at the top of a tower", "at the base of a tower", "at the bottom of a tower")
    if end is not None:
        more = read_conditions(words, "tower")
        place = AtEnd(noun, "top" if " top " in end else "bottom")
        return None if more is None else GroupStatement(amount, "tower", (place, *more), (), choices)
    pair = read_over(words, noun)
    if pair is not None:
        # The number of pairs can differ from the number of towers; only "a" and "no" mean the same for both.
        plain = amount in (ONE, Amount("exactly", 0))
        return GroupStatement(amount, "tower", (pair,), (), choices) if plain else None
    touch = read_touch(words)
    if touch is None and words.take("in each box", "in every box", "in each grey box"):
        return GroupStatement(None, "box", (Has(amount, noun),), (), choices)
    return ObjectStatement(amount, noun, touch, choices)
