"""Computes confidence intervals of shares (for example of the share of right answers) and of differences of shares."""

import math
import statistics

CONFIDENCE = 0.95


def wilson(hits: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Wilson's score interval of the share ``hits`` / ``n``, as (lower bound, upper bound) in [0, 1]. ``n`` is
    the number of items. ``confidence`` is the confidence level, e.g. 0.95.

    ``hits`` need not be whole: an item may count in part. For example, a question counts 0.5 if half of its answers are
    right. Raises ValueError for n < 1, since an interval needs observations, and for hits outside 0..n.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"a confidence interval needs 0 <= hits <= n and n >= 1, got hits={hits}, n={n}")
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    share, weight = hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if not hits else low), (1.0 if hits == n else high)


def paired_difference(both: float, first: float, second: float, neither: float) -> tuple[float, float]:
    """Return Newcombe's 95 % interval of the difference of two shares that were measured on the same items, as (lower
    bound, upper bound) in [-1, 1].

    An example: two models answer the same questions, and the difference is the share of right answers of the second
    model minus that of the first. In this example, ``both`` is the number of questions that both models answer
    correctly. ``first`` is the number of questions that only the first model answers correctly, and ``second`` is the
    number of questions that only the second model answers correctly. ``neither`` is the number of all other questions.
    The counts need not be whole, as those of :func:`wilson`.

    The interval combines Wilson's intervals of the two shares with the correlation of the right answers (Newcombe 1998,
    Statistics in Medicine 17, 2635–2650, method 10). Raises ValueError if all counts are 0.
    """
    n = both + first + second + neither
    hits = both + second, both + first
    (low_b, high_b), (low_a, high_a) = (wilson(each, n) for each in hits)
    b, a = (each / n for each in hits)
    product = both * neither - first * second
    spread = math.sqrt(hits[0] * hits[1] * (n - hits[0]) * (n - hits[1]))
    correlation = (max(product - n / 2, 0) if product > 0 else product) / spread if spread else 0.0
    return _combined(b - a, (b - low_b, high_b - b), (a - low_a, high_a - a), correlation)


def difference(hits_a: int, n_a: int, hits_b: int, n_b: int) -> tuple[float, float]:
    """Return Newcombe's 95 % interval of the difference B - A of two shares that were measured on different items, as
    (lower bound, upper bound) in [-1, 1].

    Share A is ``hits_a`` / ``n_a``, and share B is ``hits_b`` / ``n_b``. The interval combines Wilson's intervals of
    the two shares (Newcombe 1998, Statistics in Medicine 17, 873–890, method 10). Raises ValueError if an ``n`` is
    below 1, or if hits are outside 0..n.
    """
    (low_a, high_a), (low_b, high_b) = wilson(hits_a, n_a), wilson(hits_b, n_b)
    a, b = hits_a / n_a, hits_b / n_b
    return _combined(b - a, (b - low_b, high_b - b), (a - low_a, high_a - a), 0.0)


def _combined(
    middle: float, of_b: tuple[float, float], of_a: tuple[float, float], correlation: float
) -> tuple[float, float]:
    """Return the interval of the difference B − A of two shares. ``middle`` is this difference.

    Share B has its own interval. ``of_b`` holds two distances: from the lower bound of this interval to B, and from B
    to the upper bound. ``of_a`` holds the same distances for share A. ``correlation`` is the correlation of the two
    shares; it is 0 if the shares were measured on different items.
    """
    (down_b, up_b), (down_a, up_a) = of_b, of_a
    down = math.sqrt(max(0.0, down_b**2 - 2 * correlation * down_b * up_a + up_a**2))
    up = math.sqrt(max(0.0, up_b**2 - 2 * correlation * up_b * down_a + down_a**2))
    return max(-1.0, middle - down), min(1.0, middle + up)
