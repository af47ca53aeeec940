"""What a run may spend, in all its worker processes and its waves together."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from apache_beam.options.pipeline_options import PipelineOptions

from inference.flow.budget import budget_path, share_budget
from inference.flow.notes import Paid
from inference.settings import ModelsSettings
from pipelines.running.counts import Figures
from pipelines.running.runner import OptionError
from pipelines.running.workers import is_local, see_no_disk
from schemas.run_summary import BudgetFigures
from schemas.storage import is_remote
from stages.plumbing.stage import BUDGET


@dataclass(frozen=True)
class Spent:
    """Dollars, and tokens in and out together."""

    usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class RunBudget:
    """The most that a run may spend in all, in US dollars and in tokens in and out (None: no bound)."""

    usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.usd is not None and not 0 < self.usd < float("inf"):
            raise OptionError(f"--budget-usd must be a positive number of dollars, got {self.usd}")
        if self.tokens is not None and self.tokens < 1:
            raise OptionError(f"--budget-tokens must be at least 1, got {self.tokens}")

    @property
    def bounded(self) -> bool:
        """Whether there is a bound at all."""
        return self.usd is not None or self.tokens is not None

    def check(self, options: PipelineOptions, output: str) -> None:
        """Raises :class:`OptionError` where workers elsewhere cannot use the file in the run folder ``output`` in which
        the budget is kept.

        Of a folder on a disk it is not known from here: a worker that does not see it stops the run before it pays.
        """
        if self.bounded and not is_local(options) and (see_no_disk(options) or is_remote(output)):
            raise OptionError(
                "a budget over workers elsewhere is kept in a file that all of them see, and there is none in a store: "
                "drop it, or name an --output on a disk that the workers share"
            )

    def kept(self, models: ModelsSettings) -> ModelsSettings:
        """The settings of the workers of a run, all of which keep this one budget in the folder of its notes."""
        path = budget_path(models.notes)
        if not self.bounded or path is None:
            return models
        share_budget(path, self.usd, self.tokens)
        return replace(models, budget_usd=self.usd, budget_tokens=self.tokens)

    def summary(self, spent: Spent, figures: Figures) -> BudgetFigures:
        """What run.json says of the budget."""
        left = sum(reasons.get(BUDGET, 0) for reasons in figures.counts.rejected.values())
        return BudgetFigures(self.usd, self.tokens, spent.usd, spent.tokens, figures.refused, left)


def spent_of(paid: Iterable[Paid]) -> Spent:
    """What the requests of a run took, by what was noted of each."""
    usd, tokens = 0.0, 0
    for each in paid:
        usd, tokens = usd + each.cost_usd, tokens + each.tokens_in + each.tokens_out
    return Spent(usd, tokens)
