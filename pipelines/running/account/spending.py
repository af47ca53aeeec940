"""Sums up the costs of all runs in one run folder (the output folder of a pipeline's runs).

Runs that failed, were stopped or were killed are included.

RUN is the run folder, and <run> is a unique name that each run gets when it starts. While a run lasts,
RUN/ledger/<run>/ holds the notes of its processes: files with one line for each request and its cost
(:mod:`groundtrace.inference.flow.notes`). After the run has ended, RUN/ledger/<run>.json holds the sum of these costs.

The notes of a run that failed, was stopped or was killed stay until the next run. The reason is that workers of the
old run may still add the costs of requests to these notes.
"""

import contextlib
import datetime
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from groundtrace.inference.flow.notes import paid_in
from groundtrace.schemas.checked import checked_value
from groundtrace.schemas.run_summary import PaidFigures
from groundtrace.schemas.safe_files import own_file, read_json
from groundtrace.storage.files import write_atomically

KILLED, DONE = "killed", "done"
_RUN = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
"""Matches the name of a folder of notes, such as ``20250131T235959-0123abcd``. Each run has one such folder.

Notes are files with the cost of each request of the run.
"""
_ENDED = "ended"
"""The name of the file that marks the folder of notes (costs of requests) of a run that failed or was stopped.

The sum of the notes is then in the file <run>.json. But the run's workers may still add notes to the folder, so the sum
is computed again from the notes.
"""


@dataclass(frozen=True)
class _Sum:
    """Holds the cost of one run. ``outcome`` is how the run ended: ``done``, the name of its error, or ``killed``."""

    outcome: str
    requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


def _read_sum(path: Path) -> _Sum:
    """Return the cost of a run, read from the JSON file ``path``.

    Raises ValueError or TypeError if the file is not valid.
    """
    return checked_value(_Sum, asdict(_Sum(**read_json(path))))


class Spending:
    """Records the costs of all runs in a run folder (the output folder of a pipeline's runs).

    ``root`` is the run folder. ``gather`` is a function that downloads the notes of remote workers, i.e. the files in
    which they write the cost of their requests; by default it does nothing.
    """

    def __init__(self, root: Path, gather: Callable[[], None] = lambda: None) -> None:
        self._folder, self._gather = root / "ledger", gather
        self.latest: PaidFigures | None = None
        """The cost of the run that :meth:`run` has recorded; None until that run has ended."""

    @contextlib.contextmanager
    def run(self) -> Iterator[Path]:
        """Start to record the cost of a new run, and yield the folder into which its processes write notes on their
        requests.

        When the body of the ``with`` statement ends, the notes of remote workers are downloaded, and the run's cost is
        written, even if the body raises an error. If the download fails, its error is raised and no cost is written.
        The notes then stay, and the next run computes the cost from these notes.
        """
        self._sum_up_ended()
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
            if outcome != DONE:
                (notes / _ENDED).touch()
            self.latest = _together([self._sum_up(notes, outcome)])

    def total(self) -> PaidFigures:
        """Return the total cost of all runs in the folder, including what the present run has cost so far."""
        return _together(list(self._sums()))

    def _sums(self) -> Iterator[_Sum]:
        own_file(self._folder.parent, self._folder.name)
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if path.is_dir():
                if _is_notes(path) and self._has_all(path):
                    yield _sum_of(path, KILLED)
            elif path.suffix == ".json" and not self._has_all(path.with_suffix("")):
                with contextlib.suppress(ValueError, TypeError):  # a file that is not ours
                    yield _read_sum(own_file(self._folder, path.name))

    def _has_all(self, notes: Path) -> bool:
        """Return whether the folder ``notes`` holds the notes (cost entries) of all requests of its run.

        If the result is True, the caller computes the run's cost from the notes. Otherwise, the caller takes the cost
        from the sum in the file <run>.json. The result is False in two cases:

        - There is no such folder.
        - The folder has only late notes. The sum of the run was written, and the run's notes were removed. After that,
          a worker wrote new notes into the folder.
        """
        return notes.is_dir() and ((notes / _ENDED).exists() or not self._sum_path(notes).exists())

    def _sum_up_ended(self) -> None:
        """Sum up the notes of each earlier run, write the sum to the run's file <run>.json, and remove the notes.

        Notes are files with the cost of each request. Each run has a folder for its notes. If a run failed, was stopped
        or was killed, its folder still holds all its notes. The folder of any other run can hold only late notes, which
        a worker wrote after the run's sum was written. Late notes do not change the sum.

        A folder stays if its name does not match :data:`_RUN`, because no run has made it.
        """
        for notes in [path for path in self._folder.glob("*") if _is_notes(path)]:
            if self._has_all(notes):  # else only a late worker's notes, after the sum was written
                self._sum_up(notes, self._outcome(notes))
            shutil.rmtree(notes, ignore_errors=True)

    def _outcome(self, notes: Path) -> str:
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            return _read_sum(self._sum_path(notes)).outcome
        return KILLED

    def _sum_up(self, notes: Path, outcome: str) -> _Sum:
        found = _sum_of(notes, outcome)
        write_atomically(self._sum_path(notes), json.dumps(asdict(found)))
        if outcome == DONE:
            shutil.rmtree(notes, ignore_errors=True)
        return found

    def _sum_path(self, notes: Path) -> Path:
        return self._folder / f"{notes.name}.json"


def _is_notes(path: Path) -> bool:
    """Return whether ``path`` is a folder into which a run wrote its notes, and not a link to a folder.

    Notes are files with the cost of each request of the run.
    """
    return _RUN.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


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
