"""Combines the verdicts on one response, which are the results of its scorers, into one score.

A score is computed from terms. A term is the value of the verdict of one scorer, and has the scorer's name. The terms
of the paper Argos are ``outcome``, ``format``, ``spatial``, ``temporal`` and ``reasoning``. SAIL-RL adds ``thinking``
and ``judging``, which scores the decision to think or to answer directly. iVGR adds ``boxes`` and ``consistency``. The
latter scores whether a response without boxes agrees with the best earlier reasoning with boxes for the same question.
A verdict with another name is used only if the config has a weight for this name (:class:`GateSettings`).

A term is not applicable in two cases: its scorer had nothing to check, or the response has no verdict with this name.
A mean leaves out a term that is not applicable: the weight of the term is not in the sum of the weights either. The
docstring of each function in this module has its formula. The score of RuCL is computed in
:mod:`groundtrace.rewards.curriculum`, and the score of CodeDance in :mod:`groundtrace.rewards.scorers.tool_calls`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Annotated, ClassVar

from pydantic import Field

from groundtrace.config.settings import PositiveWeight, Weight, settings
from groundtrace.rewards.pointing_score import PointingSettings
from groundtrace.schemas.records import Verdict


@settings
class GateSettings:
    """Holds the weights and the gate of Argos Eq. 9, which combines the verdicts on a response into one score.

    The paper does not publish these values; the defaults are equal weights and τ = 1. τ is the gate: if the value of
    the outcome (the final answer) is below τ, the score is the outcome alone. Otherwise the score is a weighted mean. A
    scorer without a weight has no part in this mean. If the config has no weight for ``temporal``, the weight of
    ``spatial`` is used. The reason is that both scorers measure grounding: ``temporal`` in clips, ``spatial`` in
    images.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "outcome_weight": "weights.outcome",
        "spatial_weight": "weights.spatial",
        "reasoning_weight": "weights.reasoning",
    }

    weights: Annotated[Mapping[str, Weight], "the weight of each scorer, by its name; outcome's is above 0"] = field(
        default_factory=lambda: dict(_EQUAL), hash=False
    )
    tau: Annotated[float, Field(gt=0, le=1), "below this outcome, the score is the outcome alone"] = 1.0
    pointing: Annotated[PointingSettings, "the score for pointing"] = field(default_factory=PointingSettings)
    skip: Annotated[tuple[str, ...], "the names of scorers that do not run; what they check is not checked"] = ()

    def __post_init__(self) -> None:
        if not self.weights.get("outcome"):
            raise ValueError(f"weights.outcome must be greater than 0, got {self.weights.get('outcome')}")


_EQUAL = {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}


def gated(verdicts: tuple[Verdict, ...], settings: GateSettings, gates: Collection[str] = ("format",)) -> float | None:
    """Return the score of Argos Eq. 9: the outcome if it is below τ, else the weighted mean of all terms.

    ``verdicts`` are the results of the scorers on one response, and a term is the value of one of them: outcome (the
    final answer), grounding and reasoning. Grounding is ``spatial`` for images and ``temporal`` for clips. τ and the
    weights are in ``settings``. A verdict has no value in two cases: it is not applicable (its scorer had nothing to
    check), or it has failed (its scorer could not check, for example because a server did not answer). The score is
    None if the outcome has no value. If the outcome is at least τ, two more rules apply, in this order:

    - If a verdict whose name is in ``gates`` has the value 0, the score is 0.
    - If any verdict has failed, the score is None.

    There are three deviations. For grounding, Eq. 9 prints the weight w_S in the numerator and the weight w_G in the
    denominator; here the weight in the numerator is also the weight in the denominator. Verdicts that are not
    applicable are left out of numerator and denominator. The score is at least 0, although a response with only wrong
    points has a negative grounding (:mod:`groundtrace.rewards.pointing_score`).
    """
    values = _values(verdicts)
    outcome = values.get("outcome")
    if outcome is None or outcome < settings.tau:
        return outcome
    if any(values.get(gate) == 0 for gate in gates):
        return 0.0
    if any(verdict.failed for verdict in verdicts):
        return None
    weights = {"temporal": settings.weights.get("spatial", 0.0), **settings.weights}
    scored = [(weights[name], value) for name, value in values.items() if name in weights and value is not None]
    return max(0.0, sum(weight * value for weight, value in scored) / sum(weight for weight, _ in scored))


