"""Opens the run that ``beam view`` shows, and serves its page to a browser. If its files change, opens it again."""

import argparse
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web

from groundtrace.pipelines.commands.serving import ServeError, http_loop, stopped_by_signals
from groundtrace.pipelines.running.comparing import recipe_defaults
from groundtrace.pipelines.running.plan.loading import recipe_file
from groundtrace.publishing.comparison.setting_changes import setting_changes
from groundtrace.publishing.reading import FAILED_PAGE, InspectError, input_folder
from groundtrace.publishing.view.audit import Audit, open_audit
from groundtrace.publishing.view.filters import TAGS, TOKEN, BadFilter, Filters, read_filters
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.live import is_unfinished
from groundtrace.publishing.view.live_server import live_app
from groundtrace.publishing.view.other_run import OtherRun, compare
from groundtrace.publishing.view.reopening import Reopening
from groundtrace.publishing.view.replays import Replays
from groundtrace.publishing.view.reviews import Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.publishing.view.server import ViewServer, state_of
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, printable, say
from groundtrace.storage.mirror import local_copy
from groundtrace.vision.media import MediaStore

HOST = "127.0.0.1"
ENDING_S = 2.0
LOOK_EVERY_S = 0.2
PATIENCE = 5
"""If a changed run cannot be read, it is read again after this multiple of the time that the attempt took."""
MAX_VALUES = 20
"""The maximum number of values of a column that an error message names."""
MAX_ADDRESS_BYTES = 2**20
"""The maximum length of an address (URL) that a browser requests. It is large, because the address contains the id of a
record, which may be long."""


@dataclass(frozen=True)
class OpenedRows:
    """Holds the rows of a run with their images, and the marks (such as flags) that a person added to rows.

    ``run`` is the run folder. ``other`` is the second run; None if only one run is viewed.
    """

    run: Path
    rows: ViewedRows
    images: RowImages
    reviews: Reviews
    other: OtherRun | None

    def filters(self, at: str) -> Filters:
        """Return the filters in ``at``, the value of the option ``--at``. Raises InspectError for an unknown filter."""
        try:
            return read_filters(state_of(at), self.rows.dimensions)
        except BadFilter as error:
            raise InspectError(f"--at {at} cannot be used: {error}") from error

    def check_values(self, at: str) -> None:
        """Raise InspectError if ``at``, the value of the option ``--at``, has an unknown filter, or a value of a column
        that no row has. The message names the values that the column has.

        All values of the tags are accepted, because a reviewer may add and remove each tag at any time.
        """
        found = list[str]()
        for dimension, wanted in self.filters(at).classes.items():
            if dimension.name == TAGS:
                continue
            known = self.rows.values_of(dimension)
            if unused := [each for each in wanted if each not in known]:
                named = ", ".join(printable(f"{dimension.name}={each}") for each in unused)
                found.append(f"no row has {named}: {_listed(dimension.name, known)}")
        if found:
            raise InspectError(f"--at {printable(at)} cannot be used: {'; '.join(found)}")

    def close(self) -> None:
        """Close the tables with the rows, and the Parquet files of the run, so that memory and files are freed."""
        self.rows.close()
        self.images.close()
        if self.other:
            self.other.rows.close()


def _listed(name: str, known: Sequence[str]) -> str:
    """Return a text with the values ``known`` that the column ``name`` has, at most :data:`MAX_VALUES`."""
    values = [printable(each) or "(no value)" for each in known[:MAX_VALUES]]
    left = [f"and {len(known) - len(values)} more"] if len(known) > len(values) else []
    return f"{name} has the {'value' if len(known) == 1 else 'values'} {', '.join([*values, *left])}"


def open_rows(named: str, other: str | None) -> OpenedRows:
    """Read the rows of a run and, for a comparison, those of a second run.

    ``named`` and ``other`` are the paths or URLs of the runs; ``other`` is None if there is no second run. Raises
    :class:`groundtrace.schemas.errors.UserError` if a run cannot be read.
    """
    run = local_copy(named).absolute()
    rows = ViewedRows(run)
    second = None if other is None else _compared(run, rows, other)
    reviews = Reviews(run, is_copy="://" in named)
    rows.mark(reviews)
    images = RowImages(MediaStore(input_folder(rows.summary.input), str(run), cache_bytes=0))
    return OpenedRows(run, rows, images, reviews, second)


@dataclass(frozen=True)
class _Page:
    """Holds a page to serve.

    ``app`` is its application, and ``notes`` are lines for the user. ``is_current`` returns whether the run folder
    still holds the files that the page shows. ``close`` frees what the page holds.
    """

    app: web.Application
    notes: list[str]
    is_current: Callable[[], bool]
    close: Callable[[], None]


