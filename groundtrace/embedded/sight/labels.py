"""Defines the words for colours and shapes. Labels, questions and answers use the same words."""

from dataclasses import dataclass

from groundtrace.embedded.sight.shapes import FoundShape

COLOURS = (
    "black",
    "white",
    "grey",
    "red",
    "orange",
    "yellow",
    "green",
    "cyan",
    "blue",
    "purple",
    "pink",
    "brown",
)
KINDS = (
    "square",
    "rectangle",
    "circle",
    "ellipse",
    "triangle",
    "pentagon",
    "hexagon",
    "diamond",
)

_COLOUR_WORDS = {name: name for name in COLOURS} | {"gray": "grey", "violet": "purple", "magenta": "pink"}
_ANY_KIND = ("object", "item", "shape", "thing", "figure")
_KIND_WORDS: dict[str, tuple[str, ...]] = (
    {name: (name,) for name in KINDS}
    | dict.fromkeys(_ANY_KIND, ())
    | {
        "rectangle": ("rectangle", "square"),
        "ellipse": ("ellipse", "circle"),
        "oval": ("ellipse",),
        "disc": ("circle",),
        "disk": ("circle",),
        "dot": ("circle",),
        "ball": ("circle",),
        "block": ("square", "rectangle"),
        "tile": ("square", "rectangle"),
        "cube": ("square",),
        "bar": ("rectangle", "square"),
        "rhombus": ("diamond",),
    }
)
_PLURALS = {"boxes": "box", "rhombuses": "rhombus"}


@dataclass(frozen=True, slots=True)
class Noun:
    """Describes a set of shapes, as the phrase "blue or black circles" does.

    `colours` and `kinds` are the allowed colours and kinds of shape. If `colours` is empty, any colour is allowed; if
    `kinds` is empty, any kind is allowed. `word` is the phrase's noun in the singular.
    """

    colours: tuple[str, ...]
    kinds: tuple[str, ...]
    word: str

    def matches(self, shape: FoundShape) -> bool:
        """Return whether the noun describes a shape that was found in an image."""
        return self.allows(shape.colour, shape.kind)

    def allows(self, colour: str, kind: str) -> bool:
        """Return whether the noun describes a shape of this colour and kind."""
        return (not self.colours or colour in self.colours) and (not self.kinds or kind in self.kinds)

    def overlaps(self, other: "Noun") -> bool:
        """Return whether the two nouns could both describe the same shape, as "square" and "black block" could."""
        return _share(self.colours, other.colours) and _share(self.kinds, other.kinds)

    def covers(self, other: "Noun") -> bool:
        """Return whether this noun describes every shape that the other noun describes.

        For example, "square" covers "black square".
        """
        return _holds(self.colours, other.colours) and _holds(self.kinds, other.kinds)

    @property
    def is_general(self) -> bool:
        """Return whether the noun has no colour, and is a word for any kind of shape ("item") or the word "block".

        In images of towers, "block" means any object, although its kinds are only square and rectangle.
        """
        return not self.colours and (not self.kinds or self.word == "block")

    @property
    def phrase(self) -> str:
        """Return the noun with its colours, in the singular: "blue or black circle"."""
        return f"{' or '.join(self.colours)} {self.word}".strip()


def _share(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not own or not others or not set(own).isdisjoint(others)


def _holds(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not own or (bool(others) and set(own) >= set(others))


def singular(word: str) -> str:
    """Return the singular of a regular English plural; any other word is returned unchanged."""
    if word in _PLURALS:
        return _PLURALS[word]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def colour_word(word: str) -> str | None:
    """Return the colour that a word means ("grey" for "gray"); None if the word is not a colour."""
    return _COLOUR_WORDS.get(word)


def kind_word(word: str) -> tuple[str, ...] | None:
    """Return the kinds of shape that a word means, such as ("square", "rectangle") for "block".

    The result is () for a word that means any kind ("object"), and None if the word is not a word for shapes.
    """
    kinds = _KIND_WORDS.get(word)
    return kinds if kinds is not None else _KIND_WORDS.get(singular(word))


def read_label(text: str) -> Noun | None:
    """Parse the name of a class of shapes: "yellow square", "circles", "blue object" or "blue".

    Returns None if the name is empty or has more than 12 words, or if a word is unknown.
    """
    colours: list[str] = []
    words = text.lower().split()
    if not words or len(words) > 12:
        return None
    for word in words[:-1]:
        colour = colour_word(word)
        if colour is not None:
            colours.append(colour)
        elif word not in ("or", "a", "an", "the"):
            return None
    last = words[-1]
    kinds = kind_word(last)
    if kinds is None:
        colour = colour_word(last)
        return None if colour is None else Noun((*colours, colour), (), "object")
    return Noun(tuple(colours), kinds, last if last in _KIND_WORDS else singular(last))
