"""Parses names of single objects: a class label with further words for the object's place or size.

Examples are "leftmost yellow square", "blue block in the left box", "second circle from the left", "triangle (black)".

Some words for the place or size are checked with the objects' boxes: an extreme position ("leftmost"), the rank from a
side ("second from the left"), the panel, and the size relative to the other objects. All other words for the place are
accepted without a check, such as "on the left", "upper", "in the corner" or "next to a circle". In "topmost block of
the left tower", the tower cannot be checked; therefore "topmost" is not checked either.

A name with unknown words is parsed if a colour and a shape are adjacent ("yet another blue square"). The other words
must not be a negation, must not refer to another thing ("edge of the blue square"), and must not contain another colour
or shape. In a name without a colour, all words must be known, since an unknown word may be a colour ("teal square").
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundtrace.embedded.sight.labels import COLOURS, Noun, colour_word, kind_word, read_label, singular
from groundtrace.embedded.sight.shapes import Box
from groundtrace.schemas.label_parts import RELATIONS, thing_of
from groundtrace.schemas.labels import GENERAL, MAX_LABEL_CHARS

_ENDS = {"left": (0, 1), "right": (0, -1), "top": (1, 1), "bottom": (1, -1)}
"""Each side of an image: the axis (0 is x, 1 is y), and the sign of the direction into the image along this axis."""
_SIDES = {"upper": "top", "lower": "bottom", "high": "top", "low": "bottom"} | {end: end for end in _ENDS}
PANELS = {"left": 0, "first": 0, "middle": 1, "center": 1, "centre": 1, "central": 1, "second": 1, "right": -1}
PANELS |= {"third": 2, "last": -1, "1": 0, "2": 1, "3": 2}
"""The index of a panel, from the left, for each word that names it; -1 is the last panel."""
_HOLDER = "(?:box|panel|container|compartment)"
_PLACED = rf"(?:the )?({'|'.join(PANELS)})(?:most)?(?: hand)? (?:grey |gray )?{_HOLDER}(?: s)?"
_PANEL = re.compile(
    rf" (?:(?:in|of|inside|within|from) )?(?:{_PLACED}|(?:the )?{_HOLDER} (?:number )?([123]))"
    r"(?: from the left)?(?= |$)"
)
_RANKS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}
_RANKS |= {"ninth": 9, "tenth": 10, "1st": 1, "2nd": 2, "3rd": 3} | {f"{n}th": n for n in range(4, 11)}
_RANK_OF_SIDE = re.compile(
    rf" ({'|'.join(_RANKS)})(?P<between>(?: \w+){{0,4}}?) from (?:the )?(left|right|top|bottom)(?= |$)"
)
_RANK_OF_END = re.compile(rf" ({'|'.join(_RANKS)}) (left|right|top|bottom|high|low)(?: ?most|est) ")
_END_BEHIND = re.compile(
    r" (?:(?:that|which) (?:is|are|lies) )?(?:(?:on|at|to|in) )?(?:the )?"
    r"(?:far|very|extreme|farthest|furthest|outermost|closest|nearest)(?: (?:to|on|at))?"
    r"(?: the)? (left|right|top|bottom)(?: (?:side|edge|end))?$"
)
_END_BEFORE = re.compile(
    r"(?:^|(?<= ))(?:(left|right|top|bottom|upper|lower) ?most|(?:far|very|most|extreme) (left|right|top|bottom)|"
    r"(high|low)est)(?: |$)"
)
_OF_ALL = re.compile(r"(?<=est|ost)(?: one)? of (?:the|all|these|those)(?: (?:two|three|four|five|\d))?(?= )")
_SOMEWHERE = re.compile(
    r" (?:(?:on|at|to|in|near) (?:the )?(?:left|right|top|bottom|middle|center|centre)(?: (?:side|part|hand side))?"
    r"|in (?:the|this) (?:whole )?(?:image|picture)|here|there)$"
)
_COLOURED = re.compile(
    r" (?:that is|that are|which is|which are|whose colou?r is|in|of|with)"
    r"((?: (?:a|the|or|and|color|colour|colored|coloured|fill|filling|"
    rf"gray|violet|magenta|{'|'.join(COLOURS)}))+)$"
)
_SIZES: dict[str, int] = dict.fromkeys(["small", "tiny", "little", "smaller", "mini", "miniature"], -1)
_SIZES |= dict.fromkeys(["large", "big", "larger", "bigger", "huge", "giant"], 1)
_EXTREMES = {"smallest": -1, "tiniest": -1, "largest": 1, "biggest": 1}
_FORMS = {"round": "circle", "circular": "circle", "triangular": "triangle", "rectangular": "rectangle"}
"""The noun for each adjective of shape."""
_SAID_FREELY = frozenset([
    "left", "right", "top", "bottom", "upper", "lower", "middle", "center", "centre", "central", "hand", "medium",
    "mid", "average", "sized", "size", "visible", "solid", "filled", "fill", "filling", "flat", "plain", "color",
    "colour", "colored", "coloured", "shaped", "bright", "light", "dark", "pale", "deep", "vivid", "a", "an", "the",
    "or", "and",
])  # fmt: skip
_AGAINST = frozenset(
    ["not", "no", "non", "never", "without", "neither", "nor", "except", "but", "besides", "unlike", "of"]
)
"""Words before a name that negate it, or that refer to a part of the object."""
_LISTED = frozenset({"or", "and"})
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_MARKS = re.compile(r"[^\w\s]")
_OTHER_SIZE = 1.25
_PX = 2.0


@dataclass(frozen=True, slots=True)
class Name:
    """Describes the objects that a name means: the objects of a noun, with further restrictions on place and size.

    ``rank`` (from 1) is the position of an object, counted from one side of the image. ``end`` is this side: (0, 1) is
    the left side, (0, -1) the right, (1, 1) the top, and (1, -1) the bottom. Its first number is the axis (0 for x, 1
    for y), and its second number is the direction in which objects are counted along this axis.

    ``panel`` is the index of the panel from the left; -1 is the last panel. Panels are areas separated by bars.
    ``size`` is -1 for small and 1 for large objects, compared with all objects in the image. ``extreme`` is -1 for the
    smallest and 1 for the largest objects of the noun. The default values mean no restriction.
    """

    noun: Noun
    end: tuple[int, int] | None = None
    panel: int | None = None
    size: int = 0
    rank: int = 1
    extreme: int = 0

    def among(self, labels: Sequence[str], boxes_px: Sequence[Box], panels: Sequence[Box]) -> list[int]:
        """Return the indices of the objects that the name means, among all objects in the image.

        ``labels`` are the classes of the objects ("blue square"), and ``boxes_px`` are their boxes (x1, y1, x2, y2) in
        pixels. ``panels`` are the boxes of the image's panels (areas that are separated by bars).
        """
        found = [i for i, label in enumerate(labels) if self.noun.allows(*label.split(" ", 1))]
        if self.panel is not None and panels:
            left, _, right, _ = panels[self.panel if self.panel < len(panels) else -1]
            found = [i for i in found if left <= (boxes_px[i][0] + boxes_px[i][2]) / 2 <= right]
        sides = [math.sqrt(max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)) for box in boxes_px]
        if self.size:
            least, most = min(sides, default=0.0), max(sides, default=0.0)
            if most > least * _OTHER_SIZE:
                opposite = most if self.size < 0 else least
                found = [i for i in found if _is_other_size(sides[i], opposite)]
        if self.extreme and found:
            most = max(self.extreme * sides[i] for i in found)
            found = [i for i in found if not _is_other_size(sides[i], abs(most))]
        return self._ranked(found, boxes_px)

    def _ranked(self, found: list[int], boxes_px: Sequence[Box]) -> list[int]:
        """Return the indices of the objects whose place fits the name, such as "second from the left".

        ``found`` are the indices of the possible objects, and ``boxes_px`` are the boxes of all objects. The name holds
        a side of the image (``self.end``) and a position (``self.rank``), in the example the left side and 2. The
        possible objects are sorted by the distance of their middles from this side. The result has the object at this
        position, and all objects at the same distance (up to 2 pixels). ``found`` is returned unchanged in two cases:
        the side is None, or ``found`` has fewer than ``self.rank`` objects.
        """
        if self.end is None or len(found) < self.rank:
            return found
        axis, inwards = self.end
        middles = {i: inwards * (boxes_px[i][axis] + boxes_px[i][axis + 2]) / 2 for i in found}
        place = sorted(middles.values())[self.rank - 1]
        return [i for i in found if abs(middles[i] - place) <= _PX]


def _is_other_size(side_px: float, other_px: float) -> bool:
    return max(side_px, other_px) > _OTHER_SIZE * max(min(side_px, other_px), 1e-6)


def read_name(text: str) -> Name | None:
    """Parse the name of an object, such as "leftmost yellow square". Return None if the name is unreadable.

    The module's docstring explains which words are known.
    """
    if len(text) > MAX_LABEL_CHARS:
        return None
    text = text.lower()
    whole = _read(text)
    if whole is not None:
        return whole
    thing = thing_of(text)
    noun = _loose_noun(text) if thing == text else _noun_of(thing) or _loose_noun(text)
    if noun is None:
        return None
    panel, rest = _panel(_plain(text))
    return Name(noun, panel=panel, size=_first(_SIZES, rest.split()))


def _noun_of(thing: str) -> Noun | None:
    read = _read(thing)
    return None if read is None else read.noun


def _loose_noun(text: str) -> Noun | None:
    """Return the noun (colours and shape) of a name that also has unknown words.

    The noun begins with the first colour word, and ends with the words for a shape after it: "blue square" in "zorp
    blue square". Return None if no word for a shape follows the colour, or if the other words may change the meaning.
    """
    words = _TOKEN.findall(text)
    start = next((n for n, word in enumerate(words) if colour_word(word) is not None), len(words))
    middle = next((n for n in range(start, len(words)) if not _is_attribute(words[n])), len(words))
    end = next((n for n in range(middle, len(words)) if _kinds(words[n]) is None), len(words))
    before, behind = words[:start], words[end:]
    if end == middle or any(word in RELATIONS or word in _AGAINST or _kinds(word) for word in before):
        return None
    other = next((n for n, word in enumerate(behind) if colour_word(word) is not None or _kinds(word)), None)
    if other is not None and not any(_places(behind, n) for n in range(other)):
        return None
    attributes = [word for word in words[start:middle] if colour_word(word) is not None]
    noun = _noun([*attributes, *words[middle:end]])
    return noun if noun is not None and noun.kinds else None  # "star-like blue object" claims a shape


def _is_attribute(word: str) -> bool:
    return colour_word(word) is not None or word in _SAID_FREELY or word in _SIZES or word in _EXTREMES


def _kinds(word: str) -> tuple[str, ...] | None:
    """Return the kinds of shape that a word means: () for any kind, None if the word is not a noun for shapes."""
    return () if singular(word) in GENERAL | {"one"} else kind_word(word)


def _places(words: Sequence[str], index: int) -> bool:
    """Return whether the word at ``index`` begins a phrase about an object's place relative to other things.

    The result is True in three cases. First, the word is a word of position other than "in" and "to": "near" in "near
    the circle". Second, the word ends with "ing": "touching" in "touching the circle". Third, the word ends with "s",
    is not "is", "was" or "has", and follows "that" or "which": "touches" in "that touches the circle".
    """
    word, previous = words[index], words[index - 1] if index else ""
    is_verb = previous in ("that", "which") and word.endswith("s") and word not in ("is", "was", "has")
    return (word in RELATIONS and word not in ("in", "to")) or word.endswith("ing") or is_verb


def _plain(text: str) -> str:
    return _OF_ALL.sub("", " " + " ".join(_MARKS.sub(" ", text).split()))


def _panel(rest: str) -> tuple[int | None, str]:
    """Return the index of the panel that a name mentions, and the rest of the name; the index is None without a panel.

    A panel is an area of the image that is separated from other areas by bars. The name "circle in the left box"
    mentions the panel with the index 0.
    """
    found = _PANEL.search(rest)
    if found is None:
        return None, rest
    return PANELS[found.group(1) or found.group(2)], rest[: found.start()] + rest[found.end() :]


def _first(values: Mapping[str, int], words: Sequence[str]) -> int:
    return next((values[word] for word in words if word in values), 0)


def _read(text: str) -> Name | None:
    panel, rest = _panel(_plain(text))
    rank, end, rest = _end(rest)
    words = _COLOURED.sub(r"\1", rest).split()
    others = _SIZES.keys() | _EXTREMES.keys() | _SAID_FREELY
    if sum(colour_word(word) is not None for word in words) > 1 and _LISTED.isdisjoint(words):
        return None  # "blue square (the black one)"
    noun = _noun([_FORMS.get(word, word) for word in words if word not in others])
    size, extreme = _first(_SIZES, words), _first(_EXTREMES, words)
    return None if noun is None else Name(noun, end, panel, size, rank, extreme)


def _end(rest: str) -> tuple[int, tuple[int, int] | None, str]:
    """Split the name of an object into its rank, the side from which the rank is counted, and the rest of the name.

    For example, "second circle from the left" is split into the rank 2, the left side (0, 1), and "circle". The rank is
    1 if the name mentions no rank. The side is None if the name gives no side from which to count. :class:`Name`
    explains the two numbers of a side. A place at the end of the name, such as "on the left", is left out of the rest.
    """
    end, rank = None, 1
    if found := _RANK_OF_SIDE.search(rest):
        rank, end = _RANKS[found.group(1)], _ENDS[found.group(3)]
        rest = rest[: found.start()] + found["between"] + rest[found.end() :]
    elif found := _RANK_OF_END.search(rest + " "):
        rank, end = _RANKS[found.group(1)], _ENDS[_SIDES[found.group(2)]]
        rest = rest[: found.start()] + " " + rest[found.end() :]
    elif found := _END_BEHIND.search(rest):
        end, rest = _ENDS[found.group(1)], rest[: found.start()]
    rest = _SOMEWHERE.sub("", rest)
    if end is None and (found := _END_BEFORE.search(rest)):
        end = _ENDS[_SIDES[next(side for side in found.groups() if side)]]
        rest = rest[: found.start()] + rest[found.end() :]
    return rank, end, rest


def _noun(words: Sequence[str]) -> Noun | None:
    """Return the class of shapes that colours and nouns describe together, such as "blue square".

    The words may have any order. If there are several nouns, a shape must fit all of them: a "square block" is a block
    that is a square. Return None if a word is unknown, or if no kind of shape fits all nouns, as in "circle square".
    """
    colours = [word for word in words if colour_word(word) is not None]
    nouns = [word for word in words if colour_word(word) is None]
    if not nouns:
        return read_label(" ".join(colours))
    if singular(nouns[-1]) == "box" and colours and "grey" not in colours and "gray" not in colours:
        nouns[-1] = "square"  # only grey boxes are containers of objects
    known = [_kinds(noun) for noun in nouns]
    kinds: tuple[str, ...] = ()
    for each in known:
        if each is None:
            return None
        kinds = each if not kinds else tuple(kind for kind in kinds if not each or kind in each)
        if each and not kinds:
            return None
    named = tuple(colour for word in colours if (colour := colour_word(word)) in COLOURS)
    return Noun(named, kinds, singular(nouns[0]))
