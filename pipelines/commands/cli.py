"""Implements the ``beam`` command, with all its subcommands.

The exit codes are:

- 0: The command succeeded.
- 1: The run failed: records were lost or written twice, or an error occurred.
- 2: The user has to change something first: the command, the config, the input, or an endpoint (a model server) that
  refuses requests or mostly fails. The code is also 2 if a run kept no rows and would replace a run that has rows.
- 3: A server is unreachable, a disk is full or a worker was killed. The same command resumes the run.
- 130: The run was interrupted. The same command resumes the run.
- 141: The output pipe was closed.

If a run ends with an exit code other than 0, the old outputs in its folder are unchanged.
"""

import argparse
import contextlib
import difflib
import logging
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, NoReturn
from urllib.parse import quote

import shtab

from groundtrace.pipelines.commands.cache.command import add_cache_parser
from groundtrace.pipelines.commands.dispatch import COMMANDS, PLANNED, RESUMED, dispatch
from groundtrace.pipelines.commands.export import add_export_parser
from groundtrace.pipelines.commands.loop import add_loop_parser
from groundtrace.pipelines.commands.publish import add_publish_parser
from groundtrace.pipelines.commands.sandbox import add_sandbox_parser
from groundtrace.pipelines.commands.serve_reward import add_serve_reward_parser
from groundtrace.pipelines.commands.streams import written_out
from groundtrace.pipelines.commands.view import add_view_parser
from groundtrace.pipelines.running.beam_logs import BEAM, HIDDEN_BELOW, is_shown
from groundtrace.pipelines.running.endings import ending_of, is_interrupt, line_of
from groundtrace.schemas.text import printable, say

