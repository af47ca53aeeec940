"""Opens an audit of a run, stores its judgements in ``RUN/reviews``, and counts them for the estimate.

In an audit, a person judges a random sample of a run's traces (a teacher's reasoning with answer). From these
judgements, :mod:`groundtrace.publishing.view.audit_estimate` estimates how often the run's automatic verification is
right. About half of the sample are kept (SFT) rows, if the run has enough of them. The others are records whose traces
the verification rejected. Among these records, each reason of rejection has about the same share as in the whole run.
Exception: the sample has at least five records for each reason (or all, if the run has fewer).

``audit.json`` holds the sample, with a random name. ``judgements.jsonl`` holds one line for each judgement, with the
name of its sample, its time, and a SHA-256 of all that was judged: the trace with its question and gold answer. Only
judgements of the present sample are counted. If a repeated run has changed a trace or its question, the old judgements
of this trace are ignored, and it is judged again. If a repeated run keeps or rejects other rows, the sample is not a
random sample of its rows, so a new one must be drawn.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.audit_estimate import KEPT, Judged
from groundtrace.publishing.view.audit_sample import (
    SAMPLE,
    draw_ids,
    read_sample,
    size_note,
    strata_digest,
    write_sample,
)
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.journal import append_line, read_lines
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.schemas.text import counted, utc_now

JUDGEMENTS = Path("reviews") / "judgements.jsonl"
WHOLE = "whole trace"
"""The subject of a judgement about a whole trace (reasoning with answer), and not about one verdict on the trace.

