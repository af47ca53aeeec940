"""The budget of one worker process: dollars and tokens that its requests may take in all."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from inference.errors import BudgetUsedUp

FIRST_GUESS_TOKENS_OUT = 256
ROUNDING_USD = 1e-9
"""How far sums of dollars may be off; every call costs more."""


@dataclass(frozen=True)
class Cost:
    """Dollars and tokens, in and out together."""

    usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.usd - other.usd, self.tokens - other.tokens)


class Budget:
    """Lets requests through while what was spent and what is under way stay within the limit.

    A request is held until what is under way is known, not refused at once, so that the budget is used up. What a
    request will take is guessed from those before it: the overshoot is at most by how much the last ones under
    way were underestimated. Once a request has been refused, all others are, so that a run stops cleanly.
    """

    def __init__(self, usd: float | None, tokens: int | None) -> None:
        self._usd, self._tokens = usd, tokens
        self.spent = self._reserved = Cost()
        self.exhausted = False
        self._under_way = 0
        self._settled = asyncio.Event()
        self._seen: dict[str, tuple[int, int]] = defaultdict(lambda: (1, FIRST_GUESS_TOKENS_OUT))

    def expected_tokens_out(self, prompt: str, n: int, max_tokens: int) -> int:
        """How many tokens ``n`` samples of this prompt will take, from those that it has taken so far."""
        samples, tokens_out = self._seen[prompt]
        return n * min(max_tokens, -(-tokens_out // samples))

    async def reserve(self, cost: Cost) -> None:
        """Wait until the cost fits. Raises BudgetUsedUp when it does not even with nothing else under way."""
        if self._usd is None and self._tokens is None:
            return
        while not self.exhausted and not self._fits(self.spent + self._reserved + cost):
            if not self._under_way:
                self.exhausted = True
                self._settled.set()
                break
            self._settled.clear()
            await self._settled.wait()
        if self.exhausted:
            raise BudgetUsedUp(f"the budget is used up: {self._said()}")
        self._reserved += cost
        self._under_way += 1

    def settle(self, reserved: Cost, taken: Cost, prompt: str = "", samples: int = 0, tokens_out: int = 0) -> None:
        """A request has ended: what it took stands in place of what was reserved for it."""
        self.spent += taken
        if samples:
            seen, total = self._seen[prompt]
            self._seen[prompt] = (seen + samples, total + tokens_out)
        if self._usd is None and self._tokens is None:
            return
        self._under_way -= 1
        self._reserved = self._reserved - reserved if self._under_way else Cost()
        self._settled.set()

    def _fits(self, cost: Cost) -> bool:
        affordable = self._usd is None or cost.usd <= self._usd + ROUNDING_USD
        return affordable and (self._tokens is None or cost.tokens <= self._tokens)

    def _said(self) -> str:
        parts = [] if self._usd is None else [f"${self.spent.usd:.4f} of ${self._usd:g}"]
        return ", ".join(parts + ([] if self._tokens is None else [f"{self.spent.tokens} of {self._tokens} tokens"]))
