"""Writes a comparison of two runs as one self-contained HTML page, in the style of ``report.html``."""

from dataclasses import dataclass

from groundtrace.pages.frame import framed
from groundtrace.pages.render import render
from groundtrace.publishing.comparison.compare import Comparison
from groundtrace.publishing.comparison.text import comparison_text


@dataclass(frozen=True, repr=False)
class ShownComparison(Comparison):
    """Holds a comparison of two runs. A notebook shows it as the page that ``beam diff --html`` writes, and a terminal
    as the text that ``beam diff`` prints.
    """

    def __repr__(self) -> str:
        """Return the text that ``beam diff`` prints."""
        return comparison_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        return framed(comparison_page(self))


def comparison_page(found: Comparison) -> str:
    """Return the HTML page of a comparison of two runs. ``found`` is the comparison.

    The page shows the same tables as the output of ``beam diff`` in the terminal. One table lists the records of
    ``found.moved``: records that ended in another set (sft, rl or rejected) in the second run, or were rejected for
    another reason. In this table, the page adds the question of each record.
    """
    ends = []
    for name in dict.fromkeys((*found.runs[0].summary.sets, *found.runs[1].summary.sets, "rejected")):
        counts = [run.summary.counts for run in found.runs]
        ends.append((name, *(each.rejected_records if name == "rejected" else each.rows(name) for each in counts)))
    return render(
        "groundtrace.publishing.comparison",
        "comparison.html.jinja",
        name=" and ".join(run.name for run in found.runs),
        found=found,
        ends=ends,
        totals=[run.summary.counts.input for run in found.runs],
        questions={each.id: each.question for each in found.moved},
    )
