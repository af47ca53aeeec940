"""Defines the entry of ``run.json`` with the reward of a policy that answers the RL rows without using the images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BLIND_SHARE = 1 / 3
"""A warning is given if a policy that does not use the images gets more than this share of the highest reward."""


@dataclass(frozen=True)
class BlindType:
    """Holds the single ``answer`` that gets the highest reward if it is given to all questions of one ``kind``.

    ``kind`` is ``bool``, ``mcq``, ``count`` or another answer type. ``rows`` is the number of these questions.
    ``earned`` is the mean reward of the answer per row, as a share of the reward that a policy can get if it uses the
    images.
    """

    kind: str
    rows: int
    answer: str
    earned: float


@dataclass(frozen=True)
class BlindFigures:
    """Holds the reward of the best policy that answers without using the images (:mod:`groundtrace.rewards.blindness`).

    Attributes:
        reward: the reward recipe for which the RL rows are made.
        rows: the number of rows in the set.
        counted: the number of rows that rules can grade; the other rows are left out.
        share: the policy's reward on the counted rows, as a share of the reward that a policy can get if it uses the
            images; None without counted rows.
        types: for each kind of question, the best constant answer and its reward.
    """

    reward: str
    rows: int
    counted: int
    share: float | None
    types: Mapping[str, BlindType] = field(default_factory=dict)

    @property
    def is_high(self) -> bool:
        """Return whether ``share`` exceeds :data:`MAX_BLIND_SHARE`.

        If so, a rising reward does not prove that a policy uses the images.
        """
        return self.share is not None and self.share > MAX_BLIND_SHARE

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "BlindFigures":
        """Return a :class:`BlindFigures` with the values of ``fields``, its entry in ``run.json``."""
        return cls(**{**fields, "types": {name: BlindType(**each) for name, each in fields["types"].items()}})
