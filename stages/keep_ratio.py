"""Keeps the classes of questions in a given ratio, such as 50 STEM questions to 20 general ones (SAIL-RL App. A.1).

The inputs are drafts (questions with their data). The output ``kept`` has as many drafts of each class as the ratio
allows: those with the lowest hashes of their ids. The output ``rejected`` has all other drafts, as over_quota. For
example, the ratio 50 to 20 keeps 100 of 300 STEM questions and all of 40 general ones. The class with the fewest
questions for its weight keeps all its questions. The numbers of the other classes are rounded down. ValueError is
raised for a class that is not in the ratio. A class without questions is left out of the ratio, since otherwise nothing
could be kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from apache_beam.pvalue import PCollection

from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import OVER_QUOTA, keep_lowest_keys
from groundtrace.stages.plumbing.stage import DraftStage, Stage


def quotas(counts: Mapping[str, int], ratio: Mapping[str, float], most: int | None = None) -> dict[str, int]:
    """Return the number of questions to keep in each class. Classes without questions are left out.

    ``counts`` maps each class to its number of questions. ``ratio`` maps each class to its weight. The number of each
    class is rounded down. For example, the counts 300 and 40 with the weights 50 and 20 give 100 and 40.

    ``most`` is the maximum total; None means no maximum. If the ratio allows more than ``most`` questions, exactly
    ``most`` are kept: the total ``most`` is divided among the classes in the ratio, and the number of each class is
    rounded down. If the sum is then below ``most``, the classes with the largest rounding errors each keep one more
    question, so that the sum becomes ``most``.

    Raises ValueError for a class that has questions but no weight above 0.
    """
    unnamed = sorted(name for name, count in counts.items() if count and ratio.get(name, 0) <= 0)
    if unnamed:
        raise ValueError(
            f"the ratio has no weight for the class {unnamed[0]!r}, only for {', '.join(ratio)}: add a weight above 0 "
            "for this class"
        )
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
    """Stage (pipeline step) that keeps the classes of questions in a given ratio.

    ``ratio`` maps each class to its weight. ``class_of`` is a function that returns the class of a draft (a question
    with its data); workers must be able to import it. ``most`` is the maximum number of drafts to keep; None means no
    maximum. This stage applies the maximum, because the ratio would change if a later stage removed drafts.
    """

    ratio: Mapping[str, float]
    class_of: Callable[[Draft], str]
    most: int | None = None
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Count the drafts (questions with their data) of each class, and keep as many of each as the ratio allows.

        Returns two outputs: ``kept`` has the kept drafts, and ``rejected`` has a rejection for each other draft.
        """
        limits = partial(quotas, ratio=dict(self.ratio), most=self.most)
        return keep_lowest_keys(drafts, self.stage, self.class_of, limits, "more of {} than the ratio allows")
