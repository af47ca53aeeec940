"""Exports preference pairs for TRL's DPOTrainer: the best trace of a question, and a worse trace of the same question.

A trace is a teacher's reasoning with its answer. The best trace of a question (the *kept* trace) is the trace in its
SFT row. The worse trace is chosen from the question's other traces, which the run writes if ``write.other_traces`` is
True. If there are traces whose answers have a lower grade than the kept trace's answer, the worse trace is one of them.
Otherwise the worse trace is one of the traces with a lower score than the kept trace. In both cases the trace with the
lowest score is chosen. Of traces with equal scores, the first is chosen. A trace that is not known to be worse is never
chosen, since such a pair would train the model on noise.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.publishing.exports.records import IMAGES, TURNS_IN_PARTS, in_parts
from groundtrace.publishing.exports.turns import check_marks, in_frame
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.reading import columns_of
from groundtrace.schemas.arrow import hub_schema

SCHEMA = hub_schema(
    [
        ("id", pa.string()),
        ("prompt", TURNS_IN_PARTS),
        ("chosen", TURNS_IN_PARTS),
        ("rejected", TURNS_IN_PARTS),
        IMAGES,
        ("rejected_for", pa.string()),
        ("chosen_score", pa.float64()),
        ("rejected_score", pa.float64()),
    ]
)
WRONG_ANSWER, LOWER_SCORE = "wrong_answer", "lower_score"

Trace = Mapping[str, Any]


def worse_traces(
    others: Sequence[Trace], kept_text: str, scores: Mapping[str, float | None]
) -> list[tuple[str, Trace]]:
    """Return (reason, trace) for each trace that is known to be worse than the kept trace, the preferred one first.

    A trace is a teacher's reasoning with its answer. The kept trace is the one in the SFT row. ``kept_text`` is the
    text of the kept trace, and ``scores`` are the scores of the kept trace by name. ``others`` are the question's other
    traces. The reason states why a trace is worse than the kept trace: its answer has a lower grade
    (:data:`WRONG_ANSWER`), or only its score is lower (:data:`LOWER_SCORE`).

    Traces with :data:`WRONG_ANSWER` come first. Traces with the same reason are sorted by their scores, the lowest
    first; a trace without a score comes before them. A trace is left out if it has no text, if it has the same text as
    the kept trace, or if it has neither a grade nor a score.
    """
    kept_answer, kept_score = scores.get("outcome"), scores.get("final")

    def rank(found: tuple[str, Trace]) -> tuple[bool, float]:
        why, trace = found
        return why != WRONG_ANSWER, -1.0 if trace["score"] is None else trace["score"]

    known: list[tuple[str, Trace]] = []
    for trace in others:
        if not trace["text"] or trace["text"] == kept_text:
            continue
        answer = next((each["value"] for each in trace["verdicts"] or () if each["name"] == "outcome"), None)
        if _is_below(answer, kept_answer):
            known.append((WRONG_ANSWER, trace))
        elif _is_below(trace["score"], kept_score):
            known.append((LOWER_SCORE, trace))
    return sorted(known, key=rank)


def _is_below(score: float | None, kept: float | None) -> bool:
    return score is not None and kept is not None and score < kept


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes SFT rows as preference pairs for ``DPOTrainer``, to ``dpo.parquet`` in ``folder``.

    A pair holds the kept trace (a teacher's reasoning and answer) and a worse trace of the same question. A row without
    a worse trace, or with a trace in several turns, is left out. ``target`` describes the model to be trained.
    """

    def record(row: ExportRow) -> Record:
        if len(row.turns) > 2:
            raise LeftOut("several_turns")
        others, scores = row.fields.get("other_traces"), row.fields.get("scores") or {}
        if not others:
            raise LeftOut("no_other_trace")
        worse = worse_traces(others, row.kept_text, scores)
        if not worse:
            raise LeftOut("no_worse_trace")
        why, trace, text = _first_writable(worse, row, target)
        turns = in_parts(row)
        return {
            "id": row.id,
            "prompt": turns[:-1],
            "chosen": turns[-1:],
            "rejected": [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
            "images": embedded(row.images),
            "rejected_for": why,
            "chosen_score": scores.get("final"),
            "rejected_score": trace["score"],
        }

    return ParquetWriter(folder / "dpo.parquet", SCHEMA, record)


def _first_writable(worse: list[tuple[str, Trace]], row: ExportRow, target: Target) -> tuple[str, Trace, str]:
    """Return the first trace that can be written: its reason, the trace, and its text with converted coordinates.

    ``worse`` holds (reason, trace) pairs. The reason states why the trace is worse than the kept trace
    (:func:`worse_traces`). A trace can be written if its text has no special tokens, and if its coordinates can be
    converted for the model to be trained. Raises LeftOut if no trace can be written.
    """
    for number, (why, trace) in enumerate(worse, 1):
        try:
            check_marks([{"role": "assistant", "content": trace["text"]}], 0, is_strict=True)
            return why, trace, in_frame(trace["text"], row.sizes, target.speech)
        except LeftOut as error:
            if number == len(worse):
                raise LeftOut(error.reason, f"other_traces: {error.detail}") from error
    raise LeftOut("no_worse_trace")


def check(run: Path) -> None:
    """Raise ExportError if the run's SFT shards lack the column ``other_traces``.

    A trace is a teacher's reasoning with its answer. For each question, the column holds all traces except the best
    one. Preference pairs need these traces. ``run`` is the run folder.
    """
    if "other_traces" not in columns_of(run, "sft").names:
        raise ExportError(
            f"the format dpo needs several traces of each question, but {run} kept only the best trace: repeat its "
            "`beam run` with --set write.other_traces=true (its replies are cached, so no call is paid again)"
        )


DPO = ExportFormat(
    name="dpo",
    does="pairs of the kept trace and a worse one of the same question, for TRL's DPOTrainer",
    open={"sft": open_sft},
    drops_added=("sft",),
    check=check,
)
