"""Defines the spending limit of a run. The limit applies to all worker processes and all waves (passes over the input)
of the run together.
"""

from dataclasses import dataclass, replace

from groundtrace.inference.endpoint import kind_of
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.plan.options import OptionError


@dataclass(frozen=True)
class RunBudget:
    """Holds the spending limits of a run.

    ``usd`` is the maximum cost in US dollars. ``tokens`` is the maximum number of input and output tokens together.
    None means that there is no limit.
    """

    usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.usd is not None and not 0 < self.usd < float("inf"):
            raise OptionError(f"--budget-usd must be a positive number of dollars, got {self.usd}")
        if self.tokens is not None and self.tokens < 1:
            raise OptionError(f"--budget-tokens must be at least 1, got {self.tokens}")

    @property
    def bounded(self) -> bool:
        """Return whether the run has a spending limit, in dollars or in tokens."""
        return self.usd is not None or self.tokens is not None

    def check_prices(self, models: ModelsSettings) -> None:
        """Raise OptionError if a limit in dollars is set, but an endpoint (model server) of the run has no price.

        Without a price, the limit would have no effect. ``models`` are the settings of the run's models. A price of 0
        is accepted. A model in the worker process needs no price.
        """
        if self.usd is None:
            return
        used = {models.endpoint_name(role): models.endpoint(role) for role, _ in models.roles}
        missing = {
            name: endpoint.prices_left_out
            for name, endpoint in sorted(used.items())
            if endpoint.prices_left_out and not kind_of(endpoint.kind).in_process
        }
        if missing:
            named = ", ".join(f"endpoints.{name}.{price}" for name, prices in missing.items() for price in prices)
            raise OptionError(
                f"--budget-usd {self.usd:g} cannot be enforced without a price for {', '.join(missing)}: set {named} "
                "(0 for a free server), or use --budget-tokens"
            )

    def kept(self, models: ModelsSettings) -> ModelsSettings:
        """Return the settings of the models with this budget added, so that all workers of a run share it.

        :class:`groundtrace.inference.coordination.budget.Budget` enforces the budget. ``models`` are the settings
        without the budget; ``models.notes`` is the folder into which workers write the cost of their requests.
        ``models`` is returned unchanged if the run has no limit, or if ``models.notes`` is empty.
        """
        if not self.bounded or not models.notes:
            return models
        return replace(models, budget_usd=self.usd, budget_tokens=self.tokens)