@settings
class CascadeSettings:
    """Holds the settings of the reward of SAIL-RL Eq. 1: α · judging · thinking · outcome + (1 - α) · format.

    Each term is a score: ``judging`` of the decision to think or to answer directly, ``thinking`` of the reasoning,
    ``outcome`` of the final answer, and ``format`` of the form of the response.
    """

    alpha: Annotated[float, Field(gt=0, le=1), "α: the weight of the product; the format's weight is 1 - α"] = 0.9


def cascading(verdicts: tuple[Verdict, ...], settings: CascadeSettings) -> float | None:
    """Return the reward of SAIL-RL Eq. 1, in [0, 1]: α · judging · thinking · outcome + (1 - α) · format.

    ``verdicts`` are the results of the scorers on one response. Each name in the formula is the value of the verdict
    with this name: ``judging`` is about the decision to think or to answer directly, and ``outcome`` is about the final
    answer. α is a setting. A direct answer to a simple question has no thinking to judge. If this answer is right, the
    value of ``thinking`` is 1 (:mod:`groundtrace.rewards.scorers.thinking`). So the response can reach the reward 1.

    The product judging · thinking · outcome is 0 if any of these factors is 0. If no factor is 0 and a factor has no
    value, the result is None. A product without this factor would reward a property that was not judged.

    The format has no value in two cases:

    - Its verdict has failed: the scorer could not check the response. The result is then None. Exception: if α is 1,
      the format has no weight, and the result is the product.
    - Its verdict is not applicable: there was nothing to check. The result is then the product, without the factor α.
    """
    if settings.alpha < 1 and _failed(verdicts, "format"):
        return None
    values = _values(verdicts)
    factors = [values.get(name) for name in ("judging", "thinking", "outcome")]
    scored = [factor for factor in factors if factor is not None]
    if 0 not in scored and len(scored) < len(factors):
        return None
    return _mean([(settings.alpha, math.prod(scored)), (1 - settings.alpha, values.get("format"))])


@settings
class AdditiveSettings:
    """Holds the weights of the additive reward, which is a weighted mean of judging, thinking, outcome and format.

    Each term is a score: ``judging`` of the decision to think or to answer directly, ``thinking`` of the reasoning,
    ``outcome`` of the final answer, and ``format`` of the form of the response. The defaults are those of the baseline
    of SAIL-RL §4.5: judging, thinking and outcome have equal weights, and the format has the weight 0.
    """

    judging_weight: Weight = 1.0
    thinking_weight: Weight = 1.0
    outcome_weight: PositiveWeight = 1.0
    format_weight: Weight = 0.0


def additive(verdicts: tuple[Verdict, ...], settings: AdditiveSettings) -> float | None:
    """Return the weighted mean of judging, thinking, outcome and format (SAIL-RL §4.5, Table 6), in [0, 1].

    ``verdicts`` are the results of the scorers on one response. The four terms of the mean are the values of four
    verdicts: ``judging`` (on the decision to think or to answer directly), ``thinking`` (on the reasoning), ``outcome``
    (on the final answer) and ``format`` (on the form of the response). The weights are in ``settings``. A term that is
    not applicable (its scorer had nothing to check) is left out of the mean. The result is None if the outcome has no
    value, or if a term with a weight above 0 has failed (its scorer could not check the response).
    """
    weights = {
        "judging": settings.judging_weight,
        "thinking": settings.thinking_weight,
        "outcome": settings.outcome_weight,
        "format": settings.format_weight,
    }
    return _weighed(verdicts, weights)


