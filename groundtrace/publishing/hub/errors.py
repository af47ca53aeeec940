"""The errors of publishing."""

from groundtrace.schemas.errors import UserError


class PublishError(UserError):
    """The run, the repository or the command cannot be used; the message is one line with the reason and what to do."""


class HubDown(RuntimeError):
    """The Hub did not answer, or closed the connection; the same command continues with the files that it lacks."""
