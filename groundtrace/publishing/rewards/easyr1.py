"""The verifier as a reward function of EasyR1, whose batch manager hands over dicts of texts
(``verl/workers/reward/function.py``): ``response`` and ``ground_truth``, which is the row's reference.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import figures, number_of, scored_texts
from groundtrace.rewards.scorers import format, outcome
from groundtrace.trainer.reward import Scored


def compute_score(
    reward_inputs: Sequence[Mapping[str, Any]] | Mapping[str, Any], config: str = "", **_: Any
) -> list[dict[str, float]] | dict[str, float]:
    """Returns ``overall`` of each input, with its outcome and its format as
    :func:`groundtrace.publishing.rewards.plugin.figures`: EasyR1 takes their means.

    One input alone, as with ``reward_type: sequential``, gives one result. ``config`` comes from
    ``reward_function_kwargs``. Raises as :func:`groundtrace.publishing.rewards.verl.compute_score` does.
    """
    is_one = isinstance(reward_inputs, Mapping)
    inputs = [reward_inputs] if isinstance(reward_inputs, Mapping) else list(reward_inputs)
    references = [each.get("ground_truth") for each in inputs]
    found = scored_texts(config, references, [each.get("response") for each in inputs], is_step=not is_one)
    results = [_fields(config, scored) for scored in found]
    return results[0] if is_one else results


def _fields(config: str, scored: Scored) -> dict[str, float]:
    return {"overall": number_of(config, scored), **figures((outcome.NAME, format.NAME), scored)}
