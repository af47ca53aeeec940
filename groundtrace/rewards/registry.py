"""Registers the scorers by name, so that recipes and configs can refer to them.

A scorer checks one property of a response. To add a scorer, put its file in :mod:`groundtrace.rewards.scorers` and add
a line to this module. Recipes and configs decide which scorers are used (:mod:`groundtrace.rewards.scorer_sets`).
"""

from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.registry import Registry

SCORERS: Registry[Scorer] = Registry(
    "scorers",
    "scorer",
    "groundtrace.rewards.scorer:Scorer",
    {
        "boxes": "groundtrace.rewards.scorers.boxes:SCORER",
        "boxes_located": "groundtrace.rewards.scorers.boxes_located:SCORER",
        "consistency": "groundtrace.rewards.scorers.consistency:SCORER",
        "counting": "groundtrace.rewards.scorers.counting:SCORER",
        "format": "groundtrace.rewards.scorers.format:SCORER",
        "judging": "groundtrace.rewards.scorers.judging:SCORER",
        "outcome": "groundtrace.rewards.scorers.outcome:SCORER",
        "reasoning": "groundtrace.rewards.scorers.reasoning:SCORER",
        "rubrics": "groundtrace.rewards.scorers.rubric_scores:SCORER",
        "spatial": "groundtrace.rewards.scorers.spatial:SCORER",
        "temporal": "groundtrace.rewards.scorers.temporal:SCORER",
        "think_section": "groundtrace.rewards.scorers.think_section:SCORER",
        "thinking": "groundtrace.rewards.scorers.thinking:SCORER",
    },
)


def scorers_named(*names: str) -> tuple[Scorer, ...]:
    """Return the registered scorers (checks of a response) with these names, in the order of ``names``.

    Raises RegistryError if a name is unknown.
    """
    return tuple(SCORERS[name] for name in names)
