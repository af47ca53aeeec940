"""What the browser tests of the view share: a page with what it printed and requested, and the sizes of screens."""

import time
from dataclasses import dataclass, field
from typing import Any

SCREENS = {"phone": (390, 844), "desk": (1440, 900)}


@dataclass
class Page:
    """A page of the browser, what its console printed, and the addresses that it requested."""

    page: Any
    address: str
    printed: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def count(self) -> str:
        return self.page.inner_text("#count")

    def ids(self) -> list[str]:
        return self.page.evaluate("shown.rows.map(each => each.id)")

    def state(self) -> str:
        return self.page.evaluate("location.search")

    def wait(self, expression: str) -> None:
        """Wait for a condition. Playwright's own wait needs eval in the page, which its security policy forbids."""
        last_s = time.monotonic() + 15
        while not self.page.evaluate(f"!!(({expression}))"):
            assert time.monotonic() < last_s, f"{expression} has not become true: {self.printed}"
            time.sleep(0.03)
