"""Reads a text's claims about visible shapes and their number, and compares the claims with the shapes in the image.

Only noun phrases of known words are read ("3 yellow squares", "no circle touching an edge", "a blue block"), anywhere
in the text. A sentence about a question or an assumption ("whether there is a black circle") has no claims.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundtrace.embedded.sight.answer import matching
from groundtrace.embedded.sight.labels import Noun
from groundtrace.embedded.sight.query import Amount, Touch
from groundtrace.embedded.sight.shapes import Box, FoundShape
from groundtrace.embedded.sight.words import Words, read_amount, read_noun, read_touch

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
"""The maximum number of claims that are read from a text."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Holds one claim of a text about the number of visible shapes, such as "3 circles touching the edge".

    `amount` is the claimed number; None if the text only mentions the shapes. `noun` names the shapes, and `touch` is a
    condition on them ("touching the edge"), or None. `is_part` is True if the text adds a place or a condition that
    this module cannot read, as in "2 squares on the left". `amount` is then the number of only some of the squares.
    """

    noun: Noun
    amount: Amount | None
    touch: Touch | None = None
    is_part: bool = False

    @property
    def of_none(self) -> bool:
        """Return whether the claim states that no object matches its noun, as "no circles" does."""
        return self.amount is not None and self.amount.n == 0 and self.amount.op in ("bare", "exactly", "at most")

    @property
    def is_number(self) -> bool:
        """Return whether the claim states a number ("3 circles"), and not only a bound ("at least 3")."""
        return self.amount is not None and self.amount.op in ("bare", "exactly")

    def named_rightly(self, shapes: Sequence[FoundShape], walls: tuple[Box, ...]) -> bool:
        """Return whether the claim is right about which shapes the image has; the number of shapes is not compared.

        `shapes` are the shapes in the image, and `walls` are the boxes whose sides a shape can touch. A claim such as
        "3 circles" is right if the image has at least one circle. A claim such as "no circles" is right if the image
        has no circle (:meth:`holds`).
        """
        if not self.of_none:
            return any(map(self.noun.matches, shapes))
        return self.holds(shapes, walls)

    def holds(self, shapes: Sequence[FoundShape], walls: tuple[Box, ...]) -> bool:
        """Return whether the claim agrees with the number of shapes in the image that match its noun and `touch`.

        `shapes` are the shapes in the image. `walls` are the boxes whose sides a shape can touch, for claims such as "3
        circles touch the edge". The first of these rules that applies is used:

        - A claim without a number agrees if at least one shape matches. If such a claim has a `touch`, and a shape that
          matches its noun is outside all boxes of `walls`, `touch` is ignored.
        - A claim such as "no squares on the left" (`of_none` and `is_part`) always agrees: it allows squares in other
          parts of the image, and this method does not check parts.
        - If the claim is about only some of the objects (`is_part`), its number must not be larger than the number of
          matching shapes.
        - If the claim is "3 circles touch the edge" and one circle is outside all boxes of `walls`, it is unknown how
          many circles touch the edge. Then the number must not be larger than the number of all circles.
        - A number must equal the number of matching shapes. A bound ("at least 3") must be true for that number.
        """
        found = matching(self.noun, self.touch, list(shapes), walls)
        count = sum(map(self.noun.matches, shapes)) if found is None else len(found)
        if self.amount is None:
            return count > 0
        if self.of_none and self.is_part:
            return True  # "no squares on the left" does not exclude squares elsewhere
        if found is None or self.is_part:
            return count >= self.amount.n
        op, n = self.amount.op, self.amount.n
        return count >= n if op == "at least" else count <= n if op == "at most" else count == n


def read_claims(text: str) -> tuple[Claim, ...]:
    """Find the claims about shapes in a text, such as "3 yellow squares", in order. Never raises.

    At most :data:`MAX_CLAIMS` claims are returned.
    """
    claims: list[Claim] = []
    for sentence in _SENTENCE.finditer(text):
        if _SUPPOSED.search(sentence.group()) is None:
            claims += _claims(Words(sentence.group()))
        if len(claims) >= MAX_CLAIMS:
            break
    return tuple(claims[:MAX_CLAIMS])


def read_nouns(text: str) -> tuple[Noun, ...]:
    """Find the noun phrases for shapes in a text ("yellow square"), in order and without duplicates. Never raises.

    Nouns in questions and assumptions are included.
    """
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
