"""Provides Groundtrace's verifier (the code that scores responses) as a reward function of verl.

The function scores a single response or a batch. verl passes all arguments by keyword (``verl/trainer/ppo/reward.py``,
``verl/workers/reward_manager/`` of 0.9). A manager that scores single responses passes ``data_source``,
``solution_str``, ``ground_truth`` and ``extra_info``. The batch manager passes lists, in arguments with plural names.
"""

from collections.abc import Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import (
    lost_in,
    number_of,
    reward_of,
    scored_texts,
    unless_lost,
    verdict_figures,
)
from groundtrace.rewards.rows.reward import Scored


def compute_score(
    data_source: object = None,
    solution_str: str | None = None,
    ground_truth: str | None = None,
    extra_info: object = None,
    *,
    solution_strs: Sequence[str] | None = None,
    ground_truths: Sequence[str] | None = None,
    extra_infos: Sequence[object] | None = None,
    config: str = "",
    **_: Any,
) -> dict[str, float] | list[dict[str, float]]:
    """Return the reward of one response, or of each response in a list, for verl.

    The reward is under the key ``score``. Further numbers describe the verdicts (scores of one aspect of the response)
    that the reward logs (:func:`groundtrace.publishing.rewards.plugin.verdict_figures`). All responses have the same
    keys, because verl raises KeyError for a missing key (``agent_loop.py``). No value is NaN or None, because verl
    averages each key (``metric_utils.py``): a NaN makes the mean NaN, and a None stops the validation.

    verl passes one response as ``solution_str``, and its row's reference (JSON text by which the reward finds the row)
    as ``ground_truth``. verl's batch manager passes lists, in the arguments with plural names; the result is then a
    list. ``config`` is a config file or the name of a bundled config; it comes from ``reward_kwargs``. ``data_source``
    is not used. Groundtrace's tool for verl writes the statuses of the response's tool calls to ``extra_info``. If the
    sandbox of the response failed, the tool also writes the reason there, and the response counts as one that could not
    be scored.

    Raises :class:`groundtrace.publishing.rewards.plugin.Unscored` if a response could not be scored and the config has
    no reward for this case. Raises BadAnswer for a reference or a response that cannot be used, and
    :class:`groundtrace.rewards.rows.reward.JudgesDown` if a model server does not answer.
    """
    if solution_strs is not None:
        given = [] if ground_truths is None else list(ground_truths)
        infos = None if extra_infos is None else list(extra_infos)
        found = scored_texts(config, given, list(solution_strs), is_step=True, infos=infos)
        lost = [""] * len(found) if infos is None else map(lost_in, infos)
        return [_fields(config, unless_lost(scored, why)) for scored, why in zip(found, lost, strict=True)]
    if solution_str is None:
        raise TypeError(
            "compute_score needs solution_str and ground_truth for one response, or solution_strs and ground_truths "
            "for a list of responses: pass one of these pairs"
        )
    [scored] = scored_texts(config, [ground_truth], [solution_str], is_step=False)
    return _fields(config, unless_lost(scored, lost_in(extra_info)))


def _fields(config: str, scored: Scored) -> dict[str, float]:
    """Return the result for verl: the reward of a response as ``score``, and its verdicts (scores of single aspects) as
    numbers.
    """
    return {"score": number_of(config, scored), **verdict_figures(reward_of(config).recipe.shown, scored)}
