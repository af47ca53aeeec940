"""Why there is no sandbox, or no trajectory in it."""

from groundtrace.schemas.errors import UserError


class SandboxRefused(UserError):
    """This machine lacks what isolation needs, so that no model-written code runs on it."""


class SandboxLost(Exception):
    """A trajectory cannot go on: its state is gone. What ran in it was contained all the same."""
