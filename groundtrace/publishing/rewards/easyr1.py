"""Provides the verifier as a reward function of EasyR1.

EasyR1's batch manager (``verl/workers/reward/function.py``) passes dicts with the texts ``response`` and
``ground_truth``. The ground truth is the row's reference, by which the reward finds the row.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import number_of, scored_texts, verdict_figures
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.scorers import format, outcome


def compute_score(
    reward_inputs: Sequence[Mapping[str, Any]] | Mapping[str, Any], config: str = "", **_: Any
) -> list[dict[str, float]] | dict[str, float]:
    """Return the reward of each response for EasyR1, under the key ``overall``, with further numbers that EasyR1 logs.

    ``reward_inputs`` are dicts with the texts ``response`` and ``ground_truth``. The ground truth is the reference by
    which the reward finds the row. For a single dict, as with ``reward_type: sequential``, the result is a single dict.
    ``config`` is a config file or the name of a bundled config; it comes from ``reward_function_kwargs``. The further
    numbers describe the outcome (whether the answer is right) and the format of the response
    (:func:`groundtrace.publishing.rewards.plugin.verdict_figures`). Raises the same errors as
    :func:`groundtrace.publishing.rewards.verl.compute_score`.
    """
    is_one = isinstance(reward_inputs, Mapping)
    inputs = [reward_inputs] if isinstance(reward_inputs, Mapping) else list(reward_inputs)
    references = [each.get("ground_truth") for each in inputs]
    found = scored_texts(config, references, [each.get("response") for each in inputs], is_step=not is_one)
    results = [_fields(config, scored) for scored in found]
    return results[0] if is_one else results


def _fields(config: str, scored: Scored) -> dict[str, float]:
    """Return the numbers for EasyR1 about one scored response."""
    return {"overall": number_of(config, scored), **verdict_figures((outcome.NAME, format.NAME), scored)}