NAMESAKES = ("beam", "beam-client")
VERBOSE = "show the log of Beam and the stages, and the traceback of an error"
DATA = "a .csv, .jsonl, .json or .parquet file, a folder with records.jsonl, or a data set id"
_NO_OPTIONS = (
    "no option follows `--`: leave out `--` to run on this machine; if $(…) should give the options, its command "
    "failed or printed none"
)
_FILTERS = {
    "id": "SELECT id, question, answer FROM sft",
    "reason": "SELECT id, question, detail FROM rejected",
    "stage": "SELECT id, reason, detail FROM rejected",
}
"""Columns that users may write as options of ``beam inspect``, each with the first part of a query that has it."""
_EXAMPLES = """examples:
  beam init questions.csv --output my.toml
  beam run pipelines/grounded_cot.py --input data/sample --output runs/sample
  beam run pipelines/grounded_cot.py --input questions.parquet --output runs/q --set difficulty.high=0.8
  beam run pipelines/grounded_cot.py --input data/sample --output runs/sample -- --direct_num_workers=2
  beam run pipelines/grounded_cot.py --input questions.parquet --output runs/q --target-sft 1000 --budget-usd 20
  beam preview pipelines/grounded_cot.py --input data/sample --output runs/look
  beam validate pipelines/grounded_cot.py --input data/sample --config my.toml
  beam config > my.toml
  beam inspect runs/sample
  beam view runs/sample
  beam diff runs/before runs/after --ids changed.jsonl
  beam inspect runs/before runs/after --sql "SELECT id, b.reason FROM a.sft a JOIN b.rejected b USING (id)"
  beam export runs/sample --format trl --family qwen3-vl --output exports/trl
  beam inspect runs/sample --sql "SELECT reason, count(*) FROM rejected GROUP BY 1 ORDER BY 2 DESC"
  beam cache stats runs/sample
  beam cache prune runs/sample --older-than 30d --dry-run
  beam cache export runs/sample --to replies.parquet
  beam serve-reward --config argos --data runs/sample
  beam loop grounded_cot --input questions.csv --model Qwen/Qwen3-VL-2B-Instruct --output runs/loop --config loop.toml
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of ``beam``, and return the exit code. The module's docstring lists the exit codes.

    ``argv`` holds the arguments after the word ``beam``; None means the arguments of this process. The arguments after
    ``--`` are options for Beam. After an interrupt (such as Ctrl-C), one line is printed, and the exit code is
    returned. With ``--verbose``, an error that may be a defect of Groundtrace is raised.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    beam_options: list[str] | None = None
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, beam_options = arguments[:cut], arguments[cut + 1 :]
    verbose = "--verbose" in arguments
    set_up_logging(verbose)
    try:
        with written_out():
            return _run_command(arguments, beam_options)
    except BaseException as error:
        if not is_interrupt(error):
            raise
        line = line_of(error)
        if not any(word in RESUMED for word in arguments[:2]):
            line = line.replace(" to resume", "")
        with contextlib.suppress(OSError):  # the terminal may be closed, which also stops the command
            say(f"beam: {line}", file=sys.stderr)
        return ending_of(error).code


def set_up_logging(verbose: bool) -> None:
    """Set the levels of the log messages that are shown.

    If ``verbose`` is True, messages of level INFO and above are shown. Otherwise only these are shown: warnings of
    Groundtrace, critical errors of Beam, and errors of other packages. In this case, Beam's own log message on a failed
    job of an engine (such as Spark) is hidden, because the command prints this error in one line.
    """
    logging.getLogger().setLevel(logging.INFO if verbose else logging.ERROR)
    logging.getLogger(BEAM).setLevel(logging.INFO if verbose else HIDDEN_BELOW)
    logging.getLogger("groundtrace").setLevel(logging.INFO if verbose else logging.WARNING)
    root = logging.getLogger()
    if verbose:
        root.removeFilter(is_shown)
    else:
        root.addFilter(is_shown)


def _run_command(arguments: Sequence[str], beam_options: Sequence[str] | None) -> int:
    """Parse the command line, run the command that it names, and return the exit code.

    ``arguments`` are the arguments before ``--``. ``beam_options`` are the arguments after ``--``; None if the command
    line has no ``--``.
    """
    parsed = _parse(arguments)
    if beam_options and parsed.command not in PLANNED:
        text = f"`beam {parsed.command}` has no options of Beam: write its own options before ` -- `"
        say(f"beam: {text}; see `beam {parsed.command} --help`", file=sys.stderr)
        return 2
    if beam_options is not None and not any(option.strip() for option in beam_options):
        say(f"beam: {_NO_OPTIONS}", file=sys.stderr)
        return 2
    for name in namesakes():
        print(f"beam: the package {name} has a `beam` command too; uninstall it if the wrong one runs", file=sys.stderr)
    warnings.filterwarnings("ignore", category=FutureWarning)
    return dispatch(parsed, beam_options or ())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments before ``--``. Unknown arguments are refused by the parser of the given subcommand."""
    parser = make_parser()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        [commands] = (action.choices for action in parser._actions if isinstance(action.choices, dict))
        commands[parsed.command].error(f"unrecognized arguments: {printable(' '.join(unknown))}")
    return parsed


def namesakes(names: Sequence[str] = NAMESAKES) -> list[str]:
    """Return the names of the installed packages that also have a ``beam`` command.

    Users may confuse the command of such a package with this one. ``names`` are the names of the packages to look for.
    The result is empty if none of them is installed.
    """
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found.append(distribution(name).metadata["Name"])
    return found


class _Parser(argparse.ArgumentParser):
    """Parses the command line. Its error messages are one line with a remedy."""

    def error(self, message: str) -> NoReturn:
        advice = _advice(message) or self._advice_on_option(message)
        self.exit(2, f"beam: {printable(message)}{advice}; see `{self.prog} --help`\n")

    def _advice_on_option(self, message: str) -> str:
        """Return the remedy for an unknown option; "" for another error, or if no remedy is known.

        If the command has a similar option, the remedy names this option. Otherwise, if the command accepts options of
        Beam, the remedy states where to write these options.
        """
        if not message.startswith("unrecognized arguments: --"):
            return ""
        word = message.split()[2].partition("=")[0]
        if near := difflib.get_close_matches(word, self._option_string_actions, n=1):
            return f": did you mean {near[0]}?"
        return ": options of Beam come last, behind ` -- `" if self.prog.split()[-1] in PLANNED else ""


