"""Provides Groundtrace's verifier (the code that scores responses) as a reward function of TRL.

Pass it as ``GRPOTrainer(reward_funcs=reward_funcs("argos"), …)``. TRL passes the columns of the rows, repeated for each
completion. The column ``groundtrace`` is the row's reference: JSON text by which the reward finds the row. TRL ignores
a completion with the reward None (``GRPOTrainer._calculate_rewards`` of 1.16). The reward is None if the completion is
unscored, or if the sandbox that executed its code failed (:mod:`groundtrace.publishing.tools.trl`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import reward_of, scored_texts, unless_lost
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.rewards.row_reward import BadAnswer
from groundtrace.rewards.rows.reward import Scored

Completion = str | Sequence[Mapping[str, Any]]
RewardFunction = Callable[..., list[float | None]]


def reward_funcs(config: str = "") -> list[RewardFunction]:
    """Return a list with the reward function for TRL's ``GRPOTrainer``.

    ``config`` is a config file or the name of a bundled config, such as ``argos``. If it is "", the environment
    variable ``GROUNDTRACE_REWARD`` names the config. This function first checks the endpoints (model servers) that the
    reward calls. Raises :class:`groundtrace.schemas.errors.UserError` if the reward cannot be used, e.g. if an endpoint
    is not ready.
    """
    reward_of(config)

    def verified(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        return rewards(config, completions, columns)

    return [verified]


def verified(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
    """Return the reward of each completion for TRL; None if it could not be scored.

    The environment variable ``GROUNDTRACE_REWARD`` names the config. ``columns`` are the columns of the rows, one value
    for each completion. The column ``groundtrace`` is needed: it holds the row's reference, JSON text by which the
    reward finds the row. This function is for trainers that load a reward function from an import path.
    """
    return rewards("", completions, columns)


def rewards(config: str, completions: Sequence[Completion], columns: Mapping[str, Any]) -> list[float | None]:
    """Return the reward of each completion; None if it could not be scored.

    ``config`` is a config file or the name of a bundled config. ``columns`` are the columns of the rows, one value for
    each completion. The column ``groundtrace`` is needed: it holds the row's reference, JSON text by which the reward
    finds the row. Raises BadAnswer if this column is missing or a completion cannot be scored, and
    :class:`groundtrace.rewards.rows.reward.JudgesDown` if a model server does not answer.
    """
    references = columns.get(COLUMN)
    if references is None:
        raise BadAnswer(None, f"the rows have no column {COLUMN!r}: export the run with `beam export`")
    found = scored_texts(config, references, [_text(each) for each in completions], is_step=True)
    environments = columns.get("environments") or [None] * len(found)
    lost = [str(getattr(each, "lost", "")) for each in environments]
    found = [unless_lost(each, why) for each, why in zip(found, lost, strict=True)]
    if log := columns.get("log_metric"):
        for name, mean in _means(reward_of(config).recipe.shown, found).items():
            log(f"{COLUMN}/{name}", mean)
    return [scored.reward for scored in found]


def _text(completion: Completion) -> object:
    """Return the text of a completion. If the completion is a list of turns, return the text of its last turn.

    The result is "" if the last turn is the result of a tool. In this case, TRL ended the completion before the policy
    (the model in training) could write an answer.
    """
    if not isinstance(completion, list | tuple):
        return completion  # scored_texts() refuses a completion that is not a text
    if completion and completion[-1].get("role") == "tool":
        return ""
    content = completion[-1].get("content") if completion else ""
    if isinstance(content, list | tuple | None):
        return "".join(part.get("text") or "" for part in content or () if part.get("type") == "text")
    return content


def _means(names: Sequence[str], found: Sequence[Scored]) -> dict[str, float]:
    """Return the mean of each verdict over the completions that have a value for this verdict.

    A verdict is the score of one aspect of a completion. ``names`` are the names of the verdicts. A verdict without any
    value is left out.
    """
    values = {name: [value for each in found if (value := each.value(name)) is not None] for name in names}
    return {name: sum(known) / len(known) for name, known in values.items() if known}
