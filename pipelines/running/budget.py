"""What a run may spend, shared out to its worker processes and its waves."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

from inference.flow.notes import Paid
from inference.settings import ModelsSettings
from pipelines.running.counts import Figures
from pipelines.running.runner import OptionError
from schemas.run_summary import BudgetFigures
from stages.plumbing.stage import BUDGET

LOCAL_RUNNERS = ("directrunner", "fnapirunner", "bundlebaseddirectrunner")


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

    def check(self, options: PipelineOptions) -> None:
        """Raises :class:`OptionError` when the runner's workers are not on this machine, out of a budget's reach."""
        if self.bounded and not is_local(options):
            raise OptionError("a budget can only be kept on this machine: drop --runner or the budget")

    def share(self, models: ModelsSettings, spent: Spent, workers: int) -> ModelsSettings:
        """The settings of one of the worker processes, with its part of what is left."""
        usd = None if self.usd is None else max(0.0, self.usd - spent.usd) / workers
        tokens = None if self.tokens is None else max(0, self.tokens - spent.tokens) // workers
        return replace(models, budget_usd=usd, budget_tokens=tokens)

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


def is_local(options: PipelineOptions) -> bool:
    """Whether all workers run on this machine."""
    named = options.view_as(StandardOptions).runner
    return not named or named.rsplit(".", 1)[-1].lower() in LOCAL_RUNNERS


def worker_processes(options: PipelineOptions) -> int:
    """How many processes on this machine call models; Beam takes 0 workers as one for each core."""
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 1
    return direct.direct_num_workers or os.cpu_count() or 1