class _Renamed(argparse.Action):
    """Refuses a command line option that was renamed; argparse's ``const`` holds the new name."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"{self.option_strings[0]} is now {self.const}: rename the option")


class _NoFilter(argparse.Action):
    """Refuses a command line option that users of ``beam inspect`` may expect, because the command filters rows only by
    a query. The error has such a query, and the option of ``beam view`` that shows the same rows. Argparse's ``const``
    is the first part of the query.
    """

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, *__: Any) -> NoReturn:
        column, value = self.dest, str(values)
        text = value.replace("'", "''")
        query = f"{self.const} WHERE {column} = '{text}'"
        quoted = shlex.quote(query) if set('"$`\\!') & set(query) else f'"{query}"'
        at = shlex.quote(f"{column}={quote(value)}")
        parser.error(
            f"--{column} is not an option of this command: choose rows with --sql {quoted}, or see them with `beam "
            f"view RUN --at {at}`"
        )


def _advice(message: str) -> str:
    """Return the remedy for an error of the parser; "" if no remedy is known or the message already contains it."""
    if word := re.search(r"argument COMMAND: invalid choice: '(.*?)'", message):
        near = difflib.get_close_matches(word[1], COMMANDS, n=1)
        if near:
            return f": did you mean {near[0]}?"
        return f": a command comes first, such as `beam run {word[1]} --input DATA --output RUN`"
    if message.startswith("unrecognized arguments: "):
        first = message.split()[2]
        if not first.startswith("-"):
            return ": write a setting as key=value, as in --set trace.n=4, and give the input with --input"
    if message == "argument --set: expected one argument":
        return " of the form key=value, such as --set trace.n=4"
    if "--input" in message and "required" in message:
        return " (DATA is a .csv, .jsonl, .json or .parquet file, or a folder with records.jsonl)"
    return ""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the ``beam`` command with all its subcommands. It parses the arguments before ``--``."""
    parser = _Parser(
        prog="beam",
        description="Turn image questions into verified, visually grounded reasoning data.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--verbose", action="store_true", help=VERBOSE)
    parser.add_argument("--version", action="version", version=f"groundtrace {version('groundtrace')}")
    shtab.add_argument_to(parser, "--print-completion", help="print a completion script for this shell and end")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_preview(commands)
    validate = commands.add_parser(
        "validate", help="check config, input, prompts and endpoints; generate nothing", allow_abbrev=False
    )
    _add_pipeline(validate)
    _add_init(commands)
    _add_inspect(commands)
    _add_diff(commands)
    add_view_parser(commands)
    add_export_parser(commands)
    add_publish_parser(commands)
    config = commands.add_parser("config", help="print every setting with its default and meaning", allow_abbrev=False)
    _add_pipeline_name(config, nargs="?", default="grounded_cot")
    add_cache_parser(commands)
    add_serve_reward_parser(commands)
    add_sandbox_parser(commands)
    add_loop_parser(commands)
    for command in commands.choices.values():  # suppressed: the default would undo a --verbose before the command
        command.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser("run", help="run a pipeline over an input", allow_abbrev=False)
    _add_pipeline(run)
    run.add_argument(
        "--output",
        required=True,
        metavar="RUN",
        help="the run folder; created if missing, resumed if it belongs to this input",
    )
    run.add_argument("--limit", type=int, metavar="N", help="read only the first N records")
    run.add_argument(
        "--target-sft",
        type=int,
        metavar="N",
        help="draw questions in waves, ordered by a hash of their ids, until exactly N SFT rows are kept",
    )
    _add_budget(run)
    _add_replies(run)
    run.add_argument(
        "--resume",
        choices=("auto", "never"),
        default="auto",
        help="never: replace the outputs of another input, or of more records; cached replies are used as always",
    )
    _add_replace(run)


