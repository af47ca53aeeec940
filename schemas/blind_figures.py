"""What a policy that never looks earns on a run's RL rows, as ``run.json`` holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BLIND_SHARE = 1 / 3
"""A warning is given if a policy that never looks earns more than this share of the reward that looking can earn."""


@dataclass(frozen=True)
class BlindType:
    """The best constant ``answer`` to questions of one ``kind``, and what it ``earned`` per row.

    ``kind`` is ``bool``, ``mcq``, ``count`` or another answer type; ``earned`` is a share of what looking can earn.
    """

    kind: str
    rows: int
    answer: str
    earned: float


@dataclass(frozen=True)
class BlindFigures:
    """The rewards of the best policy that never looks, on the RL rows (:mod:`groundtrace.rewards.blindness`).

    Attributes:
        reward: the reward recipe that the rows are made for.
        rows: the number of rows in the set.
        counted: the number of rows that rules can grade; the others are left out.
        share: the earnings as a share of what looking can earn on the counted rows; None without counted rows.
        types: by kind of question.
    """

    reward: str
    rows: int
    counted: int
    share: float | None
    types: Mapping[str, BlindType] = field(default_factory=dict)

    @property
    def is_high(self) -> bool:
        """Whether a policy that never looks earns so much that a reward curve does not show whether a policy looks."""
        return self.share is not None and self.share > MAX_BLIND_SHARE

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "BlindFigures":
        """Return the figures that ``run.json`` holds."""
        return cls(**{**fields, "types": {name: BlindType(**each) for name, each in fields["types"].items()}})