def serve(parsed: argparse.Namespace, cache: Path | None) -> None:
    """Serve the page of a run on this machine until the process receives a signal, and print its address at first.

    If the files of the run change, the run is opened again when the browser loads the page. The address stays.
    ``parsed`` holds the arguments of ``beam view``. ``cache`` is the folder of the reply cache; None for the cache in
    the run folder. Raises :class:`groundtrace.schemas.errors.UserError` if the run or the port cannot be used.
    """
    guard, reopening = Guard(), Reopening()
    page = _open(parsed, cache, guard, reopening, parsed.at)
    state = state_of(parsed.at) or ([("view", "audit")] if parsed.audit else [])
    with stopped_by_signals() as stopped, closing(_listening_socket(parsed.port)) as listener, http_loop() as on_loop:
        runner = on_loop(_started(page.app, listener))
        for note in page.notes:
            say(f"beam: {note}", file=sys.stderr)
        say(f"http://{HOST}:{listener.getsockname()[1]}/?{urlencode([*state, (TOKEN, guard.token)])}")
        sys.stdout.flush()
        next_s = 0.0
        while not stopped.wait(LOOK_EVERY_S):
            if not reopening.wanted.is_set() or time.monotonic() < next_s:
                continue
            reopening.wanted.clear()
            begun_s = time.monotonic()
            try:
                if page.is_current():  # the browser asked again while the run was read
                    continue
                later = _open(parsed, cache, guard, reopening)
            except Exception as error:  # the run folder may be in any state, and may be whole again later
                reopening.error = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                next_s = time.monotonic() + PATIENCE * (time.monotonic() - begun_s)
                continue
            reopening.error = ""
            before, runner = runner, on_loop(_started(later.app, listener))
            on_loop(before.cleanup())
            page.close()
            page = later
            say(f"beam: the run folder has changed: {'; '.join(page.notes)}", file=sys.stderr)
        on_loop(runner.cleanup())
        page.close()


def _listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine; port 0 means any free port.

    All servers of a command share it. So the browser can connect while one server replaces another. Raises ServeError
    if the port cannot be used.
    """
    try:
        return socket.create_server((HOST, port), backlog=128)
    except (OSError, OverflowError) as error:
        raise ServeError(f"cannot listen on {HOST}:{port}: {error}; choose another --port") from error


async def _started(app: web.Application, listener: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=ENDING_S, max_line_size=MAX_ADDRESS_BYTES)
    await runner.setup()
    await web.SockSite(runner, listener.dup()).start()
    return runner


def _open(parsed: argparse.Namespace, cache: Path | None, guard: Guard, reopening: Reopening, at: str = "") -> _Page:
    """Open the run, and return its page: that of its rows, or that of its requests if it has not finished.

    ``at`` is the value of the option ``--at`` (the filters of the page) when the command starts. If the run is opened
    again later, ``at`` is "". So the run can be opened even if it no longer has the columns of ``--at``.
    """
    begun, run = time.monotonic(), local_copy(parsed.run).absolute()
    if is_unfinished(run) and not (parsed.other or parsed.at or parsed.audit or "://" in parsed.run):
        note = f"{run} has no finished run, so the page shows its requests and newest replies; Ctrl-C ends the view"
        return _Page(live_app(run, guard, cache, reopening), [note], lambda: is_unfinished(run), lambda: None)
    opened = open_rows(parsed.run, parsed.other)
    try:
        opened.check_values(at)
        audit = _opened_audit(opened, parsed) if parsed.audit else None
    except Exception:
        opened.close()
        raise
    replays = Replays(run, str(recipe_file(parsed.pipeline)) if parsed.pipeline else "", cache)
    server = ViewServer(
        run, opened.rows, opened.images, opened.reviews, guard, audit, opened.other, replays, cache, reopening
    )
    read_in = f"{counted(len(opened.rows), 'row')} of {run} in {time.monotonic() - begun:.1f} s; Ctrl-C ends the view"
    notes = [read_in, *_notes(opened), *([audit.note] if audit and audit.note else [])]
    return _Page(server.app(), notes, server.is_current, opened.close)


def _opened_audit(opened: OpenedRows, parsed: argparse.Namespace) -> Audit:
    """Return the sample of traces (the teacher's responses) that a person judges in this view.

    Raises InspectError for a run in an object store.
    """
    if "://" in parsed.run:
        raise InspectError(
            f"--audit cannot write judgements to {parsed.run}, because this run is in an object store: copy the "
            "run to this machine, and give the path of the copy"
        )
    return open_audit(opened.run, opened.rows, opened.images, parsed.audit, parsed.reviewer)


def _compared(run: Path, rows: ViewedRows, named: str) -> OtherRun:
    """Open the second run, add the columns that compare the two runs to ``rows``, and return the second run.

    ``rows`` are the rows of the run in the folder ``run``. ``named`` is the path or URL of the second run.
    """
    other, summary = local_copy(named).absolute(), rows.summary
    there = ViewedRows(other)
    differ = setting_changes((run, summary), (other, there.summary), lambda: recipe_defaults(summary.recipe))
    return compare(rows, other, there, differ.shown)


def _notes(opened: OpenedRows) -> list[str]:
    """Return notes for the user: if a later run in the folder failed, and if two compared runs have no common id."""
    run, rows, other, found = opened.run, opened.rows, opened.other, list[str]()
    if (run / FAILED_PAGE).is_file():
        found.append(
            f"these are the rows of {rows.summary.finished}; a later run in this folder failed: {run / FAILED_PAGE}"
        )
    if other and other.only_there == len(other.rows):
        found.append(f"no record of {run} is in {other.run}: they have no common ids")
    return found