def _add_preview(commands: Any) -> None:
    preview = commands.add_parser(
        "preview", help="run 10 records end to end and forecast the whole", allow_abbrev=False
    )
    _add_pipeline(preview)
    preview.add_argument("--output", required=True, metavar="RUN", help="the run folder of the preview")
    preview.add_argument(
        "--limit", type=int, default=10, metavar="N", help="read only the first N records (default 10)"
    )
    preview.add_argument("--records", action=_Renamed, const="--limit", help=argparse.SUPPRESS)
    preview.add_argument(
        "--workers",
        action="store_true",
        help="also forecast the hours of workers; by default only for remote workers",
    )
    _add_budget(preview)
    _add_replies(preview)
    _add_replace(preview)


def _add_init(commands: Any) -> None:
    init = commands.add_parser("init", help="write a config to start from, for an input", allow_abbrev=False)
    init.add_argument("input", metavar="DATA", help=DATA)
    init.add_argument("--output", metavar="FILE", help="the TOML file to write; without it the config is printed")
    init.add_argument(
        "--embedded",
        action="store_true",
        help="leave out the model server: the embedded engine, which reads drawn shapes only, has all roles",
    )


def _add_inspect(commands: Any) -> None:
    inspect = commands.add_parser("inspect", help="look into a finished run", allow_abbrev=False)
    inspect.add_argument("runs", nargs="+", metavar="RUN", help="a run folder; several only with --sql")
    inspect.add_argument(
        "--sql",
        help="a query over the tables sft, rl, rejected, verdicts, marks, judgements and runs; for several runs, over "
        "a.sft, b.sft …",
    )
    for column, query in _FILTERS.items():
        inspect.add_argument(
            f"--{column}", action=_NoFilter, const=query, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    written = inspect.add_mutually_exclusive_group()
    written.add_argument(
        "--json", action="store_true", help="for programs: all figures, or the rows of a query, one per line"
    )
    written.add_argument("--csv", action="store_true", help="for programs: the rows of --sql as CSV, not shortened")


def _add_diff(commands: Any) -> None:
    diff = commands.add_parser("diff", help="compare two finished runs", allow_abbrev=False)
    diff.add_argument("first", metavar="RUN_A", help="a run folder")
    diff.add_argument("second", metavar="RUN_B", help="another one")
    listed = diff.add_mutually_exclusive_group()
    listed.add_argument(
        "--limit", type=int, metavar="N", help="list at most N ids that changed side (default 20; 200 with --html)"
    )
    listed.add_argument("--all", action="store_true", help="list all ids that changed side")
    diff.add_argument("--ids", metavar="FILE", help="write all ids that changed side to this file, as JSON Lines")
    diff.add_argument("--settings", action="store_true", help="also show the settings that are folded into one line")
    diff.add_argument("--html", metavar="FILE", help="write the comparison as one self-contained page instead")


def _add_replace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replace",
        action="store_true",
        help="let a run that keeps no rows replace a finished run that has rows (which moves to RUN/previous)",
    )


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget-usd",
        type=float,
        metavar="X",
        help="stop calling models when X US dollars are spent",
    )
    parser.add_argument(
        "--budget-tokens", type=int, metavar="N", help="stop calling models when N tokens (input and output) are used"
    )


def _add_replies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", metavar="FOLDER", help="keep replies here instead of in RUN/cache")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="ignore all replies from before this command; if the run does not finish, repeat the command to continue",
    )


def _add_pipeline_name(parser: argparse.ArgumentParser, **settings: Any) -> None:
    named = parser.add_argument(
        "pipeline", help="a bundled pipeline's name, or a pipeline file of your own", **settings
    )
    named.complete = shtab.FILE  # type: ignore[attr-defined]


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    _add_pipeline_name(parser)
    parser.add_argument("--input", required=True, metavar="DATA", help=DATA)
    parser.add_argument("--config", metavar="FILE", help="a TOML config; without it the embedded engine has every role")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", dest="overrides", help="override one key of the config"
    )


if __name__ == "__main__":
    sys.exit(main())
