"""Computes rewards for tool calls, which are executions of code (CodeDance §3.1, Eq. 1–2, 5; App. 8.2).

A trajectory (a response in several turns with code) gets a reward for successful calls. The reward also depends on the
group of the trajectory, which is all responses to the same question. The fewer responses of the group are right, the
higher the reward is. The reward is negative for an easy question, which most responses answer rightly. A failed
execution lowers the reward of its turn. Our copy of the paper shows the equations without their content, so the
equations are taken from the paper's published code, with three deviations:

- μ (Eq. 5) is only the share of right answers in the group, while the published code also includes a penalty for bad
  format.
- For an easy question, each response with calls gets the whole penalty. In Eq. 1, the penalty is multiplied by the
  share of successful calls (see :func:`tool_reward`).
- The reward depends on which objects the calls looked at (:mod:`groundtrace.rewards.pretence`). A call looked at an
  object if its output depends on the object, or if its output marks the object. The reward is lower if the output
  also shows much of the rest of the image (:mod:`groundtrace.rewards.selectivity`).
"""

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from groundtrace.config.settings import PositiveWeight, Share, Weight, settings


@settings
class Factor:
    """Holds the weights of CodeDance Eq. 1, the reward for tool calls, for one kind of question.

    ``kind`` is the name of the kind, such as general or math. The reward for the tool calls is multiplied by ``right``
    if the answer is right, and by ``wrong`` if the answer is wrong; Eq. 1 calls this factor c. ``answer`` is the reward
    of a right answer, and ``bad_form`` is the penalty for a malformed response.
    """

    kind: str
    right: Weight
    wrong: Weight
    answer: PositiveWeight = 1.0
    bad_form: Weight = 0.2


@settings
class ToolCallSettings:
    """Holds the settings of the reward for tool calls, which are executions of code.

    The defaults are the values of CodeDance's paper: γ = 4, β = 0.2, a reward of -0.5 for a failed execution,
    ``discount`` 0.2 and ``turn_weight`` 0.2. γ and β determine how the reward depends on the difficulty of the question
    (:func:`difficulty_scale`). ``discount`` is the factor of the next turn's return (:func:`turn_returns`).
    ``turn_weight`` is the factor of a turn's return in the advantage of the turn (:func:`turn_advantages`).
    """

    gamma: PositiveWeight = 4.0
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.2
    factors: Annotated[tuple[Factor, ...], Field(min_length=1)] = (
        Factor("general", 1.5, 0.5),
        Factor("math", 2.0, 1.0, 1.2, 0.4),
    )
    failure_reward: Annotated[
        float, Field(le=0, allow_inf_nan=False), "the reward of a turn whose execution failed"
    ] = -0.5
    discount: Share = 0.2
    turn_weight: Weight = 0.2

    def __post_init__(self) -> None:
        if len({factor.kind for factor in self.factors}) < len(self.factors):
            raise ValueError("the setting 'factors' has the same kind of question twice: keep one entry for each kind")

    def factor(self, kind: str) -> Factor:
        """Return the weights of the reward for tool calls, for a kind of question such as "math".

        Raises ValueError if the setting ``factors`` has no entry for this kind.
        """
        found = next((factor for factor in self.factors if factor.kind == kind), None)
        if found is None:
            raise ValueError(f"the setting 'factors' has no entry for the kind of question {kind!r}: add an entry")
        return found


def group_accuracy(outcomes: Sequence[float | None]) -> float | None:
    """Return μ, the share of right answers in a group, which is all responses to one question; μ is from 0 to 1.

    ``outcomes`` has one value for each response to the question: 1 for a right answer, less than 1 for a wrong one, and
    None for an answer that could not be scored. Unscored answers are left out. The result is None if no answer is
    scored.
    """
    scored = [outcome for outcome in outcomes if outcome is not None]
    return sum(outcome == 1 for outcome in scored) / len(scored) if scored else None


def difficulty_scale(accuracy: float, settings: ToolCallSettings) -> float:
    """Return d(μ) = (1 + tanh(γ·(0.5 - μ))) / 2 - β, the factor for the difficulty of a question (CodeDance Eq. 5).

    μ is ``accuracy``, the share of right answers in a group (all responses to one question). γ and β are settings. d(μ)
    falls as μ rises, and is always between -β and 1 - β. If d(μ) is positive, successful tool calls raise the reward;
    if it is negative, tool calls lower the reward. With the default settings, d(μ) is positive for μ below about 0.673,
    and negative above. In general, the sign changes at μ = 0.5 - artanh(2β - 1) / γ. With β = 0, d(μ) is never
    negative, so calls never lower the reward (the ablation of §8.2.3).

    Raises:
        ValueError: if the accuracy is not in [0, 1].
    """
    if not 0 <= accuracy <= 1:
        raise ValueError(f"the accuracy must be in [0, 1], got {accuracy}")
    return (1 + math.tanh(settings.gamma * (0.5 - accuracy))) / 2 - settings.beta


