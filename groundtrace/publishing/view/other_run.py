"""Compares the rows of a viewed run with those of a second run, for ``beam view RUN OTHER``.

A record has the same id in both runs if both read the same input. The columns of this module are added to the rows of
the viewed run, so that a page can filter and sort by them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.view.row_columns import CHANGE, DIFFERENCE, THERE
from groundtrace.publishing.view.rows import Outcome, ViewedRows

ABSENT, SAME = "absent", "none"
OTHER_REASON = "other reason"
"""The change of a record that both runs rejected, but at different stages, for different reasons or by different
scorers."""
OTHER_TRACE = "other trace"
"""The change of a record that ended alike in both runs, but whose shown traces differ."""
MAX_SETTINGS = 5
"""The maximum number of settings that the top of the page names."""


@dataclass(frozen=True)
class OtherRun:
    """Holds the second run of a view: its folder, its rows, and the number of its records that the viewed run lacks.

    ``settings`` are the settings that differ, each as (name, value in the viewed run, value in the second run).
    ``both`` is the number of ids that both runs have. ``changes`` maps each change, such as "sft → rl", to the number
    of these ids whose record changed in this way between the runs.
    """

    run: Path
    rows: ViewedRows
    only_there: int
    settings: Sequence[tuple[str, str, str]] = ()
    both: int = 0
    changes: Mapping[str, int] = field(default_factory=dict)

    @property
    def moved(self) -> dict[str, int]:
        """Return the number of ids for each change of the outcome, such as "sft → rl". Only ids that both runs have are
        counted.

        A change of the outcome means that the record is in another output set (sft, rl or rejected), or was rejected by
        another stage or scorer or for another reason. The command `beam diff` counts the same changes.
        """
        return {change: count for change, count in self.changes.items() if change not in (SAME, OTHER_TRACE)}

    def titles(self, viewed: str) -> dict[str, str]:
        """Return the titles of the columns that compare the runs, with the names of the runs.

        ``viewed`` is the name of the viewed run. The keys of the result are the names of the columns.
        """
        there = self.run.name
        return {THERE: f"{THERE}, {there}"} | {name: f"{name}, {viewed} → {there}" for name in (CHANGE, DIFFERENCE)}


def compare(rows: ViewedRows, run: Path, other: ViewedRows, settings: Sequence[tuple[str, str, str]] = ()) -> OtherRun:
    """Compare the viewed run with a second run, and add the results as columns to the rows of the viewed run.

    Return the second run. ``rows`` are the rows of the viewed run. ``run`` is the folder of the second run, and
    ``other`` holds the rows of the second run. ``settings`` are the settings that differ, as in :class:`OtherRun`.
    """
    here, there = ({each.id: each for each in run_rows.outcomes()} for run_rows in (rows, other))
    are_scorers_known = all(any(each.scorer for each in run.values()) for run in (here, there))
    columns: dict[str, list[str | float | None]] = {"id": [], THERE: [], CHANGE: [], DIFFERENCE: []}
    changes = Counter[str]()
    for row_id, before in here.items():
        after = there.get(row_id)
        change = f"{before.set} → {ABSENT}" if after is None else _change(before, after, are_scorers_known)
        ended = ABSENT if after is None else f"{after.set}: {after.reason}" if after.reason else after.set
        scores = before.score, None if after is None else after.score
        difference = None if scores[0] is None or scores[1] is None else scores[1] - scores[0]
        for name, value in zip(columns, (row_id, ended, change, difference), strict=True):
            columns[name].append(value)
        changes[change] += after is not None
    types = (pa.string(), pa.string(), pa.string(), pa.float64())
    rows.add_columns(
        pa.table({name: pa.array(each, kind) for (name, each), kind in zip(columns.items(), types, strict=True)})
    )
    both = {change: count for change, count in changes.items() if count}
    return OtherRun(run, other, len(there.keys() - here.keys()), settings, sum(both.values()), both)


def _change(before: Outcome, after: Outcome, are_scorers_known: bool) -> str:
    """Return how the outcome of a record changed from the viewed run to the second run.

    The outcome is the output set (sft, rl or rejected), the stage and reason of a rejection, and the shown trace. If
    ``are_scorers_known`` is True, the scorers that rejected the record are compared, too. Runs of earlier versions do
    not name these scorers.
    """
    if after.set != before.set:
        return f"{before.set} → {after.set}"
    if (after.stage, after.reason) != (before.stage, before.reason):
        return OTHER_REASON
    if are_scorers_known and after.scorer != before.scorer:
        return OTHER_REASON
    return SAME if after.trace == before.trace else OTHER_TRACE
