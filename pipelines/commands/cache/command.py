"""Implements ``beam cache``: parses its arguments, and calls the function of the action (stats, prune or export)."""

import argparse
import sqlite3
from collections.abc import Sequence
from typing import Any

EXAMPLES = """examples:
  beam cache stats runs/sample
  beam cache prune runs/sample --older-than 30d --model old-model --dry-run
  beam cache export runs/sample --to replies.parquet
"""


def add_cache_parser(commands: Any) -> None:
    """Add the subcommand ``cache``, with its actions, to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    cache = commands.add_parser(
        "cache",
        help="look into a reply cache, prune or export it",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = cache.add_subparsers(dest="action", required=True, metavar="ACTION")
    stats = actions.add_parser("stats", help="what the cache holds", allow_abbrev=False)
    prune = actions.add_parser("prune", help="drop the replies that match all given filters", allow_abbrev=False)
    export = actions.add_parser("export", help="write one row for each reply", allow_abbrev=False)
    for action in (stats, prune, export):
        action.add_argument("cache", metavar="CACHE_OR_RUN", help="a run, its cache folder or file, or a location")
        action.add_argument(
            "--verbose", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
        )
    prune.add_argument("--older-than", metavar="AGE", help="such as 30d, 12h or 2w")
    prune.add_argument("--model", metavar="M", help="replies of this model")
    prune.add_argument("--prompt", metavar="P", help="replies to this prompt, such as judge_answer.v3")
    prune.add_argument("--truncated", action="store_true", help="replies that were cut off at max_tokens")
    prune.add_argument("--dry-run", action="store_true", help="print the number of replies, drop none")
    export.add_argument("--to", required=True, metavar="FILE", help="a .jsonl or .parquet file")


def run_cache(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Run the requested action of ``beam cache`` (stats, prune or export), and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises
    :class:`groundtrace.pipelines.commands.cache.places.CacheCommandError` for a user's mistake, and for a cache that
    cannot be read or is damaged.
    """
    from groundtrace.inference.cache.index import Damaged  # not with the parser, which `beam --help` needs alone
    from groundtrace.pipelines.commands.cache.places import failure_of

    try:
        return _act(parsed)
    except (OSError, sqlite3.Error, Damaged) as error:
        raise failure_of(parsed.cache, error) from error


def _act(parsed: argparse.Namespace) -> int:
    """Import the module of the requested action, and run the action.

    So an action loads only its own dependencies, such as Parquet for export.
    """
    if parsed.action == "stats":
        from groundtrace.pipelines.commands.cache.stats import print_stats

        return print_stats(parsed.cache)
    if parsed.action == "prune":
        from groundtrace.pipelines.commands.cache.prune import prune

        return prune(parsed)
    from groundtrace.pipelines.commands.cache.export import export

    return export(parsed.cache, parsed.to)
