"""Defines the parsed form of a question. The module `language` produces it, and the module `answer` evaluates it."""

from dataclasses import dataclass
from typing import Literal

from groundtrace.embedded.sight.labels import Noun

Place = Literal["edge", "corner", "top", "bottom", "left", "right"]
Group = Literal["tower", "box"]
Superlative = Literal["largest", "smallest", "tallest", "shortest", "leftmost", "rightmost", "topmost", "lowest"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Holds an amount, such as "exactly 2" or "at least 3".

    `op` is the comparison, and `n` is the number. "More than 2" is stored as "at least" and 3, and "no" as "exactly"
    and 0. `op` is "bare" for a number without such words ("two").
    """

    op: Literal["exactly", "at least", "at most", "bare"]
    n: int

    def holds(self, low: int, high: int) -> bool | None:
        """Return whether the amount agrees with a count that is between `low` and `high` (inclusive).

        Returns None if the amount is right for only some of these counts, or if people would disagree about it. For
        example, they disagree whether "two circles" is right if there are three.
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
    """Describes a condition on an object: it touches a side or a corner of its panel (or of the image).

    `place` is this side or corner; "edge" means any side. If `negated` is True, the object must not touch it.
    """

    place: Place
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """Describes a condition on a tower (a stack of blocks) or a box (an area of the image): it has certain objects.

    The number of its objects that match `noun` must agree with `amount`. If `touch` is not None, only objects that meet
    the condition `touch` ("touching the edge") are counted.
    """

    amount: Amount
    noun: Noun
    touch: Touch | None = None


@dataclass(frozen=True, slots=True)
class OnlyOf:
    """Describes a condition on a tower (a stack of blocks) or a box (an area of the image): `noun` fits every object.

    For example, a tower with "only black and yellow blocks" has no other blocks. If one of the noun's colours is
    missing, it is undecided whether the condition is met: readers disagree about a tower with only black blocks.
    """

    noun: Noun


@dataclass(frozen=True, slots=True)
class ColourCount:
    """Describes a condition on a tower (a stack of blocks) or a box (an area of the image): it has exactly `n` colours.

    The different colours of its objects are counted.
    """

    n: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Describes a condition on a tower (a stack of blocks) or a box (an area of the image): its end matches a noun.

    `end` selects the top or the bottom object, which must match `noun`.
    """

    noun: Noun
    end: Literal["top", "bottom"]


@dataclass(frozen=True, slots=True)
class Over:
    """Describes a condition on a tower (a stack of blocks): an object that matches `upper` is above one that matches
    `lower`.

    If `adjacent` is True, the upper object must be directly on the lower one.
    """

    upper: Noun
    lower: Noun
    adjacent: bool


Condition = Has | OnlyOf | ColourCount | AtEnd | Over


@dataclass(frozen=True, slots=True)
class CountQuery:
    """Holds a question such as "How many yellow squares are there?".

    `noun` names the counted objects. `touch` is a condition on them ("touching the edge"); None without a condition.
    `choices` are the answer choices; empty if there are none.
    """

    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectStatement:
    """Holds a statement such as "There are exactly two blue circles touching the edge"; the answer is yes or no.

    `amount` is "exactly two", and `noun` is "blue circle". `touch` is the condition "touching the edge"; None without a
    condition. `choices` are the answer choices; empty if there are none.
    """

    amount: Amount
    noun: Noun
    touch: Touch | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStatement:
    """Holds a statement such as "There is a tower with a black block at the top". The answer is yes or no.

    `group` is "tower" (a stack of blocks) or "box" (an area of the image). The statement is true if the number of
    towers or boxes that meet all `conditions` agrees with `amount`. If `amount` is None, every tower or box must meet
    them.

    If `of` is not empty, the statement is about one tower or box ("the tower with four blocks has …"): the only one
    that meets the conditions in `of`. `choices` are the answer choices; empty if there are none.
    """

    amount: Amount | None
    group: Group
    conditions: tuple[Condition, ...]
    of: tuple[Condition, ...]
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeQuery:
    """Holds a question such as "What colour is the tallest bar?". The answer is the colour or kind of one object.

    `attribute` is what the question asks for. `superlative` ("tallest") selects the object among those that match
    `noun`; None if the noun alone selects it. `choices` are the answer choices; empty if there are none.
    """

    attribute: Literal["colour", "shape"]
    superlative: Superlative | None
    noun: Noun
    choices: tuple[str, ...]


Query = CountQuery | ObjectStatement | GroupStatement | AttributeQuery


def nouns_of(query: Query) -> tuple[Noun, ...]:
    """Return the nouns of a parsed question in order, without duplicates. If it has none, return the noun "object".

    For example, the noun of "How many yellow squares are there?" is "yellow square".
    """
    if not isinstance(query, GroupStatement):
        return (query.noun,)
    nouns: list[Noun] = []
    for condition in query.of + query.conditions:
        if isinstance(condition, Over):
            nouns += [condition.upper, condition.lower]
        elif not isinstance(condition, ColourCount):
            nouns.append(condition.noun)
    return tuple(dict.fromkeys(nouns)) or (Noun((), (), "object"),)
