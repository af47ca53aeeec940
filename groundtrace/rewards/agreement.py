"""How far two judges agree on the same items (Cohen, A coefficient of agreement for nominal scales, 1960, Eq. 1)."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Agreement over the pairs in which both judges gave a label.

    Attributes:
        n: the number of those pairs.
        left_out: the number of pairs in which a judge gave none.
        observed: the share of the n pairs with equal labels, in [0, 1]; None without pairs.
        kappa: Cohen's κ in [-1, 1]; None without pairs, and where both judges gave one and the same label throughout:
            chance alone would agree as well, and κ is 0/0. One constant judge beside another that varies gives 0.
    """

    n: int
    left_out: int
    observed: float | None
    kappa: float | None


def agreement(first: Sequence[Hashable | None], second: Sequence[Hashable | None]) -> Agreement:
    """Agreement of two judges; labels at the same position are of the same item, None is unscored.

    κ = (p_o - p_e) / (1 - p_e) with p_e from each judge's own frequencies. Labels count as equal or different, without
    distance. Raises ValueError when the lengths differ.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    n, left_out = len(pairs), len(first) - len(pairs)
    if not n:
        return Agreement(0, left_out, None, None)
    equal = sum(a == b for a, b in pairs)
    counts_a, counts_b = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    by_chance = sum(count * counts_b[label] for label, count in counts_a.items())
    # In whole numbers, with numerator and denominator multiplied by n², so that 0/0 is exact.
    kappa = (n * equal - by_chance) / (n * n - by_chance) if by_chance < n * n else None
    return Agreement(n, left_out, equal / n, kappa)
