"""Writes the result of a finished run as text for a terminal: rows, rejections, requests, costs and warnings."""

import os
from collections.abc import Mapping
from typing import Any

from groundtrace.publishing.figures import truncations
from groundtrace.publishing.rejections import why_few_rows, why_no_rows
from groundtrace.rewards.blindness import blind_text
from groundtrace.schemas.paths import local_path, real_path
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted, printable
from groundtrace.storage.places import joined

MAX_DETAIL_CHARS = 160
MAX_CHANGES = 12
MAX_MODELS = 3


def summary_text(summary: RunSummary, output: str, config: Mapping[str, Any]) -> str:
    """Return the result of a run as text of a few lines: its rows, rejections, requests, costs and warnings.

    ``summary`` holds the run's counts and costs (the content of ``run.json``). ``output`` is the path of the run folder
    as the command names it; the text contains paths in this folder. ``config`` is the complete config of the run, with
    a dict for each section.
    """
    counts, usage = summary.counts, summary.usage
    ends = [*(f"{counts.rows(name)} {name}" for name in summary.sets), f"{counts.rejected_records} rejected"]
    replies = counted(usage.cached, "reply", "replies")
    lines = [
        f"{counted(counts.input, 'record')}: {', '.join(ends)}",
        *(f"  {reason}: {records}{_detail(summary, reason)}" for reason, records in counts.by_reason.most_common()),
        *truncations(summary),
        *_why_few(summary, config),
        *_nothing_from(summary),
        f"{counted(usage.requests, 'request')} sent, {replies} from the cache, ${usage.cost_usd:.2f}, "
        f"{summary.wall_s:.1f} s",
        *_taken_over(summary, output),
        *_answered(summary),
        *_paid(summary),
        *([blind_text(summary.blind)] if summary.blind and summary.forecast is None else []),
        *(f"warning: {warning}" for warning in summary.warnings),
        *_replaced(summary, output),
        f"report: {joined(output, 'report.html')}",
    ]
    return "\n".join(lines + _ended_by(summary))


def _detail(summary: RunSummary, reason: str) -> str:
    """Return the most frequent explanation for the records that were rejected for ``reason``, e.g. ``too_hard``.

    The result has the form " (most often: EXPLANATION)". A long explanation is cut. The result is "" if there is no
    explanation. ``summary`` is the content of ``run.json``.
    """
    detail = printable(summary.detail_of(reason))
    return (
        f" (most often: {detail if len(detail) <= MAX_DETAIL_CHARS else detail[: MAX_DETAIL_CHARS - 1] + '…'})"
        if detail
        else ""
    )


def _why_few(summary: RunSummary, config: Mapping[str, Any]) -> list[str]:
    """Return a line that states why the run made no rows or few rows, or no line if no such reason is known."""
    if why := why_no_rows(summary, config):
        return [f"no rows: {why}"]
    return [why] if (why := why_few_rows(summary, config)) else []


def _nothing_from(summary: RunSummary) -> list[str]:
    """Return a line for each sample stage (a pipeline step that reads only a sample of the records) that has no
    results.
    """
    return [
        f"{name}: none of its {counted(counts.read, 'call')} had a result; the run's files hold the reasons"
        for name, counts in summary.stages.items()
        if counts.is_sample and counts.read and not counts.kept
    ]


def _taken_over(summary: RunSummary, output: str) -> list[str]:
    """Return a line for each other run whose cached replies this run used, and a line if old replies were ignored.

    Old replies are those from before a certain time. A command with the option ``--fresh`` sets this time.
    """
    lines = [
        f"{counted(taken, 'reply', 'replies')} from {printable(beside(output, name))} (--fresh ignores earlier replies)"
        for name, taken in summary.taken_over.items()
    ]
    since = summary.fresh_since
    return [*lines, f"fresh: no reply from before {since} was used"] if since else lines


def beside(output: str, name: str) -> str:
    """Return the path of the run folder ``name``, which is in the same parent folder as another run folder, ``output``.

    A run folder is the output folder of a run. The path is absolute if ``output`` is absolute, and otherwise relative
    to the current directory.
    """
    there = real_path(output).parent / name
    return str(there) if local_path(output).is_absolute() else os.path.relpath(there)


def _answered(summary: RunSummary) -> list[str]:
    """Return a line for each endpoint (model server) whose replies name another model than the requested one."""
    lines = []
    for name, figures in summary.answered.items():
        named = [
            f"{model} ({counted(replies, 'reply', 'replies')})"
            for model, replies in list(figures.answered.items())[:MAX_MODELS]
        ]
        left = len(figures.answered) - len(named)
        others = f", and {left} more" if left else ""
        note = f"{name} was asked for {figures.asked}, but its replies name {', '.join(named)}{others}"
        lines.append(f"note: {printable(note)}")
    return lines


def _paid(summary: RunSummary) -> list[str]:
    """Return a line on the total cost and on the cost that the cache saved, or no line if both are 0."""
    paid, saved_usd = summary.paid, summary.saved_usd
    if paid is None or not (paid.usd or saved_usd):
        return []
    runs = counted(paid.runs, "run")
    return [f"replies from the cache were worth ${saved_usd:.2f}; paid for this output in {runs}: ${paid.usd:.2f}"]


def _replaced(summary: RunSummary, output: str) -> list[str]:
    """Return lines on the old run that this run replaced in its folder, and on the differences between the two runs.

    The old outputs are kept in the subfolder ``previous`` if they have rows and differ from the new outputs. The result
    is empty if there was no old run, or if the old outputs are not kept and no difference is known.
    """
    replaced = summary.replaced
    if replaced is None or not (replaced.kept or replaced.changed):
        return []
    place = f"is kept in {joined(output, 'previous')}" if replaced.kept else "had no rows"
    rows = f"{replaced.sft} sft and {replaced.rl} rl"
    lines = [f"replaced the run of {replaced.finished} ({rows}), which {place}"]
    shown = replaced.changed[:MAX_CHANGES]
    lines += [f"  {printable(f'{key}: {old} → {new}')}" for key, old, new in shown]
    left = len(replaced.changed) - len(shown)
    return lines + ([f"  and {counted(left, 'other change')} (replaced.changed in run.json)"] if left else [])


def _ended_by(summary: RunSummary) -> list[str]:
    """Return a line if the budget was exhausted, and a line on the target number of SFT rows if there was a target.

    The second line states whether the target was reached.
    """
    lines = []
    budget, target = summary.budget, summary.target
    used_up = budget is not None and budget.used_up
    if budget is not None and used_up:
        lines.append(
            f"the budget was used up after ${budget.spent_usd:.2f} and {budget.spent_tokens} tokens: "
            f"{counted(budget.left, 'record')} rejected as budget; "
            "the same command with a larger budget continues from the cache"
        )
    if target is not None and not target.reached:
        why = "budget" if used_up else "input"
        lines.append(f"target not reached: {summary.counts.sft} of {target.sft}; the {why} is used up")
    elif target is not None:
        lines.append(f"target reached: {counted(target.sft, 'SFT row')} in {counted(len(target.waves), 'wave')}")
    return lines
