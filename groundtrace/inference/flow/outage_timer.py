"""Measures the outage of one endpoint in a run, and writes the message that shows the wait."""

import time

from groundtrace.inference.flow.notes import RunNotes
from groundtrace.schemas.text import printable

REPORT_EVERY_S = 10.0


class OutageTimer:
    """Measures how long the run has waited for a server that is down. The outage timeout is ``limit_s`` seconds.
    ``named`` is the endpoint's description in messages.
    """

    def __init__(self, name: str, named: str, limit_s: float, notes: RunNotes) -> None:
        self._name, self._named, self._notes = name, named, notes
        self.limit_s = limit_s
        self._since_s: float | None = None
        self._reported_s: float | None = None

    def begin(self) -> None:
        """Start the clock if it is not running."""
        if self._since_s is None:
            self._since_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """Return the seconds left until the timeout. The result is negative after the timeout."""
        waited_s = 0.0 if self._since_s is None else time.monotonic() - self._since_s
        return self.limit_s - waited_s

    def report(self, why: object) -> None:
        """Show a message for the user: why the run waits (``why``), and how long it has waited so far."""
        message = f"waiting {self.limit_s - self.left_s:.0f} s (at most {self.limit_s:g}) for {self._named}: {why}"
        self._reported_s = time.monotonic()
        self._notes.begin_wait(self._name, printable(" ".join(message.split())))

    def report_periodically(self, why: object) -> None:
        """Call :meth:`report` with the reason ``why``, unless the last report is less than ``REPORT_EVERY_S`` seconds
        old."""
        if self._reported_s is None or time.monotonic() - self._reported_s >= REPORT_EVERY_S:
            self.report(why)

    def report_end(self) -> None:
        """Remove the message, since the run does not wait any more. The clock continues to run until :meth:`forget`."""
        if self._reported_s is not None:
            self._reported_s = None
            self._notes.end_wait(self._name)

    def forget(self) -> None:
        """Reset the clock, since the server has answered."""
        self._since_s = None
        self.report_end()
