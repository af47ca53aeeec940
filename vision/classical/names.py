"""Names of single objects: a class label with what else people say of an object, its place or its size.

"leftmost yellow square", "blue block in the left box", "small circle", "triangle (black)". What can be checked by the
objects' boxes is: the ends of the image, the panel, the size beside that of the others. "On the left", "upper" and the
like do not say of what, and are taken as they are given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vision.classical.labels import COLOURS, Noun, colour_word, kind_word, read_label, singular
from vision.classical.shapes import Box

_ENDS = {"left": (0, 1), "right": (0, -1), "top": (1, 1), "bottom": (1, -1)}
"""Each end of an image: the axis, and 1 where the least coordinate is nearest to it."""
_SIDES = {"upper": "top", "lower": "bottom", "high": "top", "low": "bottom"} | {end: end for end in _ENDS}
_PANELS = {"left": 0, "first": 0, "middle": 1, "center": 1, "centre": 1, "central": 1, "second": 1, "right": -1}
_PANELS |= {"third": 2, "last": -1}
_PANEL = re.compile(
    rf" (?:in|of|inside|within|from) (?:the )?({'|'.join(_PANELS)})(?:most)?(?: hand)? (?:grey |gray )?(?:box|panel)$"
)
_END_BEHIND = re.compile(
    r" (?:(?:on|at|to|in) )?(?:the )?(?:far|very|extreme|farthest|furthest|outermost)(?: (?:to|on|at) the)? "
    r"(left|right|top|bottom)(?: (?:side|edge|end))?$"
)
_END_BEFORE = re.compile(
    r"(?:^|(?<= ))(?:(left|right|top|bottom|upper|lower) ?most|(?:far|very) (left|right|top|bottom)|"
    r"(high|low)est) "
)
_SOMEWHERE = re.compile(
    r" (?:(?:on|at|to|in|near) (?:the )?(?:left|right|top|bottom|middle|center|centre)(?: (?:side|part|hand side))?"
    r"|in (?:the|this) (?:whole )?(?:image|picture)|here|there)$"
)
_THAT_IS = re.compile(r" (?:that|which) (?:is|are) ")
_SIZES = {"small": -1, "tiny": -1, "little": -1, "smaller": -1, "large": 1, "big": 1, "larger": 1, "bigger": 1}
_SAID_FREELY = frozenset([
    "left", "right", "top", "bottom", "upper", "lower", "middle", "center", "centre", "central", "hand", "medium",
    "sized", "size", "visible", "solid", "filled", "flat", "plain", "colored", "coloured", "shaped", "a", "an", "the",
    "or",
])  # fmt: skip
_MARKS = re.compile(r"[^\w\s]")
_OTHER_SIZE = 1.25
_PX = 2.0
MAX_CHARS = 120


@dataclass(frozen=True, slots=True)
class Name:
    """What a name picks out: objects of a noun, at an end of the image, in a panel, of a size beside the others.

    ``end`` is an axis (0 is x) and the sign of the way inwards; ``panel`` counts from the left, -1 is the last;
    ``size`` is -1 for small ones and 1 for large ones.
    """

    noun: Noun
    end: tuple[int, int] | None = None
    panel: int | None = None
    size: int = 0

    def among(self, labels: Sequence[str], boxes_px: Sequence[Box], panels: Sequence[Box]) -> list[int]:
        """Returns which of all objects of an image are named, by their class labels ("blue square") and boxes."""
        found = [i for i, label in enumerate(labels) if self.noun.allows(*label.split(" ", 1))]
        if self.panel is not None and panels:
            left, _, right, _ = panels[self.panel if self.panel < len(panels) else -1]
            found = [i for i in found if left <= (boxes_px[i][0] + boxes_px[i][2]) / 2 <= right]
        if self.size:
            heights = [box[3] - box[1] for box in boxes_px]
            least, most = min(heights, default=0.0), max(heights, default=0.0)
            if most > least * _OTHER_SIZE:
                opposite = most if self.size < 0 else least
                near = max(opposite, 1e-6)
                found = [i for i in found if max(heights[i] / near, near / max(heights[i], 1e-6)) > _OTHER_SIZE]
        if self.end is not None and found:
            axis, inwards = self.end
            middles = {i: inwards * (boxes_px[i][axis] + boxes_px[i][axis + 2]) / 2 for i in found}
            nearest = min(middles.values())
            found = [i for i in found if middles[i] <= nearest + _PX]
        return found


def read_name(text: str) -> Name | None:
    """Returns what a name of an object picks out; None where a word is not known."""
    if len(text) > MAX_CHARS:
        return None
    rest = " " + " ".join(_MARKS.sub(" ", text.lower()).split())
    panel = end = None
    if found := _PANEL.search(rest):
        panel, rest = _PANELS[found.group(1)], rest[: found.start()]
    if found := _END_BEHIND.search(rest):
        end, rest = _ENDS[found.group(1)], rest[: found.start()]
    rest = _SOMEWHERE.sub("", rest)
    if found := _END_BEFORE.search(rest):
        end = _ENDS[_SIDES[next(side for side in found.groups() if side)]]
        rest = rest[: found.start()] + rest[found.end() :]
    words = _THAT_IS.sub(" ", rest).split()
    size = next((_SIZES[word] for word in words if word in _SIZES), 0)
    noun = _noun([word for word in words if word not in _SIZES and word not in _SAID_FREELY])
    return None if noun is None else Name(noun, end, panel, size)


def _noun(words: Sequence[str]) -> Noun | None:
    """The class that colours and nouns in any order name: each noun narrows it, as in "square block"."""
    colours = [word for word in words if colour_word(word) is not None]
    nouns = [word for word in words if colour_word(word) is None]
    if not nouns:
        return read_label(" ".join(colours))
    if singular(nouns[-1]) == "box" and colours and "grey" not in colours and "gray" not in colours:
        nouns[-1] = "square"  # the grey boxes are what holds the objects
    known = [kind_word(noun) for noun in nouns]
    kinds: tuple[str, ...] = ()
    for each in known:
        if each is None:
            return None
        kinds = each if not kinds else tuple(kind for kind in kinds if not each or kind in each)
        if each and not kinds:
            return None
    named = tuple(colour for word in colours if (colour := colour_word(word)) in COLOURS)
    return Noun(named, kinds, singular(nouns[0]))
