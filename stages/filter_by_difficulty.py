"""The difficulty filter: keep questions whose pass rate lies in a band.

In: drafts with attempts. Out: drafts in the band; the others are rejected as too_easy or too_hard, or leave by the
output of that name where the recipe routes them. SAIL-RL's "pass@4" filter is this with k = 4 and 0 < rate < 1 (App.
A.1); iVGR keeps one or two right answers of five.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from schemas.config import Share, settings
from schemas.reasons import Reason
from schemas.records import Draft
from stages.plumbing.calling import REJECTED, reject, split
from stages.plumbing.metrics import count_in, count_kept, count_rejected

STAGE = "difficulty"
TOO_EASY, TOO_HARD = Reason.TOO_EASY.value, Reason.TOO_HARD.value


@settings
class DifficultySettings:
    """The band of pass rates; each end is left out unless it is included."""

    low: Annotated[Share, "the lower end"] = 0.0
    high: Annotated[Share, "the upper end"] = 1.0
    include_low: Annotated[bool, "keep a pass rate of exactly low"] = False
    include_high: Annotated[bool, "keep a pass rate of exactly high"] = False
    route: Annotated[
        tuple[Literal["too_easy", "too_hard"], ...],
        "sides that leave by an output of their own, not rejected",
    ] = ()

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high = {self.high}, got {self.low}")


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