def tool_reward(
    outcome: float | None,
    succeeded: int,
    calls: int,
    accuracy: float | None,
    settings: ToolCallSettings,
    kind: str = "general",
    looked_share: float = 1.0,
) -> float | None:
    """Return the reward for the tool calls of one trajectory: r = c · (succeeded / calls) · d(μ) (CodeDance Eq. 1, 5).

    c is the weight of tool calls (:class:`Factor`). μ is the share of right answers to the question. d(μ) is positive
    for a hard question (low μ), and negative for an easy one (:func:`difficulty_scale`). There are two deviations:

    - For a hard question, r is multiplied by ``looked_share``.
    - For an easy question, succeeded / calls is replaced by 1, so that each response with calls gets the whole penalty.
      By Eq. 1, a policy (the model in training) could avoid this penalty by letting its calls fail.

    Args:
        outcome: 1 for a right answer, less than 1 for a wrong answer, None for an unscored answer.
        succeeded: the number of successful executions of code. An execution that only pretends to use the image
            (:mod:`groundtrace.rewards.pretence`) is not successful.
        calls: the number of executions of code.
        accuracy: μ, the share of right answers in the trajectory's group (:func:`group_accuracy`); None if it is
            unknown.
        settings: γ and β of d(μ), and c for each kind of question.
        kind: the kind of question, which selects c.
        looked_share: how well the calls looked at the question's objects, from 0 to 1
            (:attr:`groundtrace.rewards.trajectory.Trajectory.looked_share`).

    Returns:
        The reward; 0 without calls. It is negative for calls on an easy question, which most responses of the group
        answer rightly. It is None if there are calls, and ``outcome`` or ``accuracy`` is None.

    Raises:
        ValueError: if ``succeeded`` is negative or greater than ``calls``, or if the settings have no weights for the
            kind.
    """
    if not 0 <= succeeded <= calls:
        raise ValueError(f"succeeded must be from 0 to calls = {calls}, got {succeeded}")
    factor = settings.factor(kind)
    if calls == 0:
        return 0.0
    if outcome is None or accuracy is None:
        return None
    base, scale = factor.right if outcome == 1 else factor.wrong, difficulty_scale(accuracy, settings)
    return base * scale * (1.0 if scale < 0 else looked_share * succeeded / calls)


def turn_returns(failed: Sequence[bool], settings: ToolCallSettings) -> tuple[float, ...]:
    """Return the discounted return of each turn of a trajectory, G_t = r_t + discount · G_{t+1} (CodeDance Eq. 2).

    A trajectory is a response in several turns with code. The returns are computed from the last turn backwards.
    ``failed`` has one entry for each turn: whether the turn's code failed. If it failed, the reward r_t of the turn is
    ``settings.failure_reward``. If it succeeded, or if the turn has no code, r_t is 0.
    """
    returns: list[float] = []
    following = 0.0
    for has_failed in reversed(failed):
        following = (settings.failure_reward if has_failed else 0.0) + settings.discount * following
        returns.append(following)
    return tuple(reversed(returns))


def normalise_turns(
    returns: Sequence[Sequence[float]], executed: Sequence[Sequence[bool]]
) -> tuple[tuple[float, ...], ...]:
    """Return A_turn, the normalised return of each turn, for each trajectory of a batch (CodeDance Eq. 2).

    A trajectory is a response in several turns with code. A_turn is the return of the turn minus the mean, divided by
    the (population) standard deviation. Mean and standard deviation are computed over all turns with code of the batch.
    A turn without code is a final turn, and has A_turn = 0, as in the paper's code; the paper's text leaves this open.
    If all returns are equal, every A_turn is exactly 0.

    ``returns`` holds the returns of the turns of each trajectory (:func:`turn_returns`). ``executed`` has the same
    shape, and holds for each turn whether it has code.
    """
    pairs = [list(zip(turns, own, strict=True)) for turns, own in zip(returns, executed, strict=True)]
    pooled = [value for each in pairs for value, has_code in each if has_code]
    if not pooled or max(pooled) == min(pooled):
        return tuple((0.0,) * len(turns) for turns in returns)
    mean = math.fsum(pooled) / len(pooled)
    # The standard deviation is length / sqrt(n); hypot avoids the overflow and underflow of squares.
    length, root = math.hypot(*(value - mean for value in pooled)), math.sqrt(len(pooled))
    return tuple(
        tuple((value - mean) / length * root if has_code else 0.0 for value, has_code in each) for each in pairs
    )


def turn_advantages(
    sequence: Sequence[float], turns: Sequence[Sequence[float]], settings: ToolCallSettings
) -> tuple[tuple[float, ...], ...]:
    """Return the advantage A = A_seq + turn_weight · A_turn of each turn, for each trajectory of a batch.

    A trajectory is a response in several turns with code. All tokens of a turn have the advantage of the turn.

    Args:
        sequence: A_seq, the advantage of each trajectory as a whole.
        turns: A_turn for each turn of each trajectory (:func:`normalise_turns`).
        settings: the settings, which hold ``turn_weight``.

    Raises:
        ValueError: if ``sequence`` and ``turns`` do not have the same number of trajectories.
    """
    return tuple(
        tuple(whole + settings.turn_weight * own for own in each) for whole, each in zip(sequence, turns, strict=True)
    )
