"""The code that the plug-ins share: one cached reward for each config and process, and numbers in place of None."""

import os
import threading
from collections.abc import Mapping, Sequence

from groundtrace.publishing.rewards.reference import COLUMN, read_reference
from groundtrace.publishing.rewards.row_reward import Answer, BadAnswer, RowReward
from groundtrace.publishing.rewards.settings import load_reward_settings
from groundtrace.rewards.rows.reward import Scored
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Verdict


class Unscored(RuntimeError):
    """A response is unscored, and the trainer cannot leave it out."""


_rewards: dict[str, RowReward] = {}
_lock = threading.Lock()


def _forget() -> None:
    """Clear the rewards in a forked process, since the thread on which they score exists only in the parent."""
    global _lock
    _lock = threading.Lock()
    _rewards.clear()


os.register_at_fork(after_in_child=_forget)


def reward_of(config: str) -> RowReward:
    """Return this process's reward for a config file, a bundled name, or "" (the config that the environment names).

    Safe to call from several threads. The first call for a config checks the endpoints of all roles. Raises
    :class:`groundtrace.schemas.errors.UserError`, such as :class:`groundtrace.inference.preflight.NotServed`.
    """
    with _lock:
        if config not in _rewards:
            reward = RowReward(load_reward_settings(config))
            try:
                reward.check_endpoints()
            except UserError:
                reward.close()
                raise
            _rewards[config] = reward
        return _rewards[config]


def close_rewards() -> None:
    """Close all rewards of this process; not necessary at the end of a trainer."""
    with _lock:
        while _rewards:
            _rewards.popitem()[1].close()


def scored_texts(config: str, references: Sequence[object], texts: Sequence[object], is_step: bool) -> list[Scored]:
    """Return the scores of responses; ``texts[i]`` answers the row of ``references[i]``.

    Raises the same errors as :meth:`groundtrace.publishing.rewards.row_reward.RowReward.score`. An endpoint that does
    not answer causes an error and never a score.
    """
    if len(references) != len(texts):
        raise BadAnswer(0, f"{len(texts)} responses came with {len(references)} references: pass one for each")
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


def lost_in(info: object) -> str:
    """Return why the sandbox of a response failed, as our tools of verl and ms-swift note it; "" if it did not."""
    return str(info.get(f"{COLUMN}_lost") or "") if isinstance(info, Mapping) else ""


def unless_lost(scored: Scored, why: str) -> Scored:
    """Return the score; unscored if a sandbox failed (``why``), which is not the fault of the policy."""
    return Scored(None, None, scored.text, (Verdict("sandbox", None, why, failed=True),)) if why else scored


def number_of(config: str, scored: Scored) -> float:
    """Return the reward; for an unscored response, the setting ``unscored``. Raises Unscored if this setting is
    missing.
    """
    if scored.reward is not None:
        return scored.reward
    if (counts := reward_of(config).settings.unscored) is not None:
        return counts
    reasons = [f"{verdict.name}: {verdict.reason}" for verdict in scored.verdicts if verdict.value is None]
    why = "; ".join(reasons)[:200] or "its row's gold answer is free text, which no judge of reward.roles reads"
    raise Unscored(f"a response is unscored ({why}): set unscored to its reward, or leave out such rows")


def verdict_figures(names: Sequence[str], scored: Scored) -> dict[str, float]:
    """Return the verdicts with these names as finite numbers, with the same keys for every response.

    These numbers are for trainers that expect the same keys in all responses and average each key. ``NAME_or_0`` is the
    verdict's value, or 0 if it is unscored; ``NAME_scored`` is 1 if it is scored, else 0. The mean of ``NAME_or_0``
    divided by the mean of ``NAME_scored`` is the mean of the scored values.
    """
    found: dict[str, float] = {}
    for name in names:
        value = scored.value(name)
        found |= {f"{name}_or_0": value or 0.0, f"{name}_scored": float(value is not None)}
    return found
