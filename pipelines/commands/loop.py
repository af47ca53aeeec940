"""Implements ``beam loop``, one command that makes a trained model from questions, and that can be resumed.

The command curates SFT rows, trains by SFT, measures the pass rates of the trained model, trains by GRPO, and evaluates
the models.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import shtab

from groundtrace.config.extras import require_extra
from groundtrace.pipelines.running.execute.interrupts import stopped_like_an_interrupt
from groundtrace.schemas.text import say
from groundtrace.storage.files import locked

EXAMPLES = """examples:
  beam loop grounded_cot --input questions.csv --model Qwen/Qwen3-VL-2B-Instruct --output runs/loop --config loop.toml
  beam loop grounded_cot --input runs/scenes --model tiny --output runs/loop --config benchmarks/learning/loop.toml
"""


def add_loop_parser(commands: Any) -> None:
    """Add the subcommand ``loop`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    parser = commands.add_parser(
        "loop",
        help="curate, train by SFT and GRPO, and evaluate; resumable",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    recipe = parser.add_argument("pipeline", help="a bundled pipeline's name, or a pipeline file of your own")
    recipe.complete = shtab.FILE  # type: ignore[attr-defined]
    parser.add_argument("--input", required=True, metavar="DATA", help="the questions, as for `beam run`")
    parser.add_argument(
        "--model", required=True, metavar="MODEL", help="a model folder or Hub id, or tiny: a model of random weights"
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="OUT", help="created if missing, else the same command goes on"
    )
    parser.add_argument("--config", metavar="FILE", help="the loop's TOML config (docs/loop.md)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", dest="overrides", help="override one key of the config"
    )


def run_loop_command(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Run all unfinished steps of a loop (curation, training, evaluation), print the results, and return the exit code.

    The exit code is 0 if all steps are done. If a step fails, the exit code is that of the step, or 3 if a signal ended
    the step. ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises
    UserError for a mistake in the command or in a config, and for missing packages.
    """
    require_extra("train", "beam loop", "torch", "torchvision", "transformers")
    from groundtrace.pipelines.loop.run import described, make_loop, run_loop
    from groundtrace.pipelines.loop.settings import load_loop
    from groundtrace.pipelines.loop.stop import StepFailed
    from groundtrace.pipelines.loop.story import read_story, story_lines

    settings = load_loop(parsed.config, tuple(parsed.overrides))
    with stopped_like_an_interrupt(), locked(parsed.output):
        loop, division = make_loop(parsed.pipeline, parsed.input, parsed.model, parsed.output, settings)
        say(described(division), file=sys.stderr)
        try:
            page = run_loop(loop)
        except StepFailed as error:
            say(f"beam: {error}", file=sys.stderr)
            return error.code
        say(*story_lines(read_story(loop)), f"page: {page}")
    return 0
