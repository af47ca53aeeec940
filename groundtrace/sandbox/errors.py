"""Defines the errors that the sandbox raises if this machine cannot isolate code, or if a trajectory is lost.

A trajectory is a series of executions of code that share their state. It is lost if it cannot continue.
"""

from groundtrace.schemas.errors import UserError


class SandboxRefused(UserError):
    """Raised if this machine lacks a layer of isolation that the sandbox requires, such as namespaces.

    No model-written code runs on such a machine.
    """


class SandboxLost(Exception):
    """Raised if a trajectory (executions of code that share their state) cannot continue, because its state is lost.

    The state is the variables that the code created. The error does not mean that the isolation of the code has failed.
    """
