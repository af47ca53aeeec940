"""What the plugins share: one reward for each config and process, and numbers for trainers that must have them."""

import os
import threading
from collections.abc import Sequence

from publishing.rewards.reference import read_reference
from publishing.rewards.row_reward import Answer, BadAnswer, RowReward
from publishing.rewards.settings import load_reward_settings
from schemas.errors import UserError
from trainer.reward import Scored

NAN = float("nan")


class Unscored(RuntimeError):
    """A response of which nothing could be said, in a trainer that has no way to leave it out."""


_rewards: dict[str, RowReward] = {}
_lock = threading.Lock()


def _forget() -> None:
    """A forked process opens rewards of its own: those of its parent score on a thread that is not there."""
    global _lock
    _lock = threading.Lock()
    _rewards.clear()


os.register_at_fork(after_in_child=_forget)


def reward_of(config: str) -> RowReward:
    """The process's one reward for a config, a bundled name, or "" for what the environment names; trainers ask for it
    from several threads. Raises :class:`schemas.errors.UserError`.
    """
    with _lock:
        if config not in _rewards:
            _rewards[config] = RowReward(load_reward_settings(config))
        return _rewards[config]


def close_rewards() -> None:
    """Close all that were opened; a trainer that ends need not."""
    with _lock:
        while _rewards:
            _rewards.popitem()[1].close()


def scored_texts(config: str, references: Sequence[object], texts: Sequence[object], is_step: bool) -> list[Scored]:
    """The scores of responses, of which each answers the row of the reference beside it.

    Raises what :meth:`publishing.rewards.row_reward.RowReward.score` raises: an endpoint that does not answer is an
    error and never a number.
    """
    if len(references) != len(texts):
        raise BadAnswer(0, f"{len(texts)} responses came with {len(references)} references: each has its own")
    answers = []
    for number, (reference, text) in enumerate(zip(references, texts, strict=True)):
        if not isinstance(text, str):
            raise BadAnswer(number, f"its response is a {type(text).__name__}, not a text")
        if not isinstance(reference, str):
            raise BadAnswer(number, f"its reference is a {type(reference).__name__}, not a text: export the run again")
        try:
            answers.append(Answer(read_reference(reference), text))
        except UserError as error:
            raise BadAnswer(number, str(error)) from error
    return reward_of(config).score(answers, is_step)


def number_of(config: str, scored: Scored) -> float:
    """The reward, or what the settings say that an unscored response counts. Raises Unscored where they do not."""
    if scored.reward is not None:
        return scored.reward
    if (counts := reward_of(config).settings.unscored) is not None:
        return counts
    reasons = [f"{verdict.name}: {verdict.reason}" for verdict in scored.verdicts if verdict.value is None]
    why = "; ".join(reasons)[:200] or "its row's gold answer is free text, which no judge of reward.roles reads"
    raise Unscored(f"a response is unscored ({why}): set unscored to what it counts, or leave out such rows")


def shown(config: str, scored: Scored) -> dict[str, float]:
    """The outcome and the other verdicts that say how training goes, always the same names; NaN where unscored."""
    names = reward_of(config).recipe.shown
    return {name: NAN if (value := scored.value(name)) is None else value for name in names}
