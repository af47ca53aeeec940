"""The scorers, one a line. Adding one is its file in :mod:`groundtrace.rewards.scorers` and its line here."""

from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import (
    boxes,
    boxes_counted,
    boxes_located,
    consistency,
    counting,
    format,
    judging,
    outcome,
    reasoning,
    rubric_scores,
    spatial,
    temporal,
    thinking,
)

SCORERS: tuple[Scorer, ...] = (
    outcome.SCORER,
    format.SCORER,
    spatial.SCORER,
    counting.SCORER,
    temporal.SCORER,
    reasoning.SCORER,
)
"""Those that verify traces unless a recipe says otherwise, in the order in which their verdicts stand."""

STREAM_SCORERS: tuple[Scorer, ...] = (
    outcome.SCORER,
    format.SCORER,
    boxes.OF_TRACES,
    boxes_located.SCORER,
    boxes_counted.SCORER,
    temporal.SCORER,
    reasoning.SCORER,
)
"""Those that verify traces of iVGR's two streams: those of boxes apply to what was asked for with boxes."""

TRAINING: tuple[Scorer, ...] = (
    boxes.SCORER,
    judging.SCORER,
    thinking.SCORER,
    consistency.SCORER,
    rubric_scores.SCORER,
)
"""Those that need what only training data has, such as gold boxes; reward recipes name them."""


def scorers_named(*names: str) -> tuple[Scorer, ...]:
    """The scorers of these names, in this order. Raises KeyError for a name that there is none of."""
    known = {scorer.name: scorer for scorer in (*SCORERS, *TRAINING)}
    return tuple(known[name] for name in names)
