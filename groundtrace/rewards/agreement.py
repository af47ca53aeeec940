"""Computes how often two judges agree on the same items, as Cohen's κ.

The formula is Eq. 1 of Cohen, A coefficient of agreement for nominal scales, 1960.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Holds how often two judges gave the same label to an item.

    Attributes:
        n: the number of items to which both judges gave a label.
        left_out: the number of items to which at least one of the judges gave no label.
        observed: the share of the n items with equal labels, in [0, 1]; None if n is 0.
        kappa: Cohen's κ in [-1, 1], which is the agreement beyond chance. It is None if n is 0. It is also None if both
            judges gave the same label to all items, for example only "yes", because κ would be 0/0. If only one judge
            gave the same label to all items, κ is 0.
    """

    n: int
    left_out: int
    observed: float | None
    kappa: float | None


def agreement(first: Sequence[Hashable | None], second: Sequence[Hashable | None]) -> Agreement:
    """Return the agreement of two judges who labelled the same items.

    ``first`` and ``second`` hold the labels of the two judges. Labels at the same index belong to the same item. A
    label is None if the judge could not label the item; the result leaves out items with such a label.

    κ = (p_o - p_e) / (1 - p_e). Here p_o is the share of items with equal labels, and p_e is the share that is expected
    by chance, computed from how often each judge uses each label. Two labels are either equal or different; there are
    no degrees of difference. Raises ValueError if the lengths of ``first`` and ``second`` differ.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    n, left_out = len(pairs), len(first) - len(pairs)
    if not n:
        return Agreement(0, left_out, None, None)
    equal = sum(a == b for a, b in pairs)
    counts_a, counts_b = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    by_chance = sum(count * counts_b[label] for label, count in counts_a.items())
    # Numerator and denominator are multiplied by n², so that they are integers and 0/0 is detected exactly.
    kappa = (n * equal - by_chance) / (n * n - by_chance) if by_chance < n * n else None
    return Agreement(n, left_out, equal / n, kappa)
