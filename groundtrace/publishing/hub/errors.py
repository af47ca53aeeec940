"""What keeps a run from being published."""

from groundtrace.schemas.errors import UserError


class PublishError(UserError):
    """The run, the repository or the command cannot be used; one line that says why and what to do."""


class HubDown(RuntimeError):
    """The Hub did not answer or broke off; the same command goes on with what it has not yet got."""
