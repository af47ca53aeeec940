"""Provides the verifier as a reward function of EasyR1.

EasyR1's batch manager (``verl/workers/reward/function.py``) passes dicts with the texts ``response`` and
``ground_truth``. The ground truth is the row's reference.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import number_of, scored_texts, verdict_figures
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.scorers import format, outcome


def compute_score(
    reward_inputs: Sequence[Mapping[str, Any]] | Mapping[str, Any], config: str = "", **_: Any
) -> list[dict[str, float]] | dict[str, float]:
    """Return the reward ``overall`` of each input, with numbers that describe its outcome and its format.

    :func:`groundtrace.publishing.rewards.plugin.verdict_figures` defines these numbers, and EasyR1 logs their means.
    For a single input, as with ``reward_type: sequential``, the result is a single dict. ``config`` comes from
    ``reward_function_kwargs``. Raises the same errors as :func:`groundtrace.publishing.rewards.verl.compute_score`.
    """
    is_one = isinstance(reward_inputs, Mapping)
    inputs = [reward_inputs] if isinstance(reward_inputs, Mapping) else list(reward_inputs)
    references = [each.get("ground_truth") for each in inputs]
    found = scored_texts(config, references, [each.get("response") for each in inputs], is_step=not is_one)
    results = [_fields(config, scored) for scored in found]
    return results[0] if is_one else results


def _fields(config: str, scored: Scored) -> dict[str, float]:
    return {"overall": number_of(config, scored), **verdict_figures((outcome.NAME, format.NAME), scored)}
