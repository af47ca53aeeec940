"""Defines the entry of ``run.json`` with the reward of a policy that never looks at the images of the RL rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BLIND_SHARE = 1 / 3
"""A warning is given if a policy that never looks gets more than this share of the reward that looking can get."""


@dataclass(frozen=True)
class BlindType:
    """Holds the best constant ``answer`` to questions of one ``kind``, and the reward that it ``earned`` per row.

    ``kind`` is ``bool``, ``mcq``, ``count`` or another answer type. ``earned`` is a share of the reward that a policy
    can get by looking.
    """

    kind: str
    rows: int
    answer: str
    earned: float


@dataclass(frozen=True)
class BlindFigures:
    """Holds the reward of the best policy that never looks at the images (:mod:`groundtrace.rewards.blindness`).

    Attributes:
        reward: the reward recipe for which the RL rows are made.
        rows: the number of rows in the set.
        counted: the number of rows that rules can grade; the other rows are left out.
        share: the policy's reward on the counted rows, as a share of the reward that a policy can get by looking; None
            without counted rows.
        types: the figures of each kind of question.
    """

    reward: str
    rows: int
    counted: int
    share: float | None
    types: Mapping[str, BlindType] = field(default_factory=dict)

    @property
    def is_high(self) -> bool:
        """Whether the share exceeds :data:`MAX_BLIND_SHARE`, so that a reward curve does not show whether a policy
        looks.
        """
        return self.share is not None and self.share > MAX_BLIND_SHARE

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "BlindFigures":
        """Return the figures from their fields in ``run.json``."""
        return cls(**{**fields, "types": {name: BlindType(**each) for name, each in fields["types"].items()}})
