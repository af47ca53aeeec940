"""Measures how long a server has been down in a run, and writes the message that tells the user about the wait."""

import time

from groundtrace.inference.flow.notes import RunNotes
from groundtrace.schemas.text import printable

REPORT_EVERY_S = 10.0


class OutageTimer:
    """Measures how long the run has waited for a server that is down. ``name`` is the endpoint's name. ``named`` is a
    longer description of the endpoint for messages, with the model and the URL. ``limit_s`` is the outage timeout in
    seconds: the longest time that the run waits. ``notes`` writes the message into a file of the run, which the
    progress display reads.
    """

    def __init__(self, name: str, named: str, limit_s: float, notes: RunNotes) -> None:
        self._name, self._named, self._notes = name, named, notes
        self.limit_s = limit_s
        self._since_s: float | None = None
        self._reported_s: float | None = None

    def begin(self) -> None:
        """Start to measure the time. Nothing happens if the timer is running already."""
        if self._since_s is None:
            self._since_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """Return the seconds until the outage timeout. The result is negative after the timeout. It is the whole
        timeout if the timer is not running.
        """
        waited_s = 0.0 if self._since_s is None else time.monotonic() - self._since_s
        return self.limit_s - waited_s

    def report(self, why: object) -> None:
        """Show a message about the wait to the user. The message names the endpoint, how long the run has waited so
        far, how long it waits at most, and the reason. ``why`` is this reason, e.g. the error of the last request.
        """
        message = f"waiting {self.limit_s - self.left_s:.0f} s (at most {self.limit_s:g}) for {self._named}: {why}"
        self._reported_s = time.monotonic()
        self._notes.begin_wait(self._name, printable(" ".join(message.split())))

    def report_periodically(self, why: object) -> None:
        """Show the message of :meth:`report` if no message is shown yet, or if the last one is at least
        ``REPORT_EVERY_S`` seconds old. ``why`` is the reason for the wait.
        """
        if self._reported_s is None or time.monotonic() - self._reported_s >= REPORT_EVERY_S:
            self.report(why)

    def report_end(self) -> None:
        """Remove the message of :meth:`report` from the progress display, because the run no longer waits for the
        server. The timer is not reset: it goes on until :meth:`forget` is called.
        """
        if self._reported_s is not None:
            self._reported_s = None
            self._notes.end_wait(self._name)

    def forget(self) -> None:
        """Reset the timer, because the server has answered; remove the message of :meth:`report` from the display."""
        self._since_s = None
        self.report_end()
