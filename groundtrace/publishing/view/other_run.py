"""Compares the rows of a viewed run with those of a second run, for ``beam view RUN OTHER``.

A record has the same id in both runs if both read the same input. The columns of this module are added to the rows of
the viewed run, so that a page can filter and sort by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.view.row_columns import CHANGE, DIFFERENCE, THERE
from groundtrace.publishing.view.rows import ViewedRows

ABSENT, SAME = "absent", "none"
OTHER_REASON = "other reason"
"""The change of a record that both runs rejected, but at different stages, for different reasons or by different
scorers."""
MAX_SETTINGS = 5
"""The maximum number of settings that the top of the page names."""


@dataclass(frozen=True)
class OtherRun:
    """Holds the second run of a view: its folder, its rows, and the number of its records that the viewed run lacks.

    ``settings`` are the settings that differ, each as (name, value in the viewed run, value in the second run).
    """

    run: Path
    rows: ViewedRows
    only_there: int
    settings: Sequence[tuple[str, str, str]] = ()

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
    here = {outcome[0]: outcome[1:] for outcome in rows.outcomes()}
    there = {outcome[0]: outcome[1:] for outcome in other.outcomes()}
    are_scorers_known = all(any(scorer for *_, scorer in each.values()) for each in (here, there))
    known = 3 if are_scorers_known else 2  # runs of earlier versions do not name the scorers
    columns: dict[str, list[str | float | None]] = {"id": [], THERE: [], CHANGE: [], DIFFERENCE: []}
    for row_id, (side, score, *why) in here.items():
        other_side, other_score, *other_why = there.get(row_id, (ABSENT, None, None, None, None))
        reason = other_why[1]
        difference = None if score is None or other_score is None else other_score - score
        is_same = other_why[:known] == why[:known]
        change = f"{side} → {other_side}" if other_side != side else SAME if is_same else OTHER_REASON
        for name, value in zip(
            columns, (row_id, f"{other_side}: {reason}" if reason else other_side, change, difference), strict=True
        ):
            columns[name].append(value)
    types = (pa.string(), pa.string(), pa.string(), pa.float64())
    rows.add_columns(
        pa.table({name: pa.array(each, kind) for (name, each), kind in zip(columns.items(), types, strict=True)})
    )
    return OtherRun(run, other, len(there.keys() - here.keys()), settings)
