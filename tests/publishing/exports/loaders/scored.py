"""A reward function of verl's batch manager for tests: the length of each response, and an error for ``bad``."""

from collections.abc import Sequence
from typing import Any


def compute_score(solution_strs: Sequence[str], **_: Any) -> list[dict[str, float]]:
    """Return the lengths of the responses. Raises ValueError if one of them is ``bad``."""
    if "bad" in solution_strs:
        raise ValueError("a bad response")
    return [{"score": float(len(each))} for each in solution_strs]
