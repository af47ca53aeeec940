"""Executes Python code that a model wrote, isolated from this machine.

The steps of pipelines, the scorers of responses, and the trainer's rollouts use it. docs/sandbox.md describes the
isolation.
"""

from groundtrace.sandbox.errors import SandboxLost, SandboxRefused
from groundtrace.sandbox.observation import Observation
from groundtrace.sandbox.sandbox import Sandbox
from groundtrace.sandbox.session import Session
from groundtrace.sandbox.settings import SandboxSettings

__all__ = ["Observation", "Sandbox", "SandboxLost", "SandboxRefused", "SandboxSettings", "Session"]
