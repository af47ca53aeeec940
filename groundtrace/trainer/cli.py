"""Defines the ``trainer`` command with its subcommands sft, grpo, eval, compare, export and tiny.

The exit code is:

- 0 if the command is done;
- 1 if the training failed (a loss that is not a number, too many steps without a gradient, a reward that rises while
  the accuracy falls, or another error), or if ``compare --fail-if-worse`` found a worse model;
- 2 for a mistake in the command, the config, the data or the model;
- 3 if the command stopped because a judge (a model server that the reward calls) or the sampling server did not answer;
- 129, 130 or 143 if it was stopped by SIGHUP (a closed terminal), SIGINT (Ctrl-C) or SIGTERM.

A training saves its last complete step before it exits. A training on several GPUs has the exit code of the process
that failed first, which is 137 if it was killed by SIGKILL.
"""

import argparse
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.config.extras import MissingExtra, require_extra
from groundtrace.schemas.errors import UserError

_VERBOSE = "show the logs of the libraries, and tracebacks"
_EXAMPLES = """examples:
  trainer grpo --config ivgr --data runs/q --output runs/ivgr --set model.path=runs/sft/model
  trainer sft  --config sft.toml  --data runs/q --output runs/sft
  trainer grpo --config grpo.toml --data runs/q --output runs/grpo --set model.path=runs/sft/model
  trainer eval --config grpo.toml --data data/sample --output runs/eval --set model.path=runs/grpo/model
  trainer sft  --config sft.toml  --data runs/q --output runs/sft --gpus 8
  trainer grpo --config ivgr --estimate
  trainer compare runs/eval-base runs/eval-sft runs/eval-grpo
  trainer export runs/grpo/checkpoints/step-000150 runs/grpo-150 --model runs/sft/model
  trainer tiny runs/tiny/model --data runs/q
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``trainer`` command and return its exit code: 0 if the command succeeded, else the code of the failure.

    ``argv`` holds the command's arguments, e.g. ``["sft", "--config", …]``; None means those of this process. Ctrl-C is
    reported in one line, also in the first seconds, while torch is imported.
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:  # later, `dispatch` handles it
        print("trainer: stopped by SIGINT before the work began: run the same command again", file=sys.stderr)
        return 128 + signal.SIGINT


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    parsed = parser.parse_args(argv)
    if parsed.command in ("sft", "grpo") and parsed.gpus < 1:
        parser.error(f"argument --gpus: must be at least 1, got {parsed.gpus}")
    if parsed.command == "tiny" and not -(2**63) <= parsed.seed < 2**63:
        parser.error(f"argument --seed: must be a number of at most 63 bits, got {parsed.seed}")
    check_folders(parser, parsed)
    logging.basicConfig(level=logging.INFO if parsed.verbose else logging.ERROR, format="%(name)s: %(message)s")
    warnings.filterwarnings("ignore", category=FutureWarning)
    if parsed.command == "compare":
        return _compare(parsed)
    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        message = f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the trainer starts its processes itself: start it"
        print(f"trainer: {message} without torchrun and similar launchers, with --gpus", file=sys.stderr)
        return 2
    try:
        require_extra("train", f"trainer {parsed.command}", "torch", "torchvision", "transformers")
    except MissingExtra as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 2
    from groundtrace.trainer.commands import dispatch

    return dispatch(parsed)


def _compare(parsed: argparse.Namespace) -> int:
    """Print the comparison of several evaluations, and return the exit code of the command.

    ``parsed`` holds the command's arguments. The exit code is 2 if the evaluations cannot be compared. It is 1 if
    ``--fail-if-worse`` is given and an evaluation is worse than the first. Otherwise, it is 0. The comparison does not
    need optional packages. For example, torch need not be installed.
    """
    from groundtrace.trainer.evaluation.compare import compare, comparison_json, comparison_lines, read_evaluation

    try:
        found = compare([read_evaluation(each) for each in (parsed.first, *parsed.others)], parsed.shared)
    except UserError as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 2
    print(comparison_json(found) if parsed.json else "\n".join(comparison_lines(found)))
    return int(parsed.fail_if_worse and found.is_worse)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the ``trainer`` command's arguments."""
    parser = argparse.ArgumentParser(
        prog="trainer",
        description="Train a vision-language model on the shards of a run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--verbose", action="store_true", help=_VERBOSE)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_sft_grpo_eval(commands)
    _add_compare(commands)
    command = commands.add_parser("export", help="turn a checkpoint into a plain model folder", allow_abbrev=False)
    command.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a step's folder in OUT/checkpoints")
    command.add_argument("out", type=Path, metavar="OUT", help="the model's folder; it must be empty or missing")
    command.add_argument(
        "--model",
        metavar="PATH",
        help="the base model of the training, a folder or a Hub id; may be left out if it is a Hub id, or in the "
        "training's output folder",
    )
    _add_tiny(commands)
    for each in commands.choices.values():  # suppressed: the default would undo a --verbose before the command
        each.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help=_VERBOSE)
    return parser


