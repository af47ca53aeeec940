"""Reads the parts of sentences: numbers, amounts, noun phrases, groups of objects, and sides of the image that objects
touch.

Each function reads words from the current position of a `Words` object. If the expected words follow, the function
moves the position to the end of these words. Otherwise, the function returns None and does not move the position.
"""

from groundtrace.embedded.sight.labels import Noun, colour_word, kind_word, singular
from groundtrace.embedded.sight.query import Amount, Group, Place, Touch

MAX_WORDS = 48
_NUMBERS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}

_PREFIXES = (
    "exactly",
    "only",
    "just",
    "at least",
    "atleast",
    "at most",
    "atmost",
    "more than",
    "less than",
    "fewer than",
)
_WALLS = ("edge", "wall", "side", "boundary", "border")


class Words:
    """Holds the words of a sentence in lower case, which are read from left to right.

    `at` is the index of the next word. At most `MAX_WORDS` + 1 words are stored.
    """

    def __init__(self, text: str) -> None:
        spaced = text.lower()
        for mark in ",;:":
            spaced = spaced.replace(mark, f" {mark} ")
        words = [word.strip(".?!\"'()") for word in spaced.split()[: MAX_WORDS + 1]]
        self.words = [word for word in words if word]
        self.at = 0

    @property
    def done(self) -> bool:
        """Return whether all words were read."""
        return self.at >= len(self.words)

    @property
    def next(self) -> str:
        """Return the next word; "" if all words were read."""
        return "" if self.done else self.words[self.at]

    def take(self, *options: str) -> str | None:
        """Read one of several phrases, if the sentence continues with it, and return this phrase.

        The phrases `options` are tried in order. If the sentence continues with none of them, the result is None, and
        no words are read.
        """
        for option in options:
            wanted = option.split()
            if self.words[self.at : self.at + len(wanted)] == wanted:
                self.at += len(wanted)
                return option
        return None

    def number(self) -> int | None:
        """Read a number: 0 to 99 in digits, or "zero" to "twelve"; return None if no such number follows."""
        word = self.next
        value = _NUMBERS.get(word)
        if value is None and word.isascii() and word.isdigit() and len(word) <= 2:
            value = int(word)
        if value is not None:
            self.at += 1
        return value


def read_amount(words: Words) -> Amount | None:
    """Read an amount, such as "exactly two", "more than 3", "no", "a" or "4"; return None if no amount follows.

    "No" is exactly 0, and "a" is at least 1.
    """
    start = words.at
    prefix = words.take(*_PREFIXES)
    if prefix is None and words.take("no"):
        return Amount("exactly", 0)
    n = words.number()
    if n is None and prefix in (None, "at least", "atleast") and words.take("a", "an", "any", "some"):
        return Amount("at least", 1)
    if n is None:
        words.at = start
        return None
    match prefix:
        case None:
            return Amount("bare", n)
        case "at least" | "atleast":
            return Amount("at least", n)
        case "at most" | "atmost":
            return Amount("at most", n)
        case "more than":
            return Amount("at least", n + 1)
        case "less than" | "fewer than":
            return Amount("at most", n - 1)
        case _:
            return Amount("exactly", n)


def read_noun(words: Words, joined: bool = False) -> Noun | None:
    """Read a noun phrase for shapes, such as "yellow square" or "black or blue item", at the next word.

    Returns None if the next words are not a noun phrase for shapes. If `joined` is True, "black and blue items" is also
    read.
    """
    start = words.at
    colours: list[str] = []
    while (colour := colour_word(words.next)) is not None:
        colours.append(colour)
        words.at += 1
        if not (words.take("or") or (joined and words.take("and"))):
            break
        joined_word = colour_word(words.next)
        if joined_word is None:
            words.at = start
            return None
    kinds = kind_word(words.next)
    if kinds is None:
        words.at = start
        return None
    word = words.next if words.next.endswith("ss") else singular(words.next)
    words.at += 1
    return Noun(tuple(dict.fromkeys(colours)), kinds, word)


def read_group(words: Words) -> tuple[Group, Noun | None] | None:
    """Read the words for a tower (a stack of blocks) or a box (an area of the image), such as "grey box" or
    "black tower".

    Returns None if no such words follow. Otherwise returns two values: "tower" or "box"; and, for a tower with a
    colour, the noun of its blocks ("black block"), else None.
    """
    start = words.at
    colour = colour_word(words.next)
    if colour is not None:
        words.at += 1
    word = singular(words.next)
    if word == "tower" and colour != "grey":
        words.at += 1
        return "tower", None if colour is None else Noun((colour,), (), "block")
    if (word == "box" and colour in (None, "grey")) or (word == "square" and colour == "grey"):
        words.at += 1
        return "box", None
    words.at = start
    return None


def read_touch(words: Words) -> Touch | None:
    """Read a condition such as "that are not touching the edge" or "touching the bottom of a box".

    Returns None and reads no words if no such phrase follows.
    """
    start = words.at
    words.take("that is", "that are", "which is", "which are", "is", "are")
    negated = words.take("not") is not None
    words.take("closely")
    if words.take("touching", "touch", "touches"):
        place = _read_place(words)
        if place is not None:
            return Touch(place, negated)
    words.at = start
    return None


def _read_place(words: Words) -> Place | None:
    words.take("the", "a", "an", "any", "its")
    words.take("box")
    side = words.take("top", "bottom", "base", "left", "right")
    wall = words.take(*_WALLS, *(f"{wall}s" for wall in _WALLS))
    place: Place | None
    match side:
        case None:
            place = "edge" if wall else "corner" if words.take("corner") else None
        case "top":
            place = "top"
        case "bottom" | "base":
            place = "bottom"
        case "left" if wall:
            place = "left"
        case "right" if wall:
            place = "right"
        case _:
            place = None
    if place is not None:
        words.take("of a box", "of the box", "of its box", "of a grey box")
    return place
