"""Provides Groundtrace's verifier (the code that scores responses) as a reward function of EasyR1.

EasyR1's batch manager (``verl/workers/reward/function.py``) passes dicts with the texts ``response`` and
``ground_truth``. The ground truth is the row's reference: JSON text by which the reward finds the row in its run.
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

    ``reward_inputs`` are dicts with the texts ``response`` and ``ground_truth``. The ground truth is the row's
    reference: JSON text by which the reward finds the row. For a single dict, as with ``reward_type: sequential``, the
    result is a single dict. ``config`` is a config file or the name of a bundled config; it comes from
    ``reward_function_kwargs``. The further numbers describe the outcome (whether the answer is right) and the format of
    the response (:func:`groundtrace.publishing.rewards.plugin.verdict_figures`).

    Raises :class:`groundtrace.publishing.rewards.plugin.Unscored` if a response could not be scored and the config sets
    no reward for this case. Raises :class:`groundtrace.schemas.errors.UserError` for inputs or a config that cannot be
    used, and :class:`groundtrace.rewards.rows.reward.JudgesDown` if a model server does not answer.
    """
    is_one = isinstance(reward_inputs, Mapping)
    inputs = [reward_inputs] if isinstance(reward_inputs, Mapping) else list(reward_inputs)
    references = [each.get("ground_truth") for each in inputs]
    found = scored_texts(config, references, [each.get("response") for each in inputs], is_step=not is_one)
    results = [_fields(config, scored) for scored in found]
    return results[0] if is_one else results


def _fields(config: str, scored: Scored) -> dict[str, float]:
    """Return the result for EasyR1: the reward of a response as ``overall``, and the scores of its answer and format as
    numbers.
    """
    return {"overall": number_of(config, scored), **verdict_figures((outcome.NAME, format.NAME), scored)}