def _add_sft_grpo_eval(commands: Any) -> None:
    for name, does in (
        ("sft", "supervised fine-tuning on a run's sft/ shards"),
        ("grpo", "reinforcement learning on a run's rl/ shards, rewarded by the verifier"),
        ("eval", "sample answers to a run's rl/ shards, or to a folder with records.jsonl, and score them"),
    ):
        command = commands.add_parser(name, help=does, allow_abbrev=False)
        command.add_argument(
            "--config",
            required=True,
            metavar="FILE",
            help="a TOML config, or argos, sail_rl, ivgr, ivgr-32b, rucl, codedance or tiny; NAME-lora (adapters, one "
            "GPU) and NAME-small (a model of 2B, one GPU) for each paper",
        )
        read = "a run folder or its URL, or its shards" + (", or a folder with records.jsonl" if name == "eval" else "")
        command.add_argument("--data", metavar="RUN", help=read)
        again = "only the same evaluation replaces one in it" if name == "eval" else "else resumed"
        command.add_argument("--output", type=Path, metavar="OUT", help=f"created if missing, {again}")
        command.add_argument(
            "--set", action="append", default=[], metavar="a.b=c", dest="overrides", help="override one key"
        )
        if name != "eval":
            command.add_argument(
                "--gpus", type=int, default=1, metavar="N", help="train on N GPUs of this machine (default: one)"
            )
        if name == "eval":
            command.add_argument(
                "--crops",
                action="append_const",
                const="eval.crops=true",
                dest="overrides",
                help="answer twice: with crops of the boxes from a first pass, and without",
            )
        else:
            command.add_argument(
                "--estimate",
                action="store_true",
                help="only show the memory that the config needs on 1, 2, 4 and 8 GPUs, without --data and --output",
            )


def _add_compare(commands: Any) -> None:
    command = commands.add_parser(
        "compare", help="compare evaluations of the same questions, with paired differences", allow_abbrev=False
    )
    command.add_argument("first", metavar="EVAL", help="the output folder of the evaluation to compare with")
    command.add_argument("others", nargs="+", metavar="EVAL", help="those of further evaluations")
    command.add_argument(
        "--shared", action="store_true", help="compare only the questions that all have, if some have others, too"
    )
    command.add_argument("--json", action="store_true", help="print the comparison as JSON")
    command.add_argument(
        "--fail-if-worse",
        action="store_true",
        help="exit with code 1 if a model is worse than the first, i.e. if the whole 95 %% interval of its difference "
        "in accuracy is below 0",
    )


def _add_tiny(commands: Any) -> None:
    command = commands.add_parser(
        "tiny", help="make a model of random weights that is small enough to train on a laptop", allow_abbrev=False
    )
    command.add_argument("out", type=Path, metavar="OUT", help="the model's folder; it must be empty or missing")
    command.add_argument("--data", required=True, metavar="RUN", help="the run whose rows the tokenizer is made for")
    command.add_argument("--seed", type=int, default=0, help="the seed of the weights (default: 0)")
    command.add_argument(
        "--image-side",
        type=int,
        default=64,
        metavar="PX",
        help="larger images are shrunk to the area of a square of this side, at least 32 (default: 64)",
    )


def check_folders(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Check that ``--data`` and ``--output`` are given for the commands that need them. Exit with code 2 if not.

    ``parsed`` holds the arguments as ``parser`` parsed them. The commands ``compare``, ``export`` and ``tiny`` are not
    checked. Special case: ``--estimate`` reads only the config. With this option, the process exits with code 2 if
    ``--data`` or ``--output`` is given, or if ``--gpus`` is above 1.
    """
    if parsed.command in ("compare", "export", "tiny"):
        return
    given = {"--data": parsed.data, "--output": parsed.output}
    if getattr(parsed, "estimate", False):
        if extra := [name for name, value in given.items() if value is not None]:
            parser.error(f"--estimate reads only the config: leave {' and '.join(extra)} out")
        if parsed.gpus > 1:
            parser.error("--estimate shows 1, 2, 4 and 8 GPUs, and the number in machine.gpus: leave --gpus out")
    elif missing := [name for name, value in given.items() if value is None]:
        parser.error(f"the following arguments are required: {', '.join(missing)}")


if __name__ == "__main__":
    sys.exit(main())
