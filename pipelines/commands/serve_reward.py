"""Implements ``beam serve-reward``: defines its arguments, and runs a server that scores responses for other trainers,
until a signal ends it.
"""

import argparse
import contextlib
import ipaddress
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.pipelines.commands.serving import ServeError, http_loop, listening, positive, stopped_by_signals
from groundtrace.schemas.text import counted, say
from groundtrace.storage.mirror import local_copy

TOKEN_VARIABLE = "GROUNDTRACE_REWARD_TOKEN"
ENDING_S = 10.0
"""The number of seconds that open requests get to finish after a signal."""
EXAMPLES = """examples:
  beam serve-reward --config argos --data runs/mine
  beam serve-reward --config reward.toml --data runs/mine photos=runs/photos --port 9000
"""


def add_serve_reward_parser(commands: Any) -> None:
    """Add the subcommand ``serve-reward`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    parser = commands.add_parser(
        "serve-reward",
        help="score responses for other trainers, over HTTP",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", default="", metavar="FILE", help="a reward's or a trainer's config, or argos, …")
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="RUN", help="the runs that requests may use, as RUN or NAME=RUN"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8500, metavar="N", help="the port (default 8500; 0: any)")
    parser.add_argument("--allow-remote", action="store_true", help=f"accept other machines without {TOKEN_VARIABLE}")
    parser.add_argument(
        "--allow-unready",
        action="store_true",
        help="start even if a judge does not answer yet; /health returns 503 until it does",
    )
    parser.add_argument(
        "--max-batch", type=positive, default=4096, metavar="N", help="maximum responses in one request"
    )
    parser.add_argument("--max-scoring", type=positive, default=64, metavar="N", help="maximum requests scored at once")
    parser.add_argument(
        "--max-waiting", type=_not_negative, default=256, metavar="N", help="maximum requests in the queue"
    )
    parser.add_argument(
        "--timeout-s", type=_seconds, default=150.0, metavar="X", help="timeout for a request (default 150)"
    )


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"the number must be at least 0, got {number}")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"the number of seconds must be finite and above 0, got {text}")
    return number


def serve_reward(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Run a server that scores responses for other trainers, until a signal ends it. Return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises
    :class:`groundtrace.schemas.errors.UserError` for a config, a run, a model server or an address that cannot be used.
    """
    import datasets

    from groundtrace.inference.preflight import NotServed
    from groundtrace.publishing.rewards.row_reward import (
        RowReward,  # not with the parser, which `beam --help` needs alone
    )
    from groundtrace.publishing.rewards.server import Bounds
    from groundtrace.publishing.rewards.settings import load_reward_settings

    datasets.disable_progress_bars()
    token = os.environ.get(TOKEN_VARIABLE, "")
    check_address(parsed.host, bool(token), parsed.allow_remote)
    settings = load_reward_settings(parsed.config)
    reward = RowReward(settings, runs_named(parsed.data), fails_fast=True)
    bounds = Bounds(parsed.max_batch, parsed.max_scoring, parsed.max_waiting, parsed.timeout_s)
    rows = 0
    for name in reward.runs:
        found, note = reward.open_run(name)
        rows += found
        if note:
            say(f"beam: {name}: {note}", file=sys.stderr)
    try:
        reward.check_endpoints()
    except NotServed as error:
        if not (parsed.allow_unready and error.can_wait):
            hint = ", or add --allow-unready to wait for it" if error.can_wait else ""
            raise ServeError(f"{error}{hint}") from error
        say(f"beam: not ready: {error}", file=sys.stderr)
    with stopped_by_signals() as stopped, http_loop() as on_loop:
        runner, address = on_loop(started(reward, rows, bounds, token, parsed.host, parsed.port))
        line = f"{reward.recipe.name} for {counted(rows, 'row')} of {counted(len(reward.runs), 'run')}"
        say(f"beam: serving {line} on {address}; Ctrl-C ends it", file=sys.stderr)
        stopped.wait()
        on_loop(runner.cleanup())
        reward.close()
    return 0


def runs_named(given: Sequence[str]) -> dict[str, Path]:
    """Return the absolute paths of the run folders that ``--data`` names, by name. A run folder holds training rows.

    ``given`` holds the values of ``--data``. Each value is either the path of a run folder, or ``NAME=RUN``, where RUN
    is this path and NAME is a name for the folder. If no name is given, the path is also the name. Raises ServeError if
    a path is not a folder, or if two folders have the same name.
    """
    found: dict[str, Path] = {}
    for each in given:
        name, equals, folder = each.partition("=")
        name, named = (name, folder) if equals and not Path(each).is_dir() else (each, each)
        path = local_copy(named)
        if not path.is_dir():
            raise ServeError(f"--data {each}: the folder {path} does not exist: name a run folder")
        if name in found:
            raise ServeError(f"two --data options have the name {name}: rename one of the two with --data NAME=RUN")
        found[name] = path.absolute()
    return found


def check_address(host: str, has_token: bool, allows_remote: bool) -> None:
    """Raise ServeError if other machines can reach the server without a token and without the user's permission.

    ``host`` is the address on which the server listens. Addresses of this machine only, such as ``127.0.0.1``, are
    always accepted. Any other address is accepted in two cases: ``has_token`` is True (clients must send a secret
    token), or ``allows_remote`` is True (the user has given ``--allow-remote``).
    """
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost" and not has_token and not allows_remote:
        raise ServeError(
            f"--host {host} accepts requests from other machines: set the environment variable {TOKEN_VARIABLE} for "
            "the server and the clients, or add --allow-remote if only trusted machines can reach this host"
        )


async def started(reward: Any, rows: int, bounds: Any, token: str, host: str, port: int) -> tuple[Any, str]:
    """Start the server on an address, and return its runner and its URL.

    The runner is the object of aiohttp by which the caller stops the server. The caller must run this coroutine on the
    event loop of :func:`http_loop`.

    Args:
        reward: The object that scores the responses.
        rows: The number of RL rows in the run folders that ``--data`` names; the server's path /health shows it.
        bounds: The limits for requests, such as the maximum number of responses in a request.
        token: The secret token that clients must send; "" if they need no token.
        host: The address to listen on.
        port: The port; 0 for any free port.

    Raises ServeError if the server cannot listen on the address.
    """
    from groundtrace.publishing.rewards.server import RewardServer, runner_of

    runner = runner_of(RewardServer(reward, rows, bounds, token).app(), ENDING_S)
    return runner, await listening(runner, host, port)
