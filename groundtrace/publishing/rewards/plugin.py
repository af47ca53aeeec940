"""Holds the code that the rewards for verl, EasyR1, TRL and ms-swift share.

For each config, a process makes one object that computes the rewards, and reuses this object. Some trainers need a
number for every response. For a response that could not be scored, these trainers get the number that the config sets
as ``unscored``.
"""

import os
import threading
from collections.abc import Mapping, Sequence

from groundtrace.config.errors import ConfigError
from groundtrace.publishing.rewards.reference import COLUMN, read_reference
from groundtrace.publishing.rewards.replay import with_trajectories
from groundtrace.publishing.rewards.row_reward import Answer, BadAnswer, RowReward
from groundtrace.publishing.rewards.settings import load_reward_settings
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.trajectory import TRAJECTORY
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Verdict


class Unscored(RuntimeError):
    """Raised if a response got no reward and the trainer needs a number for every response."""


_rewards: dict[str, RowReward] = {}
_lock = threading.Lock()


def _forget() -> None:
    """Forget the reward objects of the parent process after a fork, so that the new process makes its own objects.

    The parent's objects compute rewards in a thread that exists only in the parent process.
    """
    global _lock
    _lock = threading.Lock()
    _rewards.clear()


os.register_at_fork(after_in_child=_forget)


def reward_of(config: str) -> RowReward:
    """Return the object that computes the rewards of a config. It is made at the first call, and then reused.

    ``config`` is a config file or the name of a bundled config, such as ``argos``. If it is "", the environment
    variable ``GROUNDTRACE_REWARD`` names the config. Several threads may call this function. The first call for a
    config checks the endpoints (model servers) of all models that the reward calls. Raises
    :class:`groundtrace.schemas.errors.UserError` if the reward cannot be used, for example
    :class:`groundtrace.inference.preflight.NotServed` if an endpoint is not ready.
    """
    with _lock:
        if config not in _rewards:
            reward = RowReward(load_reward_settings(config), has_trajectories=True)
            try:
                reward.check_endpoints()
            except UserError:
                reward.close()
                raise
            _rewards[config] = reward
        return _rewards[config]


def close_rewards() -> None:
    """Close all objects of this process that compute rewards. A trainer need not call this before it ends."""
    with _lock:
        while _rewards:
            _rewards.popitem()[1].close()


def scored_texts(
    config: str,
    references: Sequence[object],
    texts: Sequence[object],
    is_step: bool,
    infos: Sequence[object] | None = None,
) -> list[Scored]:
    """Return the scores of responses, in order. ``texts[i]`` is a response to the row that ``references[i]`` names.

    ``config`` is a config file or the name of a bundled config. A reference is JSON text that names a row and its run.
    ``is_step`` is True if the call holds all responses of a training step, or at least all responses to each question
    that occurs in the call. ``infos`` holds verl's ``extra_info`` of each response. It is required if the reward
    depends on the results of code, as in CodeDance. In this case, the code of the responses is executed again
    (:mod:`groundtrace.publishing.rewards.replay`).

    Raises BadAnswer for a reference or a response that cannot be used. Other errors depend on the recipe, which is the
    code that computes the rewards. Raises ConfigError in these cases:

    - ``infos`` is required but missing.
    - ``is_step`` is False, and the recipe compares the responses to a question.
    - ``is_step`` is False, the recipe learns from whole training steps, and the setting ``step_responses`` is 0.

    Raises BadReference if the recipe compares the responses to all prompts (streams) of a question, and the call has no
    response to one of the prompts. Raises :class:`groundtrace.rewards.rows.reward.JudgesDown` if a model server that
    the reward needs does not answer; no score is then returned.
    """
    if len(references) != len(texts):
        raise BadAnswer(
            None, f"{len(texts)} responses have {len(references)} references: pass one reference for each response"
        )
    answers = []
    for number, (reference, text) in enumerate(zip(references, texts, strict=True)):
        if not isinstance(text, str):
            raise BadAnswer(
                number, f"the response is a {type(text).__name__}, but has to be a text: pass the text of the response"
            )
        if not isinstance(reference, str):
            raise BadAnswer(number, f"the reference is a {type(reference).__name__}, not a text: export the run again")
        try:
            answers.append(Answer(read_reference(reference), text))
        except UserError as error:
            raise BadAnswer(number, str(error)) from error
    reward = reward_of(config)
    if TRAJECTORY in reward.recipe.needs:
        if infos is None:
            needed = reward.recipe.needs[TRAJECTORY]
            raise ConfigError(
                f"reward.recipe = {reward.recipe.name!r} needs the results of executed code ({needed}), which the "
                "trainer did not pass. Only verl passes them, and only with a reward manager that scores many "
                "responses in one call: use verl with such a manager (docs/rewards.md)"
            )
        answers = with_trajectories(reward, answers, infos)
    return reward.score(answers, is_step)


def lost_in(info: object) -> str:
    """Return the reason why the sandbox of a response failed; "" if it did not fail.

    ``info`` is verl's ``extra_info`` or ms-swift's ``rollout_infos`` of the response. Groundtrace's tools for these
    trainers, which execute the code of responses, write the reason there.
    """
    return str(info.get(f"{COLUMN}_lost") or "") if isinstance(info, Mapping) else ""


def unless_lost(scored: Scored, why: str) -> Scored:
    """Return the scores of a response; if its sandbox failed, return a result without reward instead.

    ``why`` is the reason why the sandbox failed; "" if it did not fail. The policy (the model in training) did not
    cause such a failure, so its response must be neither rewarded nor punished.
    """
    return Scored(None, None, scored.text, (Verdict("sandbox", None, why, failed=True),)) if why else scored


def number_of(config: str, scored: Scored) -> float:
    """Return the reward of a response as a number, for trainers that need one for every response.

    If the response could not be scored, return the setting ``unscored`` of the config. ``config`` is a config file or
    the name of a bundled config. ``scored`` are the scores of the response. Raises Unscored if the response could not
    be scored and this setting is missing.
    """
    if scored.reward is not None:
        return scored.reward
    if (counts := reward_of(config).settings.unscored) is not None:
        return counts
    failed = [verdict for verdict in scored.verdicts if verdict.failed]  # others had nothing to check, if any failed
    missing = failed or [verdict for verdict in scored.verdicts if verdict.value is None]
    reasons = [f"{verdict.name}: {verdict.reason}" for verdict in missing]
    why = "; ".join(reasons)[:200] or "its row's gold answer is free text, and reward.roles has no judge to grade it"
    raise Unscored(
        f"a response is unscored ({why}): set the key 'unscored' of the reward's config to the reward for such "
        "responses, or remove its row from the training data"
    )


def verdict_figures(names: Sequence[str], scored: Scored) -> dict[str, float]:
    """Return verdicts on a response as finite numbers, for trainers that average each number over all responses.

    A verdict is a single result of scoring. ``names`` are the names of the verdicts, such as outcome or format, and
    ``scored`` holds all verdicts on the response. Each verdict gives two numbers: ``NAME_or_0`` is its value, or 0 if
    it could not be scored, and ``NAME_scored`` is 1 if it is scored, else 0. So all responses have the same keys. The
    mean of ``NAME_or_0`` divided by the mean of ``NAME_scored`` is the mean of the scored values.
    """
    found: dict[str, float] = {}
    for name in names:
        value = scored.value(name)
        found |= {f"{name}_or_0": value or 0.0, f"{name}_scored": float(value is not None)}
    return found
