"""Defines the error about a run folder that cannot be used."""

from groundtrace.schemas.errors import UserError


class InspectError(UserError):
    """Raised if the run folder or the query cannot be used. The message is one line and states the remedy."""
