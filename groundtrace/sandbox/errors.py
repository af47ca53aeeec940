"""Defines the errors of the sandbox."""

from groundtrace.schemas.errors import UserError


class SandboxRefused(UserError):
    """Raised if this machine lacks a required layer of isolation. No model-written code runs on such a machine."""


class SandboxLost(Exception):
    """Raised if a trajectory cannot continue, because its state is lost. The isolation of the code did not fail."""
