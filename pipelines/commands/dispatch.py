"""Runs the command that a command line names, and reports its errors. A user's mistake is reported in one line."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from groundtrace.pipelines.commands.streams import end_if_pipe_closed
from groundtrace.pipelines.running.endings import ending_of, is_interrupt, line_of
from groundtrace.pipelines.running.plan.first_checks import check_command
from groundtrace.pipelines.running.quick_imports import quick_imports
from groundtrace.schemas.text import say


def dispatch(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the command that the command line names, and return its exit code.

    ``parsed`` holds the parsed arguments of the command line. ``beam_options`` are the options for Beam, which come
    after ``--`` on the command line. If the command raises an error, one line is printed on stderr, and the kind of
    error determines the exit code. Two kinds of errors are raised again: errors that Ctrl-C caused, and, with
    ``--verbose``, errors that may be defects of Groundtrace. Raises SystemExit if the output pipe is closed.
    """
    try:
        return _act(parsed, beam_options)
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            end_if_pipe_closed()
        ending = ending_of(error)
        if is_interrupt(error) or (parsed.verbose and ending.is_defect):
            raise
        say(*f"beam: {line_of(error)}".split("\n"), file=sys.stderr)
        return ending.code


COMMANDS = {
    "run": "groundtrace.pipelines.commands.run:run",
    "preview": "groundtrace.pipelines.commands.run:preview",
    "validate": "groundtrace.pipelines.commands.validate:validate",
    "init": "groundtrace.pipelines.commands.init:init",
    "inspect": "groundtrace.pipelines.commands.inspect:run_inspect",
    "diff": "groundtrace.pipelines.commands.diff:run_diff",
    "view": "groundtrace.pipelines.commands.view:run_view",
    "publish": "groundtrace.pipelines.commands.publish:run_publish",
    "export": "groundtrace.pipelines.commands.export:run_export",
    "config": "groundtrace.pipelines.commands.config:print_config",
    "cache": "groundtrace.pipelines.commands.cache.command:run_cache",
    "sandbox": "groundtrace.pipelines.commands.sandbox:run_sandbox",
    "serve-reward": "groundtrace.pipelines.commands.serve_reward:serve_reward",
    "loop": "groundtrace.pipelines.commands.loop:run_loop_command",
}
"""The function of each command, as ``module:function``.

The module is imported only when the command is used, because importing Beam takes seconds.
"""


PLANNED = ("run", "preview", "validate")
"""The commands that make a plan of a run, and that can have options of Beam. Evident mistakes in their arguments are
reported before Beam is imported.
"""

RESUMED = ("run", "preview", "loop")
"""The commands that continue their work if they are repeated after an interrupt."""


def _act(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    if parsed.command in PLANNED and not beam_options:  # a job server that does not answer is reported first
        check_command(parsed.pipeline, parsed.input, parsed.config, parsed.overrides)
    module, _, name = COMMANDS[parsed.command].partition(":")
    if module not in sys.modules:
        with quick_imports():
            importlib.import_module(module)
    return getattr(sys.modules[module], name)(parsed, beam_options)
