"""The difficulty filter: keep questions whose pass rate lies in a band.

In: drafts with attempts. Out: drafts in the band; the others are rejected as too_easy or too_hard, or leave by the
output of that name where the recipe routes them. SAIL-RL's "pass@4" filter is this with k = 4 and 0 < rate < 1 (App.
A.1); iVGR keeps one or two right answers of five.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from schemas.reasons import Reason
from schemas.records import Draft
from stages.plumbing.calling import REJECTED, reject, split
from stages.plumbing.metrics import count_in, count_kept, count_rejected

STAGE = "difficulty"
TOO_EASY, TOO_HARD = Reason.TOO_EASY.value, Reason.TOO_HARD.value


@dataclass(frozen=True)
class DifficultySettings:
    """The band of pass rates, open at each end unless included. ``route`` names sides that are not rejected."""

    low: float = 0.0
    high: float = 1.0
    include_low: bool = False
    include_high: bool = False
    route: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"difficulty needs 0 <= low <= high <= 1, got {self.low} and {self.high}")
        unknown = set(self.route) - {TOO_EASY, TOO_HARD}
        if unknown:
            raise ValueError(f"difficulty.route: {sorted(unknown)[0]!r} is neither {TOO_EASY} nor {TOO_HARD}")


def side_of_band(pass_rate: float, settings: DifficultySettings) -> Reason | None:
    """Reason.TOO_EASY above the band, Reason.TOO_HARD below it, None inside."""
    if pass_rate < settings.low or (pass_rate == settings.low and not settings.include_low):
        return Reason.TOO_HARD
    if pass_rate > settings.high or (pass_rate == settings.high and not settings.include_high):
        return Reason.TOO_EASY
    return None


class _Filter(beam.DoFn):
    def __init__(self, settings: DifficultySettings) -> None:
        self._settings = settings

    def process(self, draft: Draft) -> Iterator[object]:
        """Emit the draft by the output of its side."""
        count_in(STAGE)
        if draft.pass_rate is None:
            raise ValueError(f"{draft.id}: FilterByDifficulty needs graded attempts")
        side = side_of_band(draft.pass_rate, self._settings)
        if side is None:
            count_kept(STAGE)
            yield draft
        elif side.value in self._settings.route:
            count_kept(STAGE)
            yield TaggedOutput(side.value, draft)
        else:
            detail = f"pass rate {draft.pass_rate:.2f} over {draft.scored_attempts} attempts"
            rejected = reject(draft, STAGE, side, detail)
            count_rejected(rejected)
            yield TaggedOutput(REJECTED, rejected)


@dataclass
class FilterByDifficulty(beam.PTransform):
    """Keep the band; see the module."""

    settings: DifficultySettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept``, ``rejected``, and the routed ``too_easy`` and ``too_hard``."""
        return split(drafts, "Filter", _Filter(self.settings), too_easy=Draft, too_hard=Draft)
