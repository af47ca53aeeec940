"""Implements ``beam sandbox check``: shows how this machine isolates model-written code, and tests the isolation."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from groundtrace.schemas.text import say


def add_sandbox_parser(commands: Any) -> None:
    """Add the subcommand ``sandbox`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    sandbox = commands.add_parser("sandbox", help="isolation of model-written code", allow_abbrev=False)
    actions = sandbox.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("check", help="show what this machine has, and run programs that try to get out")


def run_sandbox(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Run test programs that try to get out of the sandbox, print the results, and return the exit code.

    The layers by which this machine isolates model-written code are printed first. The exit code is 0 if the sandbox
    stopped all test programs, 1 if at least one test program got out, and 2 if the machine lacks something that the
    sandbox requires. The arguments are not used.
    """
    from groundtrace.sandbox.requirements import layers
    from groundtrace.sandbox.trial import trial

    found = layers()
    for part in found:
        state = f"missing: {part.missing}; {part.remedy}" if part.missing else part.does
        say(f"{part.name:<16}{state}")
    needed = [part.name for part in found if part.is_needed and part.missing]
    if needed:
        print(
            f"beam: this machine cannot run a sandbox: {', '.join(needed)} missing, see the remedy above",
            file=sys.stderr,
        )
        return 2
    escaped = 0
    for outcome in trial():
        escaped += bool(outcome.escaped)
        state = f"NOT CONTAINED: {outcome.escaped}" if outcome.escaped else f"contained ({outcome.status})"
        say(f"{outcome.name:<34}{outcome.duration_s:5.1f} s  {state}")
    if escaped:
        print(
            f"beam: {escaped} programs were not contained: run no model-written code on this machine", file=sys.stderr
        )
    return 1 if escaped else 0
