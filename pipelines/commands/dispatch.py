"""Doing what the command line asks, and how errors reach the user: one line, no traceback for a user's mistake."""

import argparse
import importlib
import re
import sys
from collections.abc import Sequence

from pipelines.running.errors import ConservationError, RunPaused
from pipelines.running.interrupts import is_interrupt
from schemas.errors import UserError
from schemas.text import say


def dispatch(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the parsed command; returns the exit code. Raises what Ctrl-C led to, and with --verbose other failures."""
    try:
        return _act(parsed, beam_options)
    except Exception as error:
        if is_interrupt(error):
            raise
        if mistake := _user_error(error):
            return _fail(mistake, 2)
        if isinstance(error, ConservationError):
            return _fail(f"conservation violated: {error}", 1)
        if isinstance(error, RunPaused):
            return _fail(str(error), 3)
        if parsed.verbose:  # a defect or a broken machine: say it in one line, and how to see more
            raise
        return _fail(f"{_root_cause(error)} (--verbose shows where)", 1)


_BEAMS_WORDS = re.compile(r" \[while running '[^']*'\]$")
COMMANDS = {
    "run": "pipelines.commands.run:run",
    "preview": "pipelines.commands.run:preview",
    "validate": "pipelines.commands.validate:validate",
    "init": "pipelines.commands.init:init",
    "inspect": "pipelines.commands.inspect:run_inspect",
    "diff": "pipelines.commands.diff:run_diff",
    "config": "pipelines.commands.config:print_config",
    "cache": "pipelines.commands.cache.command:run_cache",
}
"""Where each command stands. It is imported when asked for: Beam, which takes seconds, is not for those that look."""


def _act(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    module, _, name = COMMANDS[parsed.command].partition(":")
    return getattr(importlib.import_module(module), name)(parsed, beam_options)


def _user_error(error: BaseException | None) -> str:
    """What a UserError among the error and its causes says, "" where there is none. One that a worker met in the input
    comes through Beam, which adds the step.
    """
    while error is not None:
        if isinstance(error, UserError):
            return _BEAMS_WORDS.sub("", str(error))
        error = error.__cause__
    return ""


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"


def _fail(message: str, code: int) -> int:
    say(*f"beam: {message}".split("\n"), file=sys.stderr)
    return code
