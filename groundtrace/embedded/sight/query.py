"""Defines the parsed form of a question. The module `language` produces it, and the module `answer` evaluates it."""

from dataclasses import dataclass
from typing import Literal

from groundtrace.embedded.sight.labels import Noun

Place = Literal["edge", "corner", "top", "bottom", "left", "right"]
Group = Literal["tower", "box"]
Superlative = Literal["largest", "smallest", "tallest", "shortest", "leftmost", "rightmost", "topmost", "lowest"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Holds an amount such as "exactly 2". `op` is "bare" for a number without further words ("two")."""

    op: Literal["exactly", "at least", "at most", "bare"]
    n: int

    def holds(self, low: int, high: int) -> bool | None:
        """Return whether the amount is right, if the true count is between `low` and `high` (inclusive).

        Return None if the amount is right for only some of these counts, or if readers would disagree. For example,
        they disagree whether "two circles" is right if there are three.
        """
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
    """Requires that an object touches a side or a corner of the panel or image that contains it.

    If `negated` is set, the object must not touch it.
    """

    place: Place
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """Requires that a group (a tower or a box) contains `amount` objects that match `noun`.

    If `touch` is given, only objects that meet `touch` are counted.
    """

    amount: Amount
    noun: Noun
    touch: Touch | None = None


@dataclass(frozen=True, slots=True)
class OnlyOf:
    """Requires that all objects of a group (a tower or a box) match the noun, and that each colour of the noun occurs.

    For example, a tower with "only black and yellow blocks" must have blocks of both colours.
    """

    noun: Noun


@dataclass(frozen=True, slots=True)
class ColourCount:
    """Requires that the objects of a group (a tower or a box) have exactly `n` different colours."""

    n: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Requires that the top or bottom object of a group (a tower or a box) matches the noun."""

    noun: Noun
    end: Literal["top", "bottom"]


@dataclass(frozen=True, slots=True)
class Over:
    """Requires that, in a stack, an object that matches `upper` is above an object that matches `lower`.

    If `adjacent` is set, the upper object must be directly on the lower one.
    """

    upper: Noun
    lower: Noun
    adjacent: bool


Condition = Has | OnlyOf | ColourCount | AtEnd | Over


@dataclass(frozen=True, slots=True)
class CountQuery:
    """Holds a question such as "How many yellow squares are there?"."""

    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectStatement:
    """Holds a statement such as "There are exactly two blue circles touching the edge"; the answer is yes or no."""

    amount: Amount
    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStatement:
    """Holds a statement such as "There is a tower with a black block at the top". The answer is yes or no.

    The statement is true if the number of groups (towers or boxes) that meet all conditions agrees with `amount`.

    If `amount` is None, every group must meet the conditions. If `of` is given, it identifies one group: the only group
    that meets the conditions in `of`. The statement is then about this group ("the tower with four blocks has …").
    """

    amount: Amount | None
    group: Group
    conditions: tuple[Condition, ...]
    of: tuple[Condition, ...]
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeQuery:
    """Holds a question such as "What colour is the tallest bar?". The answer is the colour or kind of one object."""

    attribute: Literal["colour", "shape"]
    superlative: Superlative | None
    noun: Noun
    choices: tuple[str, ...]


Query = CountQuery | ObjectStatement | GroupStatement | AttributeQuery


def nouns_of(query: Query) -> tuple[Noun, ...]:
    """Return the nouns of a question in order, without duplicates. If it has none, return the noun "object"."""
    if not isinstance(query, GroupStatement):
        return (query.noun,)
    nouns: list[Noun] = []
    for condition in query.of + query.conditions:
        if isinstance(condition, Over):
            nouns += [condition.upper, condition.lower]
        elif not isinstance(condition, ColourCount):
            nouns.append(condition.noun)
    return tuple(dict.fromkeys(nouns)) or (Noun((), (), "object"),)
