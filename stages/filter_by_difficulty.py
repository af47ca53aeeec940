"""The difficulty filter: keep questions whose pass rate lies in a band.

In: drafts with attempts. Out: drafts in the band; the others are rejected as too_easy or too_hard, or leave by the
output of that name where the recipe routes them. SAIL-RL's "pass@4" filter is this with k = 4 and 0 < rate < 1 (App.
A.1); iVGR keeps one or two right answers of five.
"""

from dataclasses import dataclass
from functools import partial

from schemas.records import Draft
from stages.plumbing.stage import DraftStage, Reject, Route, Stage, Work

TOO_EASY, TOO_HARD = "too_easy", "too_hard"


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


def side_of_band(pass_rate: float, settings: DifficultySettings) -> str | None:
    """``too_easy`` above the band, ``too_hard`` below it, None inside."""
    if pass_rate < settings.low or (pass_rate == settings.low and not settings.include_low):
        return TOO_HARD
    if pass_rate > settings.high or (pass_rate == settings.high and not settings.include_high):
        return TOO_EASY
    return None


def filter_draft(draft: Draft, settings: DifficultySettings) -> Draft | Route:
    """The draft, by the output of its side where that is routed.

    Raises :class:`Reject` outside the band, and ValueError for a draft without graded attempts.
    """
    if draft.pass_rate is None:
        raise ValueError(f"{draft.id}: FilterByDifficulty needs graded attempts")
    side = side_of_band(draft.pass_rate, settings)
    if side is None:
        return draft
    if side in settings.route:
        return Route(side, draft)
    raise Reject(side, f"pass rate {draft.pass_rate:.2f} over {draft.scored_attempts} attempts")


STAGE = Stage(
    "difficulty",
    "questions outside the band of pass rates are dropped",
    reasons={TOO_EASY: "pass rate above the band", TOO_HARD: "pass rate below the band"},
    settings=DifficultySettings,
)


@dataclass
class FilterByDifficulty(DraftStage):
    """Keeps the band; see the module. The routed drafts leave by ``too_easy`` and ``too_hard``."""

    settings: DifficultySettings
    stage = STAGE
    routes = (TOO_EASY, TOO_HARD)

    def work(self) -> Work:
        """See :func:`filter_draft`."""
        return partial(filter_draft, settings=self.settings)
