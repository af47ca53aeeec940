"""Computes confidence intervals of shares."""

import math
import statistics

CONFIDENCE = 0.95


def wilson(hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Wilson's score interval of the share ``hits`` / ``n``; both bounds are in [0, 1].

    Raises ValueError for n < 1, since an interval needs observations, and for hits outside 0..n.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"a confidence interval needs 0 <= hits <= n and n >= 1, got hits={hits}, n={n}")
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    share, weight = hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if not hits else low), (1.0 if hits == n else high)
