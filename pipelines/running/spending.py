"""What a run folder has cost, in all runs that wrote or were to write it, the failed, stopped and killed ones too.

RUN/ledger/<run>/        what the processes of a run note while it lasts (:mod:`inference.flow.notes`)
RUN/ledger/<run>.json    the sum, once it has ended
"""

import contextlib
import datetime
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from inference.flow.notes import paid_in
from schemas.files import write_atomically
from schemas.run_summary import PaidFigures

KILLED, DONE = "killed", "done"


@dataclass(frozen=True)
class _Sum:
    """What one run took; ``outcome`` is how it ended: ``done``, the name of its error, or ``killed``."""

    outcome: str
    requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Spending:
    """The costs of all runs of the run folder ``root``. ``gather`` brings notes there that were written elsewhere."""

    def __init__(self, root: Path, gather: Callable[[], None] = lambda: None) -> None:
        self._folder, self._gather = root / "ledger", gather
        self.latest: PaidFigures | None = None
        """What the run of this object has paid, once it has ended."""

    @contextlib.contextmanager
    def run(self) -> Iterator[Path]:
        """A new run, and the folder for its notes. Its sum is written however the body ends.

        Raises what ``gather`` raises; the notes then stay, and the next run sums them up.
        """
        self._sum_up_killed()
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
        notes = self._folder / f"{stamp}-{os.urandom(4).hex()}"
        notes.mkdir(parents=True)
        outcome = DONE
        try:
            yield notes
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._gather()
            self.latest = _together([self._sum_up(notes, outcome)])

    def total(self) -> PaidFigures:
        """The sums of all runs, the present one with what it has noted so far."""
        return _together(list(self._sums()))

    def _sums(self) -> Iterator[_Sum]:
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if path.is_dir():
                if not self._sum_path(path).exists():
                    yield _sum_of(path, KILLED)
            elif path.suffix == ".json":
                with contextlib.suppress(ValueError, TypeError):  # a file that is not ours
                    yield _Sum(**json.loads(path.read_text("utf-8")))

    def _sum_up_killed(self) -> None:
        for notes in [path for path in self._folder.glob("*") if path.is_dir()]:
            if not self._sum_path(notes).exists():  # else a worker of a job that was given up has noted on
                self._sum_up(notes, KILLED)
            shutil.rmtree(notes, ignore_errors=True)

    def _sum_up(self, notes: Path, outcome: str) -> _Sum:
        found = _sum_of(notes, outcome)
        write_atomically(self._sum_path(notes), json.dumps(asdict(found)))
        shutil.rmtree(notes, ignore_errors=True)
        return found

    def _sum_path(self, notes: Path) -> Path:
        return self._folder / f"{notes.name}.json"


def _together(sums: Sequence[_Sum]) -> PaidFigures:
    return PaidFigures(
        usd=sum(each.cost_usd for each in sums),
        requests=sum(each.requests for each in sums),
        tokens=sum(each.tokens_in + each.tokens_out for each in sums),
        runs=len(sums),
    )


def _sum_of(notes: Path, outcome: str) -> _Sum:
    requests = tokens_in = tokens_out = 0
    cost_usd = 0.0
    for paid in (each for each in paid_in(notes) if not each.in_process):
        requests, tokens_in = requests + paid.requests, tokens_in + paid.tokens_in
        tokens_out, cost_usd = tokens_out + paid.tokens_out, cost_usd + paid.cost_usd
    return _Sum(outcome, requests, tokens_in, tokens_out, cost_usd)
