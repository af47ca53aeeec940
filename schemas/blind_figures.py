"""Defines the entry of ``run.json`` (the summary of a run) about blind answers: the reward that a policy, i.e. the
model in RL training, can get on the RL rows without looking at the images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BLIND_SHARE = 1 / 3
"""The largest acceptable share of the highest reward for a policy that does not use the images. A larger share leads to
a warning.
"""


@dataclass(frozen=True)
class BlindType:
    """Holds the best constant answer for one kind of question: the ``answer`` that gets the highest reward if it is
    given to all questions of this ``kind``.

    ``kind`` is ``bool``, ``mcq``, ``count`` or another answer type. ``rows`` is the number of these questions.
    ``earned`` is the mean reward of the answer per row, as a share of the reward that a policy (a model in RL training)
    can get if it uses the images. E.g. 0.25 means a quarter of that reward.
    """

    kind: str
    rows: int
    answer: str
    earned: float


@dataclass(frozen=True)
class BlindFigures:
    """Holds the reward of the best policy (model in RL training) that answers without using the images
    (:mod:`groundtrace.rewards.blindness`). Such a policy gives the same answer to all questions of one kind.

    Attributes:
        reward: the name of the reward for which the RL rows are made.
        rows: the number of RL rows.
        counted: the number of rows that rules can grade; the other rows are left out.
        share: the policy's reward on the counted rows, as a share of the reward that a policy can get if it uses the
            images; None if no row is counted.
        types: for each kind of question, the best constant answer and its reward.
    """

    reward: str
    rows: int
    counted: int
    share: float | None
    types: Mapping[str, BlindType] = field(default_factory=dict)

    @property
    def is_high(self) -> bool:
        """Return whether a policy (a model in RL training) can get more than a third (:data:`MAX_BLIND_SHARE`) of the
        highest reward without using the images. In this case a rising reward in training does not prove that the policy
        uses them.
        """
        return self.share is not None and self.share > MAX_BLIND_SHARE

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "BlindFigures":
        """Create the object from ``fields``, its entry in ``run.json``."""
        return cls(**{**fields, "types": {name: BlindType(**each) for name, each in fields["types"].items()}})
