"""Implements ``beam publish``, which publishes a finished run as a data set on the Hugging Face Hub."""

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shtab

from groundtrace.schemas.text import counted, say
from groundtrace.storage.mirror import local_copy

if TYPE_CHECKING:
    from groundtrace.publishing.hub.prepare import Prepared


def add_publish_parser(commands: Any) -> None:
    """Add the subcommand ``publish`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    parser = commands.add_parser("publish", help="send a finished run to the Hugging Face Hub", allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="a run folder").complete = shtab.DIRECTORY
    parser.add_argument("--repo", required=True, metavar="ORG/NAME", help="the data set's repository; made if missing")
    parser.add_argument("--dry-run", action="store_true", help="check everything here and list the files; send nothing")
    parser.add_argument("--card", metavar="FILE", help="also write the data card to this file, to read it before")
    parser.add_argument(
        "--public",
        action="store_true",
        help="publish to a public repository; a new one is made public (default: private)",
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace another data set in the repository; its tag stays"
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="extras",
        choices=("rejected", "rubrics", "audit"),
        help="also publish these: rejected records and rubrics as configs, the result of the audit on the data card",
    )
    parser.add_argument(
        "--include-source",
        action="append",
        default=[],
        metavar="NAME",
        help="publish the rows of this source although their licence does not say that they may be shared",
    )
    parser.add_argument(
        "--without-flagged", action="store_true", help="leave out rows whose record is flagged in `beam view`"
    )
    parser.add_argument(
        "--staging", metavar="FOLDER", help="the folder for temporary copies (default: the system's temporary folder)"
    )


def run_publish(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Publish a run on the Hugging Face Hub, and return the exit code, which is 0.

    With ``--dry-run``, the files are only prepared and listed, and nothing is sent. ``parsed`` holds the parsed
    arguments of the command line. The second argument is not used.

    Raises :class:`groundtrace.publishing.hub.errors.PublishError` if the run cannot be published,
    :class:`groundtrace.publishing.hub.errors.HubDown` if the Hub is unreachable, and
    :class:`groundtrace.publishing.reading.InspectError` if the run cannot be read.
    """
    from groundtrace.pipelines.running.execute.interrupts import stopped_like_an_interrupt
    from groundtrace.pipelines.running.plan.local_run import LocalRun
    from groundtrace.publishing.hub.prepare import prepare
    from groundtrace.publishing.hub.upload import check_name, send
    from groundtrace.publishing.reading import read_summary

    check_name(parsed.repo)
    run = local_copy(parsed.run)
    read_summary(run, checked=False)  # only a folder with a run is locked; `prepare` checks its files
    place = parsed.staging or tempfile.gettempdir()
    with stopped_like_an_interrupt(), LocalRun(run).locked(), ExitStack() as held:
        with converting_write_errors(place):
            staging = held.enter_context(tempfile.TemporaryDirectory(prefix="groundtrace-", dir=place))
            prepared = prepare(
                run, Path(staging), parsed.repo, parsed.extras, parsed.include_source, parsed.without_flagged
            )
        say(*summary_lines(prepared))
        if parsed.card:
            with converting_write_errors(parsed.card):
                shutil.copyfile(Path(staging) / "README.md", parsed.card)
            say(f"data card: {parsed.card}")
        if parsed.dry_run:
            say(f"dry run: nothing was sent to {parsed.repo}")
            return 0
        sent = send(prepared, parsed.repo, public=parsed.public, replace=parsed.replace, report=say)
    verb = "published" if sent.is_new else "already published, nothing was sent:"
    say(f"{verb} {sent.url} at the tag {sent.tag}")
    return 0


@contextmanager
def converting_write_errors(place: str) -> Iterator[None]:
    """Raise PublishError, with a remedy, if the body of the ``with`` statement raises an OSError.

    The message names the file that the OSError names. If the OSError names no file, the message names ``place``, the
    folder or file to which the body writes.
    """
    from groundtrace.publishing.hub.errors import PublishError

    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise PublishError(
            f"{where} cannot be written ({error.strerror or error}): name another folder for temporary copies with "
            "--staging"
        ) from error


def summary_lines(prepared: "Prepared") -> list[str]:
    """Return lines of text that describe a data set before it is published.

    ``prepared`` is the data set with its files. The lines are, in this order:

    - A line for each source, with its licence, its numbers of rows, and whether these rows are published.
    - A line with the columns that the run copied from its input, if there are any.
    - A line with the numbers of rows whose records a reviewer flagged in ``beam view``, if there are any. If the user
      requested it, these rows are left out; otherwise they are published. If they are left out, and some flags were set
      on another version of their row (with another trace, or in another output set), a further line states the number
      of these flags.
    - A line with the number of judged traces if the result of an audit is published. In an audit, a person judges
      traces of the run. If some traces of the audit were not judged, the line is a warning.
    - A line for each file, with its size.
    - A line with the number and the total size of the files, the numbers of published rows, the tag of the data set,
      and the digest of the run's config, code and training rows.
    """
    from groundtrace.publishing.hub.upload import mb
    from groundtrace.publishing.view.reviews import flags_hint, outdated_hint

    lines = []
    for use in prepared.uses:
        how = "published" if use.is_published else "left out"
        why = "requested" if use.asked and not use.terms.may_be_published else use.terms.text
        rows = ", ".join(f"{count} {side}" for side, count in use.rows.items())
        remedy = "" if use.is_published else f"; --include-source {use.source!r} publishes them anyway"
        lines.append(f"{how}: {use.source or 'no source'} ({use.licence or 'no licence'}): {rows}; {why}{remedy}")
    if prepared.kept_columns:
        lines.append(f"also published, from your input (input.keep): {', '.join(prepared.kept_columns)}")
    if prepared.flagged.are_left_out:
        lines.append(f"left out, because their records are flagged in `beam view`: {prepared.flagged.text}")
        if prepared.flagged.outdated:
            lines.append(outdated_hint(prepared.flagged.outdated))
    elif prepared.flagged.total:
        lines.append(flags_hint(prepared.flagged.total))
    if prepared.audit is not None and prepared.audit.open:
        lines.append(
            f"warning: {prepared.audit.open} of the {counted(prepared.audit.sample, 'trace')} of the audit were not "
            "judged, so the intervals on the data card are wider than planned"
        )
    elif prepared.audit is not None:
        lines.append(
            f"the data card has the audit, in which all of {counted(prepared.audit.sample, 'trace')} were judged"
        )
    lines += [f"  {name}  {mb(prepared.size_bytes(name))}" for name in prepared.files]
    total = mb(sum(map(prepared.size_bytes, prepared.files)))
    rows = ", ".join(f"{rows} {name}" for name, rows in prepared.rows.items())
    digests = f"tag {prepared.tag}, run {prepared.run_sha256}"
    return [*lines, f"{counted(len(prepared.files), 'file')}, {total}; rows: {rows}; {digests}"]
