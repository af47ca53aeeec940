"""The live view of a local run: stages, what they have done, calls in flight, cache hits and time left.

In a terminal a table that redraws itself; otherwise one line whenever the figures have changed for a while. A remote
runner's workers count in their own processes; nothing is shown for them here.
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

from inference.flow.notes import waiting
from stages.plumbing.metrics import StageProgress, board
from stages.plumbing.recipe import Recipe

REDRAW_S = 0.5
LINE_EVERY_S = 10.0
LOOK_EVERY_S = 0.5
StagesBefore = Mapping[str, str]
"""The name of the stage whose kept records are those that a stage will see."""


@contextlib.contextmanager
def show_progress(recipe: Recipe, part: str = "", notes: str = "") -> Iterator[None]:
    """Show the board on stderr while the body runs, and its last state when it ends.

    ``part`` says, before each line and above the table, which part of the run this is ("" when it has but one). What
    the run's processes wait for stands in the folder ``notes`` (:mod:`inference.flow.notes`).
    """
    stop = threading.Event()
    show = _redraw if sys.stderr.isatty() else _print_lines
    thread = threading.Thread(target=show, args=(stop, stages_before(recipe), part, notes), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _redraw(stop: threading.Event, before: StagesBefore, part: str, notes: str) -> None:
    title = part.rstrip(": ") or None

    def drawn() -> Group:
        return Group(progress_table(board(), before, title), *map(Text, waits(notes)))

    with Live(drawn(), console=Console(stderr=True), refresh_per_second=4) as live:
        while not stop.wait(REDRAW_S):
            live.update(drawn())
        live.update(drawn())


def _print_lines(stop: threading.Event, before: StagesBefore, part: str, notes: str) -> None:
    """Print what has changed every few seconds, and at once when the run begins to wait or goes on."""
    shown, waited, next_s = "", False, time.monotonic() + LINE_EVERY_S
    while True:
        ended = stop.wait(LOOK_EVERY_S)
        waiting_now = waits(notes)
        if not ended and time.monotonic() < next_s and bool(waiting_now) == waited:
            continue
        for line in waiting_now or (["the servers are back"] if waited and not ended else []):
            print(part + line, file=sys.stderr, flush=True)
        waited, next_s = bool(waiting_now), time.monotonic() + LINE_EVERY_S
        line = progress_line(board(), before)
        if line and line != shown:
            print(part + line, file=sys.stderr, flush=True)
            shown = line
        if ended:
            return


def waits(notes: str) -> list[str]:
    """What the run waits for, a line each; ``notes`` "" is a run that notes nothing."""
    return waiting(notes) if notes else []


def stages_before(recipe: Recipe) -> StagesBefore:
    """For each stage that takes just what the stage before it keeps, that stage."""
    passed = [stage for stage in recipe.stages if not stage.is_sample]
    return {stage.name: before.name for before, stage in itertools.pairwise(passed) if not stage.joins}


def total_of(stage: str, stages: dict[str, StageProgress], before: StagesBefore) -> int | None:
    """How many elements the stage will see, where the stage before it tells."""
    known = stages.get(before.get(stage, ""))
    return known.kept if known else None


def eta_s(progress: StageProgress, total: int | None, now_s: float) -> float | None:
    """Seconds left at the rate of the last seconds; None while it cannot be told."""
    finished, rate = progress.kept + progress.rejected, progress.per_second(now_s)
    if total is None or not rate or finished >= total:
        return None
    return (total - finished) / rate


def progress_table(stages: dict[str, StageProgress], before: StagesBefore, title: str | None = None) -> Table:
    """The board as a table."""
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
    """The board's latest stage in one line; empty before the first."""
    if not stages:
        return ""
    name, progress = next(reversed(stages.items()))
    total = total_of(name, stages, before)
    of = f"/{total}" if total is not None else ""
    calls = sum(p.requests for p in stages.values()), sum(p.cached for p in stages.values())
    done = progress.kept + progress.rejected
    return f"{name}: {done}{of} done, {progress.rejected} rejected; calls sent {calls[0]}, from the cache {calls[1]}"
