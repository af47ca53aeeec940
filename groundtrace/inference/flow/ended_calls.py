"""Decides, from the errors of finished calls to an endpoint, whether a run can continue."""

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.checking import described, is_refusal, what_to_do
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.settings import EndpointSettings

REFUSED_IN_A_ROW = 8
"""The number of consecutive refusals after which the run ends, even if the server has answered other calls. Fewer
refusals may be due to the images of the requests, so they do not end such a run. There is one exception: a refusal with
the status 401 or 402 ends the run at once.
"""
NEVER_ANSWERED = 20
"""The number of failed calls after which the run ends if the endpoint has not answered any call of the run."""
UNSENT = frozenset({Failure.UNSUPPORTED, Failure.UNKNOWN_LABEL, Failure.REFUSED})
"""Failures that concern only one request, and do not show that the endpoint is down.

:class:`EndedCalls` does not count them as failed calls, so they do not end the run.
"""

_AT_ONCE = frozenset({401, 402})


class EndedCalls:
    """Counts the failed calls of one endpoint in this process, and decides whether the run can continue. ``name`` is
    the endpoint's name, ``roles`` are the jobs of its model (such as "judge"), and ``settings`` are its settings.
    ``notes`` gives access to files of the run, which record whether the endpoint has answered any process of the run.
    """

    def __init__(self, name: str, roles: tuple[str, ...], settings: EndpointSettings, notes: RunNotes) -> None:
        self._name, self._roles, self._settings, self._notes = name, roles, settings, notes
        self._answered = False
        self._failed = self._refused = 0

    @property
    def any_answered(self) -> bool:
        """Return whether the endpoint has answered at least one call of the run, in any process."""
        return self._answered or self._notes.was_reached(f"{self._name}:answered")

    def add(self, error: CallError | None) -> str | None:
        """Count a call that has ended, and decide whether the run can continue. ``error`` is the call's error, or None
        if the call got a reply. Returns None if the run can continue. Otherwise the run must end, and the result is
        the message for the user.
        """
        if error is None:
            self._refused = 0
            if not self._answered:
                self._answered = True
                self._notes.reached(f"{self._name}:answered")
        elif is_refusal(error):
            self._refused += 1
            if error.status in _AT_ONCE or not self.any_answered or self._refused >= REFUSED_IN_A_ROW:
                return what_to_do(self._name, self._roles, self._settings, error)
        elif error.failure not in UNSENT:
            self._failed += 1
            if self._failed >= NEVER_ANSWERED and not self.any_answered:
                return (
                    f"{described(self._name, self._roles, self._settings)}: none of {self._failed} calls was "
                    f"answered; the last error: {error}. Check the server, or set another endpoint for the role"
                )
        return None
