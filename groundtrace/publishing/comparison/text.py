"""Writes a comparison of two runs as text for a terminal."""

import io

from rich.console import Console
from rich.text import Text

from groundtrace.publishing.comparison.compare import Comparison
from groundtrace.publishing.tables import print_table
from groundtrace.schemas.text import printable


def comparison_text(found: Comparison) -> str:
    """Return ``found``, the comparison of two finished runs (executions of a pipeline), as several lines of text."""
    text = io.StringIO()
    print_comparison(Console(file=text, width=10_000, color_system=None), found)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def print_comparison(console: Console, found: Comparison) -> None:
    """Print ``found``, the comparison of two finished runs (executions of a pipeline), on ``console``."""
    if found.same:
        console.print(Text(printable(found.same)), soft_wrap=True)
    else:
        for run in found.runs:
            console.print(Text(f"{run.letter}: {printable(' · '.join(run.facts))}"), soft_wrap=True)
        console.print(Text(printable(found.headline), style="bold"), soft_wrap=True)
    is_cut = False
    for section in found.sections:
        if section.rows:
            is_cut |= print_table(console, section.title, section.columns, section.rows)
        else:
            console.print(Text(f"\n{section.title}", style="bold"))
        for line in (section.more, section.note):
            if line:
                console.print(Text(printable(line), style="" if line is section.more else "dim"), soft_wrap=True)
    if is_cut:
        advice = "beam diff --ids FILE writes the ids with whole details; in Python, the comparison's moved has them"
        console.print(Text(f"\nlong values are cut: {advice}"), soft_wrap=True)
