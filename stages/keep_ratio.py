"""Keeping classes of questions in a set ratio, such as 50 STEM to 20 general ones (SAIL-RL App. A.1).

In: drafts. Out: ``kept``, as many of each class as the ratio allows, and ``rejected``: the rest, as over_quota. Those
whose ids hash lowest stay. The class that is scarcest for its weight stays whole, and of each other class there is less
than one row fewer than the ratio gives for it. A class that the ratio does not name is a defect; one that the input has
none of leaves the ratio, or nothing could be kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from apache_beam.pvalue import PCollection

from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import OVER_QUOTA, keep_lowest
from groundtrace.stages.plumbing.stage import DraftStage, Stage


def quotas(counts: Mapping[str, int], ratio: Mapping[str, float], most: int | None = None) -> dict[str, int]:
    """How many of each class are kept, of ``counts`` that there are. Classes without a row take no part.

    Where there are rows for more than ``most`` in all, exactly so many are kept: what rounding leaves over goes to the
    classes that it cost most. Raises ValueError for a class that the ratio does not name.
    """
    unnamed = sorted(name for name, count in counts.items() if count and ratio.get(name, 0) <= 0)
    if unnamed:
        raise ValueError(f"the ratio gives no weight to {unnamed[0]!r}; it names {', '.join(ratio)}")
    weights = {name: Fraction(str(ratio[name])) for name, count in counts.items() if count}
    if not weights:
        return {}
    each, total = min(counts[name] / weight for name, weight in weights.items()), sum(weights.values())
    if most is None or each * total < most:
        return {name: int(each * weight) for name, weight in weights.items()}
    each = most / total
    kept = {name: int(each * weight) for name, weight in weights.items()}
    by_loss = sorted(weights, key=lambda name: (kept[name] - each * weights[name], name))
    for name in by_loss[: most - sum(kept.values())]:
        kept[name] += 1
    return kept


STAGE = Stage(
    "ratio",
    "classes of questions are kept in a set ratio",
    reasons={OVER_QUOTA: "left over by a quota or ratio"},
    joins=True,
)


@dataclass
class KeepRatio(DraftStage):
    """Keeps the ratio; see the module. ``ratio`` is weights by class, ``class_of`` a function that workers can import.
    ``most`` is the number of rows that a run is to end with, which cutting later would take from one class.
    """

    ratio: Mapping[str, float]
    class_of: Callable[[Draft], str]
    most: int | None = None
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` and ``rejected``."""
        limits = partial(quotas, ratio=dict(self.ratio), most=self.most)
        return keep_lowest(drafts, self.stage, self.class_of, limits, "more of {} than the ratio allows")
