"""Decides how many questions each wave (pass over the input) uses, for a run with a target number of SFT rows.

A wave runs all stages (steps of the pipeline) on the questions whose ids have a hash below a threshold. The threshold
grows from wave to wave, so a wave includes the questions of earlier waves. The replies for those questions come from
the cache. The size of a wave depends only on counts, not on the order of records.
"""

MIN_FIRST_WAVE = 32
FIRST_PER_ROW = 4
MIN_GROWTH, MAX_GROWTH = 1.5, 8.0
_HASH_BITS = 64


def first_wave_share(target: int, questions: int | None) -> float:
    """Return the share (0–1) of all questions of the input that the first wave (pass over the input) uses.

    ``target`` is the target number of SFT rows. ``questions`` is the number of questions in the input. If ``questions``
    is None (unknown), the share is 0, and the first wave only counts the questions. If ``questions`` is 0, the share is
    1.
    """
    if questions is None:
        return 0.0
    wanted = max(MIN_FIRST_WAVE, FIRST_PER_ROW * target)
    return min(1.0, wanted / questions) if questions else 1.0


def next_wave_share(target: int, accepted: int, drawn: int, questions: int, share: float) -> float:
    """Return the share (0–1) of all questions of the input that the next wave (pass over the input) uses.

    The share is estimated from the yield of the last wave (rows for each question). The wave should make more rows than
    the target, by two standard deviations of the number of rows (2 · √target), so that a further wave is seldom needed.
    A wave is at least 1.5 times and at most 8 times as large as the wave before it, if enough questions are left.

    Args:
        target: The target number of SFT rows.
        accepted: The number of SFT rows that the last wave made.
        drawn: The number of questions that the last wave used.
        questions: The number of questions in the input.
        share: The share of all questions that the last wave used. If it is 0, the result is that of
            :func:`first_wave_share`.
    """
    if share <= 0:
        return first_wave_share(target, questions)
    wanted = (target + 2 * target**0.5) * (drawn + 1) / (accepted + 1)
    grown = wanted / questions if questions else 1.0
    return min(1.0, max(grown, MIN_GROWTH * share), MAX_GROWTH * share)


def threshold(share: float) -> str:
    """Return the threshold that selects the given share (0–1) of all questions by the hashes of their ids.

    :class:`groundtrace.stages.plumbing.recipe.Draw` selects the questions whose ids have a hash below this threshold.
    The threshold is a hexadecimal number; "" for a share of 1. For example, for the share 0.5 it is
    ``8000000000000000``, since half of the questions have a lower hash.
    """
    if share >= 1:
        return ""
    return f"{int(max(share, 0.0) * 2**_HASH_BITS):0{_HASH_BITS // 4}x}"
