"""Writes a row of a run as text for a terminal: question, answer, outcome, added columns, and the first lines of the
best trace.

A trace is a teacher's reasoning with its answer.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.schemas.arrow import CORE
from groundtrace.schemas.text import counted, printable

WIDTH = 100
"""The maximum number of characters of a line."""
MAX_LINES = 6
"""The maximum number of lines of a text: of the question, of a rejection's explanation, or of a trace."""


@dataclass(frozen=True)
class _BestTrace:
    """Holds the trace (a teacher's reasoning with its answer) that the text of a row shows.

    For an SFT row, this is the trace in the column ``messages``. For a rejected record, this is the trace with the
    highest score. ``verdicts`` are the scores of single aspects of the trace. ``count`` is the number of traces from
    which the shown trace was chosen; it is 1 for an SFT row.
    """

    text: str
    score: float | None
    verdicts: Sequence[Mapping[str, Any]]
    count: int = 1


def row_text(name: str, values: Mapping[str, Any], run: str, max_lines: int | None = MAX_LINES) -> str:
    """Return a row as text of several lines. Characters that are not printable become escapes.

    ``name`` is the name of the row's set (sft, rl or rejected), ``values`` holds the row's values by column, and
    ``run`` is the name of the run folder. ``max_lines`` is the maximum number of lines of each text, such as the trace;
    None for whole texts.
    """
    lines = [f"<{name} row {values.get('id')} of {run}>"]
    lines += _cut("question", values.get("question") or "no question", max_lines)
    if values.get("choices"):
        lines += _cut("choices", "; ".join(map(str, values["choices"])), max_lines)
    kind = f" ({values['answer_type']})" if values.get("answer_type") else ""
    lines += _cut("gold answer", f"{values.get('answer') or 'none'}{kind}", max_lines)
    if name == "rejected":
        ended = (values.get(column) for column in ("stage", "reason", "detail"))
        lines += _cut("rejected", ": ".join(str(part) for part in ended if part), max_lines)
    if attempts := values.get("attempts"):
        graded = Counter(each["correct"] for each in attempts)
        kinds = ((True, "right"), (False, "wrong"), (None, "unscored"))
        ends = ", ".join(f"{graded[kind]} {word}" for kind, word in kinds if graded[kind])
        lines += _cut("attempts", ends, max_lines)
    for column, text in added_texts(values):
        first, *more = textwrap.wrap(f"{column}: {text}", WIDTH - 2) or [f"{column}:"]
        lines += [first, *(f"  {line}" for line in more)] if max_lines is None else [f"{first} …" if more else first]
    best = _best_trace(values)
    if best is not None:
        verdicts = [_verdict(each) for each in best.verdicts if each and each.get("name")]
        lines += _cut(_title(best), ", ".join(verdicts) or "not verified", max_lines)
        lines += [f"  {line}" for line in _first_lines(best.text, WIDTH - 2, max_lines)]
    return "\n".join(map(printable, lines))


def added_texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (name, text) pairs of a row's added columns, which the input or a stage (step of the pipeline) added.

    ``values`` holds the row's values by column. Only columns with texts, numbers or booleans, or with lists of these,
    have a pair.
    """
    added = [(name, values[name]) for name in values if name not in CORE]
    lists = [(name, value if isinstance(value, list) else [value]) for name, value in added if value is not None]
    plain = str | int | float | bool
    return [
        (name, ", ".join(str(each) for each in several))
        for name, several in lists
        if several and all(isinstance(each, plain) for each in several)
    ]


def _best_trace(values: Mapping[str, Any]) -> _BestTrace | None:
    """Return the trace (reasoning with answer) to show in the text of a row; None if the row has no traces.

    For example, rows for reinforcement learning (the output set rl) have no traces.
    """
    if messages := values.get("messages"):
        text = "\n".join(each["content"] or "" for each in messages if each["role"] == "assistant")
        scores = dict(values.get("scores") or {})
        final, verdicts = scores.pop("final", None), values.get("verdicts")
        if verdicts is None:  # a run of an earlier version
            verdicts = [{"name": name, "value": value, "failed": False} for name, value in scores.items()]
        return _BestTrace(text, final, verdicts)
    traces = values.get("traces") or []
    best = max(traces, key=lambda each: -1.0 if each["score"] is None else each["score"], default=None)
    return None if best is None else _BestTrace(best["text"], best["score"], best["verdicts"] or [], len(traces))


def _title(best: _BestTrace) -> str:
    which = "trace" if best.count == 1 else f"best of {counted(best.count, 'trace')}"
    return which if best.score is None else f"{which}, score {best.score:.3g}"


def _verdict(verdict: Mapping[str, Any]) -> str:
    """Return a verdict (the score of one aspect of a trace) as text: the name of the aspect and the value.

    If the value is None, the text contains "failed" or "not applicable" in place of the value.
    """
    if verdict["value"] is None:
        return f"{verdict['name']} {'failed' if verdict['failed'] else 'not applicable'}"
    return f"{verdict['name']} {verdict['value']:.3g}"


def _cut(title: str, text: str, max_lines: int | None) -> list[str]:
    """Return the first ``max_lines`` lines of ``title: text``, and a last line with the number of lines left out.

    If ``max_lines`` is None, all lines are returned. A line has at most :data:`WIDTH` characters. All lines but the
    first are indented.
    """
    first, *more = _first_lines(f"{title}: {text}", WIDTH - 2, max_lines)
    return [first, *(f"  {line}" for line in more)]


def _first_lines(text: str, width: int, max_lines: int | None) -> list[str]:
    """Return the first ``max_lines`` lines of a text, and a line with the number of lines that are left out.

    If ``max_lines`` is None, all lines are returned. A line is broken between words if it has more than ``width``
    characters.
    """
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, width, break_on_hyphens=False)]
    left = 0 if max_lines is None else len(lines) - max_lines
    return lines if left <= 0 else [*lines[:max_lines], f"… and {counted(left, 'more line')}"]