@settings
class StreamSettings:
    """Holds the weights of the terms in the rewards of iVGR, for responses with boxes and for responses only in words.

    The term ``consistency`` is a score of how well a response in words agrees with a good response with boxes. The
    paper adds the terms without weights.
    """

    format_weight: Weight = 1.0
    outcome_weight: PositiveWeight = 1.0
    boxes_weight: Weight = 1.0
    consistency_weight: Weight = 1.0


def grounded_stream(verdicts: tuple[Verdict, ...], settings: StreamSettings) -> float | None:
    """Return the reward of a grounded response (with boxes) of iVGR: format + outcome + boxes (Eq. 1 and 2).

    ``verdicts`` are the results of the scorers on one response. Each name in the formula is the value of the verdict
    with this name: ``format`` is about the form of the response, ``outcome`` is about the final answer, and ``boxes``
    is the match with the gold boxes. With the paper's weights of 1, the reward is in [0, 3]. The result is None if the
    outcome has no value, or if a term with a weight above 0 has failed (its scorer could not check the response).

    Deviation: the result is the weighted mean of the terms that have a value, multiplied by the sum of all three
    weights. So for a question without gold boxes, the term for boxes is left out, instead of being 0. If all terms have
    a value, the result is the paper's sum.
    """
    return _stream(verdicts, settings, "boxes", settings.boxes_weight)


def textual_stream(verdicts: tuple[Verdict, ...], settings: StreamSettings) -> float | None:
    """Return the reward of a textual response (only words) of iVGR: format + outcome + consistency (Eq. 3).

    ``verdicts`` are the results of the scorers on one response. Each name in the formula is the value of the verdict
    with this name: ``format`` is about the form of the response, ``outcome`` is about the final answer, and
    ``consistency`` is the agreement with the best grounded reasoning for the same question. With the paper's weights of
    1, the reward is in [0, 3]. The result is None if the outcome has no value, or if a term with a weight above 0 has
    failed (its scorer could not check the response). Otherwise it is the weighted mean of the terms that have a value,
    multiplied by the sum of all three weights, as in :func:`grounded_stream`.

    Deviation: for a question without gold boxes, there is no grounded reasoning (App. B), so consistency has no value.
    With the paper's weights, the result is then 3/2 · (format + outcome); in the paper, it is format + outcome. The
    factor 3/2 has no effect: it is the same for all responses to the question, and the trainer normalises the rewards
    of these responses.
    """
    return _stream(verdicts, settings, "consistency", settings.consistency_weight)


def _stream(verdicts: tuple[Verdict, ...], settings: StreamSettings, name: str, weight: float) -> float | None:
    weights = {"format": settings.format_weight, "outcome": settings.outcome_weight, name: weight}
    mean = _weighed(verdicts, weights)
    return None if mean is None else mean * sum(weights.values())


def _weighed(verdicts: tuple[Verdict, ...], weights: Mapping[str, float]) -> float | None:
    """Return the weighted mean of the values of verdicts. A verdict is the result of one scorer, such as ``format``.

    ``weights`` maps the name of each verdict in the mean to its weight. Verdicts without a value are left out. The
    result is None if the verdict ``outcome`` (on the final answer) has no value, or if a verdict with a weight above 0
    has failed: its scorer could not check the response.
    """
    values = _values(verdicts)
    if values.get("outcome") is None or _failed(verdicts, *(name for name, weight in weights.items() if weight)):
        return None
    return _mean([(weight, values.get(name)) for name, weight in weights.items()])


def _failed(verdicts: tuple[Verdict, ...], *names: str) -> bool:
    return any(verdict.failed for verdict in verdicts if verdict.name in names)


def _values(verdicts: tuple[Verdict, ...]) -> dict[str, float | None]:
    return {verdict.name: verdict.value for verdict in verdicts}


def _mean(terms: Sequence[tuple[float, float | None]]) -> float | None:
    """Return the weighted mean of the values in ``terms``, which are pairs of a weight and a value.

    Pairs with the value None are left out. The result is None if the total weight of the remaining pairs is 0.
    """
    scored = [(weight, value) for weight, value in terms if value is not None]
    total = sum(weight for weight, _ in scored)
    return sum(weight * value for weight, value in scored) / total if total else None