The subject of a judgement about one verdict (automatic score of one aspect) is the verdict's name. Only judgements of
whole traces are used to estimate how often the run's verification is right.
"""
CHOICES = ("right", "wrong", "unclear")


@dataclass(frozen=True)
class AuditedRow:
    """Holds a record that was drawn for an audit, in which a person judges a sample of a run's records.

    ``id`` is the record's id. ``stratum`` is the name of the group from which it was drawn: :data:`KEPT` for SFT rows,
    or the stage (pipeline step) and reason of its rejection. ``trace`` is a SHA-256 of all that the person judges: its
    best trace (reasoning with answer), its turns, the question and the gold answer. ``verdicts`` are the names of the
    verdicts on this trace that have a value.
    """

    id: str
    stratum: str
    trace: str
    verdicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """Holds a person's judgement of a trace (reasoning with answer), or of one automatic score of this trace.

    Attributes:
        id: the id of the record.
        trace: the SHA-256 of the judged trace with its question and gold answer.
        about: :data:`WHOLE` for the whole trace, or the name of the judged verdict (automatic score of one aspect).
        choice: "right", "wrong" or "unclear" (:data:`CHOICES`); "" means that the person undid the earlier judgement.
        reviewer: the name of the person.
        at: the time of the judgement, in UTC.
        sample: the name of the sample for which the record was drawn.
    """

    id: str
    trace: str
    about: str
    choice: str
    reviewer: str = ""
    at: str = ""
    sample: str = ""


class Audit:
    """Holds the sample of a run's audit, and reads and writes the judgements of one ``reviewer``.

    In an audit, a person judges a sample of a run's traces (reasoning with answer). ``run`` is the run folder.
    ``sample`` is the random name of the sample. Judgements with another name are ignored, because they are about an
    earlier sample. This also holds for a row that is in both samples.

    Attributes:
        strata: the number of rows in each stratum (group of records) of the run.
        rows: the records of the sample.
        reviewer: the name of the person who judges now.
        note: a line for the user if the sample is larger or smaller than requested; else "".

    Raises :class:`groundtrace.publishing.reading.InspectError` if the file of judgements cannot be read.
    """

    def __init__(
        self,
        run: Path,
        strata: Mapping[str, int],
        rows: Sequence[AuditedRow],
        sample: str,
        reviewer: str = "",
        note: str = "",
    ) -> None:
        self._run, self.note = run, note
        self.strata, self.rows, self.reviewer, self._sample = dict(strata), tuple(rows), reviewer, sample
        self._all = [each for each in read_judgements(run) if each.sample == sample]

    @property
    def verdicts(self) -> list[str]:
        """Return the names of the verdicts (automatic scores) that have a value for at least one trace of the sample.

        The names are in alphabetical order. The page offers all these names for each trace, and not only the names of
        the trace's own verdicts. A rejected trace can have fewer verdicts than a kept trace, so its own names would
        show that it was rejected.
        """
        return sorted({name for row in self.rows for name in row.verdicts})

    @property
    def reviewers(self) -> list[str]:
        """Return the names of all reviewers who have judged something of this sample, in alphabetical order."""
        return sorted({each.reviewer for each in self._all})

    @property
    def judgements(self) -> dict[tuple[str, str], Judgement]:
        """Return the reviewer's valid judgements by (record id, subject).

        The subject is :data:`WHOLE` for the whole trace (reasoning with answer), or the name of a verdict (automatic
        score of one aspect). Only the last judgement of a subject in the present trace is valid, and only if the
        reviewer did not undo it.
        """
        return _last(self._all, self.reviewer, {row.id: row.trace for row in self.rows})

    @property
    def changed(self) -> list[str]:
        """Return the ids of the records that the reviewer must judge again, because a repeated run changed their trace.

        The reviewer judged an earlier trace (reasoning with answer) of such a record as a whole, but not the present
        trace. Until these records are judged again, the other judged records are not a random sample of the run's rows.
        """
        mine = (each for each in self._all if each.reviewer == self.reviewer and each.about == WHOLE)
        choices = {(each.id, each.trace): each.choice for each in mine}
        judged = {record_id for (record_id, _), choice in choices.items() if choice}
        return [row.id for row in self.rows if row.id in judged and not choices.get((row.id, row.trace))]

    def judge(self, record_id: str, about: str, choice: str) -> Judgement:
        """Store a judgement of the reviewer, and return it.

        ``record_id`` is a record of the sample. ``about`` is what is judged: :data:`WHOLE` for the whole trace
        (reasoning with answer), or one of :attr:`verdicts` (names of automatic scores of one aspect). ``choice`` is
        "right", "wrong" or "unclear", or "" to undo the earlier judgement. Raises ValueError for a record outside the
        sample, or an unknown subject or choice.
        """
        row = next((each for each in self.rows if each.id == record_id), None)
        if row is None:
            raise ValueError(f"the record {record_id!r} is not in the sample: judge one of its records")
        if about not in (WHOLE, *self.verdicts):
            subjects = ", ".join((WHOLE, *self.verdicts))
            raise ValueError(f"{about!r:.60} is not a part of the trace that can be judged: use one of {subjects}")
        if choice not in (*CHOICES, ""):
            raise ValueError(f"{choice!r} is not a judgement: use one of {', '.join(CHOICES)}")
        made = Judgement(record_id, row.trace, about, choice, self.reviewer, utc_now(), self._sample)
        append_line(self._run, JUDGEMENTS, asdict(made))
        self._all.append(made)
        return made

    def counted(self) -> list[Judged]:
        """Return for each stratum (group of records) how many traces this reviewer judged as right, wrong or unclear.

        A trace is a teacher's reasoning with its answer. Only judgements of whole traces count. The stratum of the kept
        rows comes first.
        """
        judged, found = self.judgements, defaultdict[str, Counter[str]](Counter)
        for row in self.rows:
            made = judged.get((row.id, WHOLE))
            found[row.stratum][made.choice if made else "open"] += 1
        names = sorted(self.strata, key=lambda name: (name != KEPT, name))
        return [Judged(name, self.strata[name], *(found[name][each] for each in (*CHOICES, "open"))) for name in names]

    def kappa(self) -> dict[str, tuple[float, int]]:
        """Return the agreement of this reviewer with each other reviewer, by the name of the other reviewer.

        The agreement is a pair: Cohen's kappa (1 for full agreement, 0 for agreement by chance), and the number of rows
        from which it was computed. These are the rows whose whole trace (reasoning with answer) both reviewers judged.
        A reviewer without such rows is left out.
        """
        mine, traces = self.judgements, {row.id: row.trace for row in self.rows}
        others = sorted({each.reviewer for each in self._all} - {self.reviewer})
        pairs = {name: _pairs(mine, _last(self._all, name, traces)) for name in others}
        return {name: (_kappa(both), len(both)) for name, both in pairs.items() if both}


def read_judgements(run: Path) -> Iterator[Judgement]:
    """Yield all judgements in the run folder ``run`` in their order, also those of earlier samples and undone ones.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the file of judgements cannot be read.
    """
    return read_lines(run, JUDGEMENTS, _judgement)


def _judgement(fields: dict[str, Any]) -> Judgement:
    """Return the judgement in a line of ``judgements.jsonl``. ``fields`` is the line after it was parsed as JSON.
    Raises TypeError or ValueError for an invalid line.
    """
    made = Judgement(**fields)
    if not all(isinstance(each, str) for each in vars(made).values()):
        raise TypeError("all fields of a judgement must be strings")
    if made.choice not in (*CHOICES, ""):
        raise ValueError(made.choice)
    return made


def _last(
    judgements: Sequence[Judgement], reviewer: str, traces: Mapping[str, str]
) -> dict[tuple[str, str], Judgement]:
    """Return a reviewer's last judgements by (record id, subject), one for each record and subject.

    The subject is :data:`WHOLE` for the whole trace (reasoning with answer), or the name of a verdict (automatic score
    of one aspect) on the trace. ``traces`` holds the SHA-256 of each record's present trace. A judgement of another
    trace is left out, and so is a judgement that the reviewer undid.
    """
    mine = (each for each in judgements if each.reviewer == reviewer and each.trace == traces.get(each.id))
    found = {(each.id, each.about): each for each in mine}
    return {key: each for key, each in found.items() if each.choice}


def _pairs(
    mine: Mapping[tuple[str, str], Judgement], theirs: Mapping[tuple[str, str], Judgement]
) -> list[tuple[str, str]]:
    """Return the choices of two reviewers, as one pair for each trace that both reviewers judged as a whole.

    ``mine`` and ``theirs`` hold the judgements of the two reviewers by (record id, subject). The first choice of a pair
    is from ``mine``. The subject is :data:`WHOLE` for a whole trace (reasoning with answer).
    """
    return [(mine[key].choice, theirs[key].choice) for key in mine.keys() & theirs.keys() if key[1] == WHOLE]


def _kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Return Cohen's kappa, the agreement of two reviewers. Each pair holds their choices for one trace (reasoning with
    answer).

    There is one exception: if all choices in all pairs are the same, the formula is 0 / 0, and the result is 1.0.
    """
    count = len(pairs)
    first, second = (Counter(each[side] for each in pairs) for side in (0, 1))
    agreed = sum(a == b for a, b in pairs) / count
    chance = sum(first[each] * second[each] for each in first) / count**2
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def open_audit(run: Path, rows: ViewedRows, images: RowImages, count: int, reviewer: str) -> Audit:
    """Return the audit of a run: the sample of rows that a person judges, with the earlier judgements.

    If the run has no sample yet, a sample of about ``count`` rows is drawn first. ``rows`` and ``images`` read the
    run's rows and their images. ``reviewer`` is the name of the person who judges.

    Raises :class:`groundtrace.publishing.reading.InspectError` in three cases: the stored sample was drawn with another
    ``count``, or was edited; since the draw, the run was repeated, and now keeps or rejects other rows; or the run has
    no kept row with a trace.
    """
    strata: dict[str, list[str]] = defaultdict(list)
    of = dict(rows.strata())
    for record_id, stratum in of.items():
        strata[stratum].append(record_id)
    if not strata.get(KEPT):
        raise InspectError(f"{run} has no SFT row, so there is nothing to audit: choose a run with SFT rows")
    sample, digest = read_sample(run), strata_digest(of)
    if sample is None:
        write_sample(run, count, draw_ids(strata, count), digest)
        sample = read_sample(run)
    if sample is None:
        raise InspectError(f"{run / SAMPLE} was removed while it was read: run the command again")
    if sample["count"] != count:
        raise InspectError(
            f"the sample of {counted(len(sample['ids']), 'row')} in {run / SAMPLE} was drawn with --audit "
            f"{sample['count']}, not --audit {count}: use --audit {sample['count']}, or move this file away to draw a "
            "new sample, for which the judgements so far are not counted"
        )
    if not {"strata_sha256", "name"} <= sample.keys():
        raise InspectError(
            f"the sample in {run / SAMPLE} was drawn by an earlier version of Groundtrace, which did not record the "
            "sample of each judgement: move this file away to draw a new sample, for which the judgements so far are "
            "not counted"
        )
    if sample["strata_sha256"] != digest:
        raise InspectError(
            f"the sample in {run / SAMPLE} is not a random sample of this run, because the run was repeated since and "
            "now keeps or rejects other rows: move this file away to draw a new sample, for which the judgements so "
            "far are not counted"
        )
    if sample["ids"] != draw_ids(strata, count):
        raise InspectError(
            f"the ids in {run / SAMPLE} are not those that --audit {count} draws from this run, because the file was "
            "edited: move it away to draw a new sample, for which the judgements so far are not counted"
        )
    audited = [_audited_row(each, of[each], rows, images) for each in sample["ids"]]
    note = size_note(count, len(audited), len(strata[KEPT]))
    sizes = {name: len(ids) for name, ids in strata.items()}
    return Audit(run, sizes, audited, sample["name"], reviewer, note)


def _audited_row(record_id: str, stratum: str, rows: ViewedRows, images: RowImages) -> AuditedRow:
    """Return a record of the sample, with its stratum (group of records), its best trace (reasoning with answer) and
    the verdicts (automatic scores) on this trace.
    """
    n = rows.number_of(record_id)
    place = None if n is None else rows.place_of(n)
    assert place is not None
    record = record_of(place, images)
    trace = record["traces"][0]
    named = tuple(each["name"] for each in trace["verdicts"] if each["value"] is not None)
    return AuditedRow(record_id, stratum, judged_digest(record), named)


def judged_digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that a person judges in an audit.

    This is the best trace (reasoning with answer) of a record, its turns, the question and the gold answer. ``record``
    holds the data of the record (:func:`groundtrace.publishing.view.record.record_of`). The result is "" if the record
    has no trace.
    """
    if not record["traces"]:
        return ""
    turns = [{name: each for name, each in turn.items() if name not in ("parts", "marks")} for turn in record["turns"]]
    judged = [*(record[name] for name in ("question", "choices", "answer")), record["traces"][0]["sha256"], turns]
    return hashlib.sha256(json.dumps(judged).encode()).hexdigest()
