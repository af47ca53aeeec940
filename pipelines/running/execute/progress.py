"""Shows a local run's progress live: its stages (steps of the pipeline), tokens, cost and errors, and the time left.

In a terminal the view is a table that is redrawn. Otherwise a line is printed every few seconds if the run has made
progress. All processes of the run write their tokens and costs into shared files, so the view shows the sums over all
processes. But each process counts the progress of stages only in its own memory. So the view does not show the progress
that stages make in other processes.
"""

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator, Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from groundtrace.inference.flow.notes import waiting
from groundtrace.pipelines.running.execute.running_totals import NotesReader, RunningTotals
from groundtrace.pipelines.running.execute.time_left import TimeLeft
from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun
from groundtrace.schemas.text import counted, duration_text, say
from groundtrace.stages.plumbing.metrics import StageProgress, board
from groundtrace.stages.plumbing.stage_list import StageList

REDRAW_S = 0.5
LINE_EVERY_S = 5.0
CHECK_EVERY_S = 0.5
StagesBefore = Mapping[str, str]
"""Maps the name of each stage to the name of the stage before it.

A stage is left out if its input differs from the records that the stage before it kept.
"""


@contextlib.contextmanager
def show_progress(
    stages: StageList, part: str = "", notes: str = "", expected: ExpectedRun | None = None
) -> Iterator[None]:
    """Show the progress of a run on stderr while the body of the ``with`` statement runs, and once at its end.

    Args:
        stages: The stages (steps of the pipeline) of the run.
        part: The name of this pass over the input, such as ``wave 2: ``, shown before each line and above the table; ""
            if the run has only one pass.
        notes: The folder in which the run's processes note their requests, their costs, and the servers for which they
            wait (:mod:`groundtrace.inference.flow.notes`); "" if there is none.
        expected: The expected calls and seconds of each stage, from which the time left of the whole run is estimated
            (:mod:`groundtrace.pipelines.running.execute.time_left`); None if they are unknown. The time left is then
            not shown.
    """
    stop = threading.Event()
    show = _redraw if sys.stderr.isatty() else _print_lines
    view = RunView(stages, part, notes, expected)
    view.watch()
    thread = threading.Thread(target=show, args=(stop, view), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        view.note_seconds()


class RunView:
    """Shows the progress of a run as a table (:meth:`table`) or as one line of text (:meth:`line`).

    Args:
        stages: The stages (steps of the pipeline) of the run.
        part: The name of this pass over the input, such as ``wave 2: ``; "" if the run has only one pass.
        notes: The folder in which the run's processes write their requests and costs; "" if there is none.
        expected: The expected calls and seconds of each stage; None if they are unknown.
    """

    def __init__(
        self,
        stages: StageList,
        part: str = "",
        notes: str = "",
        expected: ExpectedRun | None = None,
    ) -> None:
        self.part = part
        self._before, self._notes, self._reader = stages_before(stages), notes, NotesReader(notes)
        self._left = TimeLeft(expected, self._before)

    def table(self) -> Group:
        """Return a table with the progress of each stage (step of the pipeline).

        The tokens, the cost, the time left, and the servers for which the run waits are below the table.
        """
        table = progress_table(board(), self._before, self.part.rstrip(": ") or None)
        below = [part for part in (taken_text(self._reader.read()), self._left_text()) if part]
        return Group(table, *map(Text, below), *map(Text, self.waits()))

    def line(self) -> str:
        """Return one line of text on the present progress of the run; "" before the first pipeline step or request."""
        stages, so_far = board(), self._reader.read()
        shown = [progress_line(stages, self._before), taken_text(so_far), self._left_text()]
        if not stages and so_far.requests:
            shown[0] = f"requests sent {so_far.requests}"
        return "; ".join(part for part in shown if part)

    def waits(self) -> list[str]:
        """Return one line of text for each server for which the run waits; empty if it waits for none."""
        return waiting(self._notes) if self._notes else []

    def watch(self) -> None:
        """Measure how many calls and records each stage (step of the pipeline) has finished by now.

        Call this method about once a second. The time left is estimated from all measurements until now.
        """
        self._left.watch(time.monotonic(), board())

    def note_seconds(self) -> None:
        """Set two durations, in seconds, in the live counts of each stage (step of the pipeline).

        The durations are the wall time of the stage, and the sum of the durations of its requests. The live counts are
        the numbers that this process counts during the run, such as the number of finished records
        (:func:`groundtrace.stages.plumbing.metrics.board`). The run's summary reads the durations from these counts.
        """
        self.watch()  # in a short run, this may be the only call after the start
        live = board()
        for name, (wall_s, in_flight_s) in self._left.seconds().items():
            if name in live:  # an expected stage may get no record, if earlier stages reject all
                live[name].wall_s, live[name].in_flight_s = wall_s, in_flight_s

    def _left_text(self) -> str:
        left_s = self._left.left_s(board())
        return "" if left_s is None else f"about {duration_text(left_s)} left of the run"


def _redraw(stop: threading.Event, view: RunView) -> None:
    with Live(view.table(), console=Console(stderr=True), refresh_per_second=4) as live:
        while not stop.wait(REDRAW_S):
            view.watch()
            live.update(view.table())
        live.update(view.table())


def _print_lines(stop: threading.Event, view: RunView) -> None:
    """Print the progress every few seconds if it has changed, until the event ``stop`` is set.

    The servers for which the run waits are printed, too. In three cases, the function prints without this delay: the
    run begins to wait for servers, it no longer waits for any server, or ``stop`` is set.
    """
    shown, waited, next_s = "", False, time.monotonic() + LINE_EVERY_S
    while True:
        ended = stop.wait(CHECK_EVERY_S)
        view.watch()
        waits = view.waits()
        if not ended and time.monotonic() < next_s and bool(waits) == waited:
            continue
        for line in waits or (["the servers are back"] if waited and not ended else []):
            say(view.part + line, file=sys.stderr)
        waited, next_s = bool(waits), time.monotonic() + LINE_EVERY_S
        line = view.line()
        if line and line != shown:
            say(view.part + line, file=sys.stderr)
            shown = line
        if ended:
            return


def stages_before(stages: StageList) -> StagesBefore:
    """Map the name of each stage (step of the pipeline) to the name of the stage before it.

    ``stages`` are the stages of the run in order. A stage is left out if its input differs from the records that the
    stage before it kept, for example because it reads only a sample of the records.
    """
    passed = [stage for stage in stages if not stage.is_sample]
    return {stage.name: before.name for before, stage in itertools.pairwise(passed) if not stage.joins}


def total_of(stage: str, stages: dict[str, StageProgress], before: StagesBefore) -> int | None:
    """Return how many records a stage (step of the pipeline) gets: the number that the stage before it has kept by now.

    ``stage`` is the name of the stage. ``stages`` holds the counts of each stage that has begun. ``before`` maps the
    name of a stage to the stage before it. The result is None if the stage before is unknown or has not begun.
    """
    known = stages.get(before.get(stage, ""))
    return known.kept if known else None


def eta_s(progress: StageProgress, total: int | None, now_s: float) -> float | None:
    """Return how many seconds a stage (step of the pipeline) still needs if it keeps its present rate.

    ``progress`` holds the counts of the stage. ``total`` is the number of elements that the stage gets; None if it is
    unknown. ``now_s`` is the present time of ``time.monotonic()``. The result is None if ``total`` or the rate is
    unknown, or if the stage has finished all elements.
    """
    finished, rate = progress.kept + progress.rejected, progress.per_second(now_s)
    if total is None or not rate or finished >= total:
        return None
    return (total - finished) / rate


def taken_text(so_far: RunningTotals) -> str:
    """Return the tokens, the cost and the failed requests in ``so_far`` as text; "" if all of them are 0."""
    parts = [f"{so_far.tokens:,} tokens"] if so_far.tokens else []
    parts += [f"${so_far.usd:.2f}"] if so_far.usd else []
    taken = [", ".join(parts)] if parts else []
    if so_far.failed_tries:
        limited = f" ({so_far.rate_limited} with HTTP 429)" if so_far.rate_limited else ""
        failed = counted(so_far.failed_tries, "try failed", "tries failed")
        taken.append(f"{failed}{limited}, the last: {so_far.last_error}")
    return "; ".join(taken)


def progress_table(stages: dict[str, StageProgress], before: StagesBefore, title: str | None = None) -> Table:
    """Return the progress of all stages (steps of the pipeline) as a table with one row for each stage.

    ``stages`` holds the counts of each stage that has begun. ``before`` maps the name of a stage to the stage before
    it. ``title`` is a heading; None for no heading.
    """
    names = ("stage", "done", "of", "rejected", "per second", "in flight", "sent", "cached", "left")
    table = Table(*names, box=None, title=title, title_justify="left")
    now_s = time.monotonic()
    for name, progress in stages.items():
        done, total = progress.kept + progress.rejected, total_of(name, stages, before)
        rate, left = progress.per_second(now_s), eta_s(progress, total, now_s)
        cells = [name, done, total if total is not None else "", progress.rejected, f"{rate:.0f}" if rate else ""]
        cells += [progress.in_flight or "", progress.requests or "", progress.cached or ""]
        table.add_row(*map(str, cells), "" if left is None else f"{left:.0f} s")
    return table


def progress_line(stages: dict[str, StageProgress], before: StagesBefore) -> str:
    """Return one line on the progress of a run: the counts of one stage (step of the pipeline), and the requests and
    cached replies of all stages.

    The line shows the first stage that waits for replies, because the stages after it wait for its records. If no stage
    waits for replies, the line shows the stage that began last. The line is "" if no stage has begun.

    ``stages`` holds the counts of each stage that has begun, in the order in which the stages began. ``before`` maps
    the name of a stage to the stage before it.
    """
    if not stages:
        return ""
    name = next((name for name, each in stages.items() if each.in_flight), next(reversed(stages)))
    progress = stages[name]
    total = total_of(name, stages, before)
    of = f"/{total}" if total is not None else ""
    requests, cached = sum(p.requests for p in stages.values()), sum(p.cached for p in stages.values())
    done, in_flight = progress.kept + progress.rejected, sum(p.in_flight for p in stages.values())
    flying = f", in flight {in_flight}" if in_flight else ""
    sent = f"requests sent {requests}, replies from the cache {cached}{flying}"
    return f"{name}: {done}{of} done, {progress.rejected} rejected; {sent}"
