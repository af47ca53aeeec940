"""Defines the error about a run folder that cannot be used."""

from groundtrace.schemas.errors import UserError


class InspectError(UserError):
    """Raised if a run folder, or a user's query over its rows, cannot be used.

    The message is one line and states what the user can do.
    """
