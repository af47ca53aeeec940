"""The parsed form of a question: `language` produces it and `answer` evaluates it."""

from dataclasses import dataclass
from typing import Literal

from groundtrace.embedded.sight.labels import Noun

Place = Literal["edge", "corner", "top", "bottom", "left", "right"]
Group = Literal["tower", "box"]
Superlative = Literal["largest", "smallest", "tallest", "shortest", "leftmost", "rightmost", "topmost", "lowest"]


@dataclass(frozen=True, slots=True)
class Amount:
    """How many: "exactly 2", "at least 1", "at most 3", or a "bare" number such as "two"."""

    op: Literal["exactly", "at least", "at most", "bare"]
    n: int

    def holds(self, low: int, high: int) -> bool | None:
        """Whether the amount holds for every count in low..high; None if the counts disagree or readers would."""
        answers = {self._holds_for(count) for count in range(low, high + 1)}
        return answers.pop() if len(answers) == 1 else None

    def _holds_for(self, count: int) -> bool | None:
        if self.op == "at most":
            return count <= self.n
        if self.op == "at least":
            return count >= self.n
        if self.op == "bare" and count > self.n:
            # With three circles, "two circles" is true for some readers and false for others.
            return None
        return count == self.n


@dataclass(frozen=True, slots=True)
class Touch:
    """Touching (or, if negated, not touching) a wall, a corner or a side of the box that contains an object."""

    place: Place
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """A group contains that amount of these objects."""

    amount: Amount
    noun: Noun
    touch: Touch | None = None


@dataclass(frozen=True, slots=True)
class OnlyOf:
    """All objects of a group match this noun, and each colour of the noun occurs."""

    noun: Noun


@dataclass(frozen=True, slots=True)
class ColourCount:
    """The objects of a group have exactly that many different colours."""

    n: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The top or bottom object of a group matches this noun."""

    noun: Noun
    end: Literal["top", "bottom"]


@dataclass(frozen=True, slots=True)
class Over:
    """Somewhere in a stack an object of `upper` is above one of `lower`; directly on it if `adjacent`."""

    upper: Noun
    lower: Noun
    adjacent: bool


Condition = Has | OnlyOf | ColourCount | AtEnd | Over


@dataclass(frozen=True, slots=True)
class CountQuery:
    """ "How many yellow squares are there?" """

    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectStatement:
    """ "There are exactly two blue circles touching the edge": yes or no."""

    amount: Amount
    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStatement:
    """ "There is a tower with a black block at the top": that many groups meet all conditions; yes or no.

    `amount` None means "each". With `of`, the statement is about the one group that meets those conditions.
    """

    amount: Amount | None
    group: Group
    conditions: tuple[Condition, ...]
    of: tuple[Condition, ...]
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeQuery:
    """ "What colour is the tallest bar?": the colour or kind of the selected object."""

    attribute: Literal["colour", "shape"]
    superlative: Superlative | None
    noun: Noun
    choices: tuple[str, ...]


Query = CountQuery | ObjectStatement | GroupStatement | AttributeQuery


def nouns_of(query: Query) -> tuple[Noun, ...]:
    """The nouns of a question, in order."""
    if not isinstance(query, GroupStatement):
        return (query.noun,)
    nouns: list[Noun] = []
    for condition in query.of + query.conditions:
        if isinstance(condition, Over):
            nouns += [condition.upper, condition.lower]
        elif not isinstance(condition, ColourCount):
            nouns.append(condition.noun)
    return tuple(dict.fromkeys(nouns)) or (Noun((), (), "object"),)
