"""Computes the pass rate and pass@k from numbers of attempts (sampled answers to a question).

The pass rate is the fraction of attempts that are right; the paper SAIL-RL calls it "pass@4" for four samples. pass@k
is the probability that at least one of k attempts is right, if they are drawn without replacement from n attempts. The
functions count only scored attempts: the caller leaves out attempts that could not be scored.
"""

from __future__ import annotations


def pass_rate(c: int, k: int) -> float:
    """Return the pass rate, which is the share of right attempts (sampled answers to a question), in [0, 1].

    Args:
        c: the number of right attempts, 0 <= c <= k.
        k: the number of scored attempts, at least 1.

    Raises:
        ValueError: ``c`` is outside 0..k, or ``k`` is 0. Without attempts, the rate is undefined; it is not 0.
    """
    if k < 1 or not 0 <= c <= k:
        raise ValueError(f"a pass rate needs 0 <= c <= k and k >= 1, got c={c}, k={k}")
    return c / k


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return pass@k, an estimate in [0, 1] of the probability that at least one of k attempts (sampled answers) is
    right. It is the unbiased estimate 1 - C(n-c, k) / C(n, k).

    The quotient of binomials is computed as the product of ``1 - k/i`` for i from n - c + 1 to n. This product neither
    overflows for large n nor loses digits by cancellation (Chen et al. 2021, arXiv:2107.03374, section 2.1).

    Args:
        n: the number of scored attempts.
        c: the number of right attempts among them, 0 <= c <= n.
        k: the number of attempts that are drawn, 1 <= k <= n.

    Raises:
        ValueError: a count is outside the range above.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    all_wrong = 1.0
    for i in range(n - c + 1, n + 1):
        all_wrong *= 1.0 - k / i
    return 1.0 - all_wrong
