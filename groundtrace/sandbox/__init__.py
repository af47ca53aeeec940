"""Executes Python code that a model wrote, isolated from this machine.

This package is used by the steps of pipelines, by the scorers (checks) of responses, and by the trainer when it samples
responses. docs/sandbox.md describes the isolation.
"""

from groundtrace.sandbox.errors import SandboxLost, SandboxRefused
from groundtrace.sandbox.observation import Observation
from groundtrace.sandbox.sandbox import Sandbox
from groundtrace.sandbox.session import Session
from groundtrace.sandbox.settings import SandboxSettings

__all__ = ["Observation", "Sandbox", "SandboxLost", "SandboxRefused", "SandboxSettings", "Session"]
