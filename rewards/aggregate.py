"""From the verdicts of one response to one score."""

import math
from dataclasses import dataclass

from schemas.records import Verdict


@dataclass(frozen=True)
class GateSettings:
    """Weights and gate of Argos Eq. 9. The paper does not publish them; equal weights and τ = 1 are the default."""

    outcome_weight: float = 1.0
    spatial_weight: float = 1.0
    reasoning_weight: float = 1.0
    tau: float = 1.0

    def __post_init__(self) -> None:
        weights = (self.outcome_weight, self.spatial_weight, self.reasoning_weight)
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or self.outcome_weight == 0:
            raise ValueError("verify.gate weights must be finite and not negative, and the outcome's positive")
        if not 0 < self.tau <= 1:
            raise ValueError(f"verify.gate.tau must be in (0, 1], got {self.tau}")


def gated(verdicts: tuple[Verdict, ...], settings: GateSettings) -> float | None:
    """Argos Eq. 9: the outcome alone below τ, else the weighted mean of outcome, grounding and reasoning.

    None when the outcome is unscored. Deviations: Eq. 9 prints w_S above and w_G below the line, taken as one weight;
    unscored terms leave numerator and denominator.
    """
    values = {verdict.name: verdict.value for verdict in verdicts}
    outcome = values.get("outcome")
    if outcome is None or outcome < settings.tau:
        return outcome
    weights = {
        "outcome": settings.outcome_weight,
        "spatial": settings.spatial_weight,
        "reasoning": settings.reasoning_weight,
    }
    scored = [(weights[name], value) for name, value in values.items() if name in weights and value is not None]
    return sum(weight * value for weight, value in scored) / sum(weight for weight, _ in scored)
