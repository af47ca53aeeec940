"""The errors of the sandbox."""

from groundtrace.schemas.errors import UserError


class SandboxRefused(UserError):
    """This machine lacks a requirement of isolation, so no model-written code runs on it."""


class SandboxLost(Exception):
    """A trajectory cannot go on, because its state is lost. The code that ran in it was still contained."""
