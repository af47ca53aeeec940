"""Implements ``beam export``, which writes the training rows that a run of a pipeline made, in the format of another
trainer, such as verl.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import shtab

from groundtrace.publishing.exports.registry import FORMATS
from groundtrace.schemas.text import counted, say
from groundtrace.storage.mirror import local_copy


def add_export_parser(commands: Any) -> None:
    """Add the subcommand ``export`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    export = commands.add_parser("export", help="write a run's rows for another trainer", allow_abbrev=False)
    export.add_argument("run", metavar="RUN", help="a run folder").complete = shtab.DIRECTORY
    export.add_argument("--format", required=True, help=f"{', '.join(FORMATS.ours)}, or one of your own as module:NAME")
    export.add_argument("--output", required=True, metavar="FOLDER", help="the folder to write; it must not exist")
    export.add_argument(
        "--family",
        default="",
        metavar="NAME",
        help="the family of the model to train, such as qwen3-vl: coordinates are written in its frame; required if "
        "rows hold coordinates",
    )
    export.add_argument(
        "--run-at",
        default="",
        metavar="PATH",
        help="the path of the run folder at the time a reward reads it (default: its path now)",
    )
    for bound, what in (("max", "largest"), ("min", "smallest")):
        export.add_argument(
            f"--{bound}-pixels",
            type=int,
            metavar="N",
            help=f"pixels of the {what} image in training, for families that write pixels of the resized image",
        )
    export.add_argument(
        "--turns",
        choices=("tags", "tools"),
        default="tags",
        help="how trajectories with code are written: in the tags of the shards (the default), or as tool calls in the "
        "form of the trainer's chat template (llamafactory, swift, trl, verl)",
    )
    export.add_argument(
        "--only",
        choices=("sft", "rl"),
        default="",
        help="write only the rows of this set, if the format writes both (default: both)",
    )
    export.add_argument(
        "--without-flagged", action="store_true", help="leave out rows whose record is flagged in `beam view`"
    )
    export.add_argument("--replace", action="store_true", help="replace the export in FOLDER")


def run_export(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Write a run's training rows in the format of another trainer, and return the exit code, which is 0.

    The numbers of rows and the written files are printed. ``parsed`` holds the parsed arguments of the command line.
    The second argument is not used. Raises ExportError if the export is not possible, and InspectError if the run
    cannot be read.
    """
    from groundtrace.pipelines.running.execute.interrupts import stopped_like_an_interrupt
    from groundtrace.publishing.exports.export import ExportArguments, export_run
    from groundtrace.publishing.exports.sides import LEFT_OUT
    from groundtrace.publishing.view.reviews import flags_hint, outdated_hint

    request = ExportArguments(
        local_copy(parsed.run),
        parsed.format,
        Path(parsed.output),
        parsed.family,
        parsed.run_at,
        parsed.max_pixels,
        parsed.min_pixels,
        parsed.replace,
        parsed.turns,
        parsed.without_flagged,
        parsed.only,
    )
    with stopped_like_an_interrupt():  # partial output is removed
        done = export_run(request)
    for side, count in done.counts.items():
        asked = "" if count.prompts == count.written else f", as {count.prompts} prompts: one for each stream"
        say(f"{side}: {count.written} of {counted(count.read, 'row')} written{asked}")
        for reason, rows in count.left_out.most_common():
            say(f"  left out: {rows} for {reason} ({LEFT_OUT} lists them)")
    for side, names in done.unwritten.items():
        say(f"{side}: not written, because the format has no place for these columns: {', '.join(names)}")
    if outdated := sum(count.outdated for count in done.counts.values()):
        say(outdated_hint(outdated))
    if flagged := sum(count.flagged for count in done.counts.values()):
        say(flags_hint(flagged))
    say(f"{done.folder}: {', '.join(done.files)}")
    return 0
