"""Parses the conditions of a question on a tower (a stack of blocks) or a box (an area of the image).

These are the phrases after "with", "that has" or "contains". For example, "a tower with exactly two black blocks" has
the condition "exactly two black blocks".
"""

from groundtrace.embedded.sight.labels import Noun, kind_word
from groundtrace.embedded.sight.query import Amount, AtEnd, ColourCount, Condition, Group, Has, OnlyOf, Over
from groundtrace.embedded.sight.words import Words, read_amount, read_noun, read_touch

ONE = Amount("at least", 1)
_HAVE = ("has", "have", "contains", "contain")
_HAVING = (
    *("with", "having", "containing", "and it has", *_HAVE),
    *(f"{word} {verb}" for word in ("that", "which") for verb in _HAVE),
)


def read_conditions(words: Words, group: Group) -> tuple[Condition, ...] | None:
    """Parse the conditions that begin with "with", "that has" or similar words, as in "a tower with two black blocks".

    `words` is the sentence. Parsing begins at its next word (`words.next`). `group` is the thing that must meet the
    conditions: "tower" (a stack of blocks) or "box" (an area of the image). Returns () if no conditions follow, and
    None if they are unreadable.
    """
    start = words.at
    words.take(",")
    if words.take(*_HAVING) is None:
        words.at = start
        return ()
    return read_listed(words, group)


def read_listed(words: Words, group: Group) -> tuple[Condition, ...] | None:
    """Parse a list of conditions, joined by commas, "and" and "with"; return None if one of them is unreadable.

    `words` is the sentence. Parsing begins at its next word (`words.next`). `group` is the thing that must meet the
    conditions: "tower" (a stack of blocks) or "box" (an area of the image).
    """
    found: list[Condition] = []
    while True:
        condition = read_condition(words, group)
        if condition is None:
            return None
        found.append(condition)
        comma = words.take(",") is not None
        if not (words.take("and it has", "and", "with", "having") or comma):
            return tuple(found)


def read_condition(words: Words, group: Group) -> Condition | None:
    """Parse one condition on a tower or box, such as "a black block at the top".

    `words` is the sentence. Parsing begins at its next word (`words.next`). `group` is the thing that must meet the
    condition: "tower" (a stack of blocks) or "box" (an area of the image). If the next words are not a condition, the
    result is None, and no words are read.
    """
    start = words.at
    for pattern in (_colour_condition, _end_condition, _has_condition, _only_condition):
        condition = pattern(words, group)
        if condition is not None:
            return condition
        words.at = start
    return None


def _colour_condition(words: Words, _: Group) -> Condition | None:
    """Parse a condition on the number of colours in a tower or box; return None for other words.

    Examples are "blocks of all 3 different colours", "items of only one color" and "all 3 colors".
    """
    of_objects = False
    if kind_word(words.next) is not None:
        words.at += 1
        if not words.take("of"):
            return None
        of_objects = True
    if of_objects and words.take("the same"):
        n = 1
    elif words.take("only", "exactly", "all"):
        n = words.number()
    else:
        return None
    words.take("different")
    return ColourCount(n) if n and words.take("colors", "colours", "color", "colour") else None


def _end_condition(words: Words, _: Group) -> Condition | None:
    """Parse words about the block at one end of a tower, and return them as a condition; None for other words.

    Examples are "a blue block at the top", "a yellow base" and "the black one is on top".
    """
    article = words.take("a", "an", "the", "one", "1", "exactly one")
    if article is None:
        return None
    mark = words.at
    noun = read_noun(words)
    if noun is None:
        words.at = mark
        named = _noun_of_colour(words)
        if named is None:
            return None
        if words.take("base", "bottom"):
            return AtEnd(named, "bottom")
        if words.take("top"):
            return AtEnd(named, "top")
        noun = named if words.take("one") else None
    if noun is None:
        return None
    words.take("is")
    if words.take("at the top", "on the top", "on top", "at top", "as the top"):
        return None if words.next == "of" else AtEnd(noun, "top")
    if words.take("at the base", "at the bottom", "at base", "at bottom", "as the base", "on the bottom"):
        return None if words.next == "of" else AtEnd(noun, "bottom")
    return None


def _noun_of_colour(words: Words) -> Noun | None:
    """Read a colour without a noun as "object of that colour"; return None if the next word is not a colour."""
    noun = read_noun(Words(f"{words.next} object"))
    if noun is None or not noun.colours:
        return None
    words.at += 1
    return noun


def _has_condition(words: Words, group: Group) -> Condition | None:
    """Parse a condition on the objects in a tower or box, such as "2 squares not touching the wall".

    Other examples are "exactly three blocks" and, if `group` is "tower", "a black block over a blue block". Return None
    for other words.
    """
    amount = read_amount(words)
    noun = read_noun(words) if amount is not None else None
    if amount is None or noun is None:
        return None
    if group == "tower" and amount == ONE:
        pair = read_over(words, noun)
        if pair is not None:
            return pair
    return Has(amount, noun, read_touch(words))


def _only_condition(words: Words, _: Group) -> Condition | None:
    """Parse "only black and yellow items"; return None for other words."""
    if not words.take("only"):
        return None
    noun = read_noun(words, joined=True)
    return OnlyOf(noun) if noun is not None and noun.colours else None


def read_over(words: Words, first: Noun) -> Over | None:
    """Parse a phrase that places an object above or below another object, such as "on a yellow block".

    `first` is the noun before the phrase: "black block" in "a black block on a yellow block". The result is the
    condition that one of the two objects is above the other. "On" implies that they touch; "above" and "below" do not.
    If the next words are not a phrase of this kind, the result is None, and no words are read.
    """
    start = words.at
    relation = words.take("on top of", "on", "over", "above", "below", "under", "underneath")
    if relation is not None and words.take("a", "an"):
        second = read_noun(words)
        if second is not None:
            near = relation in ("on", "on top of")
            below = relation in ("below", "under", "underneath")
            return Over(second, first, near) if below else Over(first, second, near)
    words.at = start
    return None
