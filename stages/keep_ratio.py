"""Keeping classes of questions in a set ratio, such as 50 STEM to 20 general ones (SAIL-RL App. A.1).

In: drafts. Out: ``kept``, as many of each class as the ratio allows, and ``rejected``: the rest, as over_quota. Those
whose ids hash lowest stay. The class that is scarcest for its weight stays whole, and of each other class there is less
than one row fewer than the ratio gives for it. A class that the ratio does not name is a defect; one that the input has
none of leaves the ratio, or nothing could be kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, PCollection

from schemas.ordering import order_key
from schemas.records import Draft
from stages.plumbing.metrics import count_in
from stages.plumbing.stage import DraftStage, Reject, Stage, apply, kept_output, rejected_output

OVER_QUOTA = "over_quota"
ClassOf = Callable[[Draft], str]


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


def last_keys(
    keyed: Iterable[tuple[str, Iterable[str]]], ratio: Mapping[str, float], most: int | None = None
) -> dict[str, str]:
    """Of each class the highest key that is kept, "" where none is; ``keyed`` are the keys of each class."""
    keys = {name: sorted(each) for name, each in keyed}
    kept = quotas({name: len(each) for name, each in keys.items()}, ratio, most)
    return {name: each[kept[name] - 1] if kept[name] else "" for name, each in keys.items()}


class _Keep(beam.DoFn):
    def __init__(self, stage: Stage, class_of: ClassOf) -> None:
        self._stage, self._class_of = stage, class_of

    def process(self, draft: Draft, last: Mapping[str, str]) -> Iterator[object]:
        """Emit the draft, or its rejection."""
        count_in(self._stage.name)
        name = self._class_of(draft)
        if order_key(draft.id) <= last[name]:
            yield kept_output(self._stage, draft)
        else:
            why = Reject(OVER_QUOTA, f"more of {name} than the ratio allows")
            yield rejected_output(self._stage.rejected(draft, why, draft.calls))


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

    The limits are found on one worker, which holds ids' hashes only.
    """

    ratio: Mapping[str, float]
    class_of: ClassOf
    most: int | None = None
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` and ``rejected``."""
        class_of, ratio, most = self.class_of, dict(self.ratio), self.most
        keyed = drafts | "ClassOfEach" >> beam.Map(
            lambda draft: (class_of(draft), order_key(draft.id))
        ).with_output_types(tuple[str, str])
        grouped: Any = keyed | "ByClass" >> beam.GroupByKey() | "AllClasses" >> beam.combiners.ToList()
        last = grouped | "Last" >> beam.FlatMap(lambda found: last_keys(found, ratio, most).items())
        return apply(drafts, "Keep", _Keep(self.stage, class_of), AsDict(last))
