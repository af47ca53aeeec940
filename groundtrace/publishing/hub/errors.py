"""Defines the errors of publishing a run on the Hub."""

from groundtrace.schemas.errors import UserError


class PublishError(UserError):
    """Raised if a run cannot be published because of a mistake that the user can correct.

    For example, the run, the repository or the command cannot be used. The message is one line with the reason and what
    to do.
    """


class HubDown(RuntimeError):
    """Raised if the Hub did not answer, failed, or closed the connection, so that a run was not published completely.

    If the user runs the same command again, only the files that the Hub lacks are uploaded.
    """
