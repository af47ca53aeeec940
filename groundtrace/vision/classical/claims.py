"""What a text says is to be seen: how many of which shapes, read phrase by phrase and held against the shapes seen.

Only noun phrases whose every word is known are read ("3 yellow squares", "no circle touching an edge", "a blue block"),
wherever they stand. A sentence about what is asked or supposed ("whether there is a black circle") claims nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundtrace.vision.classical.answer import matching
from groundtrace.vision.classical.labels import Noun
from groundtrace.vision.classical.query import Amount, Touch
from groundtrace.vision.classical.shapes import Box, Shape
from groundtrace.vision.classical.words import Words, read_amount, read_noun, read_touch

_SENTENCE = re.compile(r"[^.;!?\n]+")
_SUPPOSED = re.compile(
    r"\b(?:whether|if|unless|would|should|could|might|may|must|suppose|statement|question|claims?|asks?|asked|says?"
    r"|caption|need to|have to|let me|look for)\b",
    re.IGNORECASE,
)
_PARTLY = frozenset(
    {"in", "on", "at", "of", "from", "under", "above", "below", "near", "beside", "behind", "with", "that", "which"}
    | {"more", "inside", "over", "next", "to", "and"}
)
_WHOLE = ("in the image", "in the picture", "in this image", "in this picture", "in total", "in all")
MAX_CLAIMS = 200
"""How many phrases of a text are read."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That there are so many of a noun.

    `amount` None: the noun is merely spoken of. `is_part`: a place or a condition follows that is not read, so that the
    number is that of some of them.
    """

    noun: Noun
    amount: Amount | None
    touch: Touch | None = None
    is_part: bool = False

    @property
    def of_none(self) -> bool:
        """Whether it says that there are none."""
        return self.amount is not None and self.amount.n == 0 and self.amount.op in ("bare", "exactly", "at most")

    @property
    def is_number(self) -> bool:
        """Whether it says how many there are, and not only that they are few or many enough."""
        return self.amount is not None and self.amount.op in ("bare", "exactly")

    def named_rightly(self, shapes: Sequence[Shape], walls: tuple[Box, ...]) -> bool:
        """Whether there is something of the noun or, where it says that there is none, nothing."""
        if not self.of_none:
            return any(map(self.noun.matches, shapes))
        return self.holds(shapes, walls)

    def holds(self, shapes: Sequence[Shape], walls: tuple[Box, ...]) -> bool:
        """Whether the number is that of the shapes; that of some of them is at most theirs."""
        found = matching(self.noun, self.touch, list(shapes), walls)
        count = sum(map(self.noun.matches, shapes)) if found is None else len(found)
        if self.amount is None:
            return count > 0
        if self.of_none and self.is_part:
            return True  # none of some says nothing of all
        if found is None or self.is_part:
            return count >= self.amount.n
        op, n = self.amount.op, self.amount.n
        return count >= n if op == "at least" else count <= n if op == "at most" else count == n


def read_claims(text: str) -> tuple[Claim, ...]:
    """The claims of a text in order, at most :data:`MAX_CLAIMS`. Never raises."""
    claims: list[Claim] = []
    for sentence in _SENTENCE.finditer(text):
        if _SUPPOSED.search(sentence.group()) is None:
            claims += _claims(Words(sentence.group()))
        if len(claims) >= MAX_CLAIMS:
            break
    return tuple(claims[:MAX_CLAIMS])


def read_nouns(text: str) -> tuple[Noun, ...]:
    """The nouns that a text speaks of, in order, each once, whatever it says of them. Never raises."""
    found = [claim.noun for sentence in _SENTENCE.finditer(text) for claim in _claims(Words(sentence.group()))]
    return tuple(dict.fromkeys(found))


def _claims(words: Words) -> Iterator[Claim]:
    while not words.done:
        start = words.at
        amount = read_amount(words)
        noun = read_noun(words)
        if noun is None:
            words.at = start + 1
            continue
        touch = read_touch(words)
        words.take(*_WHOLE)
        yield Claim(noun, amount, touch, words.next in _PARTLY)
