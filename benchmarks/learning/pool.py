"""Makes a pool of traces, a share of which has one planted fault, and the training rows that each filter leaves.

The right traces are the SFT rows of a run of the pipeline over rendered scenes. Each also gets its fault
(:mod:`benchmarks.learning.faults`), and both texts go through the pipeline's own verifier at its default settings, with
the embedded engine as detector, segmenter and judge. The share of faults decides which of the two is in the pool.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.learning.faults import RightTrace, plant
from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.grading.input_record import parse_record
from groundtrace.inference.models import Models
from groundtrace.inference.request import Completion
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.case import case_of
from groundtrace.rewards.locating import ObjectMasks, served_by
from groundtrace.rewards.verifier import verify
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, MediaRef, Question, RawRecord
from groundtrace.stages.generate_traces import as_trace
from groundtrace.stages.ingest_records import assemble
from groundtrace.stages.verify_traces import VerifySettings, good_traces, why_rejected
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.media import MediaStore

FAULT_SEED = 7
VERIFIED_AT_ONCE = 64
COLUMNS = (
    "id", "source", "license", "images", "question", "answer", "answer_type", "choices", "gold_boxes", "attempts",
    "entities", "pointable", "messages",
)  # fmt: skip
"""The columns of an SFT row that the trainer reads. The others describe its trace, and would be wrong for a fault."""

VERIFIED, RIGHT_ONLY, UNFILTERED = "verified", "right answers only", "unfiltered"
WHOLE_POOL, MENDED = "whole pool", "unfiltered, without faults"
ALL_VERIFIED = "all verified"
ARMS = (VERIFIED, RIGHT_ONLY, UNFILTERED, WHOLE_POOL, ALL_VERIFIED, MENDED)


@dataclass(frozen=True)
class VerifiedText:
    """A text of the pool: whether its answer is right, whether the verifier keeps it, and the reason."""

    text: str
    is_right: bool
    is_kept: bool
    reason: str


@dataclass(frozen=True)
class PoolEntry:
    """A question of the pool with its right trace and a faulty trace, which replaces the right one if rank < share."""

    id: str
    kind: str
    rank: float
    right: VerifiedText
    faulty: VerifiedText

    def is_faulty(self, share: float) -> bool:
        """Whether a pool with this share of faults has the faulty trace."""
        return self.rank < share

    def at(self, share: float) -> VerifiedText:
        """Return the trace that is in a pool with this share of faults."""
        return self.faulty if self.is_faulty(share) else self.right


def select(entries: Sequence[PoolEntry], arm: str, share: float, rows: int, seed: int) -> list[tuple[str, str]]:
    """Return the id and text of the rows that an arm trains on.

    They are ``rows`` rows; for the whole pool all rows, and for all verified rows all that the verifier keeps.

    All arms take their rows from the pool in the same order, which the seed determines. Raises ValueError if a filter
    leaves too few rows.
    """
    order = random.Random(seed).sample(list(entries), len(entries))
    if arm in (VERIFIED, ALL_VERIFIED):
        order = [entry for entry in order if entry.at(share).is_kept]
    elif arm == RIGHT_ONLY:
        order = [entry for entry in order if entry.at(share).is_right]
    if arm in (WHOLE_POOL, ALL_VERIFIED):
        rows = len(order)
    if len(order) < rows:
        raise ValueError(f"{arm!r} has {len(order)} rows of a pool with {share:.0%} faults; {rows} are wanted")
    chosen = [entry.right if arm == MENDED else entry.at(share) for entry in order[:rows]]
    return [(entry.id, judged.text) for entry, judged in zip(order, chosen, strict=False)]


def write_rows(run: Path, chosen: Sequence[tuple[str, str]], folder: Path) -> None:
    """Write ``sft/`` shards to the folder: for each chosen id and text, the run's row with the text as its answer.

    An id may occur several times, with different texts. The rows are in the order of the run's rows.
    """
    table = rows_of(run)
    places = {id: place for place, id in enumerate(table["id"].to_pylist())}
    chosen = sorted(chosen, key=lambda each: places[each[0]])
    table = table.take([places[id] for id, _ in chosen])
    turns = [
        [turn if turn["role"] != "assistant" else {**turn, "content": text} for turn in turns]
        for (_, text), turns in zip(chosen, table["messages"].to_pylist(), strict=True)
    ]
    place = table.schema.get_field_index("messages")
    table = table.set_column(place, "messages", pa.array(turns, table.schema.field("messages").type))
    (folder / "sft").mkdir(parents=True, exist_ok=True)
    partial = folder / "sft" / ".partial"
    pq.write_table(table, partial)
    partial.rename(folder / "sft" / "train-00000-of-00001.parquet")


def rows_of(run: Path) -> pa.Table:
    """Return the run's SFT rows, with the columns that the trainer reads."""
    return pa.concat_tables(
        pq.read_table(path, columns=list(COLUMNS)).select(COLUMNS) for path in sorted((run / "sft").glob("*.parquet"))
    )


def load_pool(run: Path, records: Path, path: Path) -> list[PoolEntry]:
    """Return the pool of a run over these records; it is made once, and then read from ``path``."""
    if not path.is_file():
        entries = asyncio.run(_make(run, records))
        partial = path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in entries), "utf-8")
        partial.rename(path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        PoolEntry(**{**line, "right": VerifiedText(**line["right"]), "faulty": VerifiedText(**line["faulty"])})
        for line in lines
    ]


def caught(entries: Sequence[PoolEntry]) -> dict[str, dict[str, int]]:
    """Return, for each kind of fault, how many were planted, how many the verifier kept, and how many have a right
    answer.

    For right traces, it returns how many were kept.
    """
    table: dict[str, dict[str, int]] = {}
    for kind, judged in [("none", e.right) for e in entries] + [(e.kind, e.faulty) for e in entries]:
        row = table.setdefault(kind, {"traces": 0, "kept": 0, "right": 0})
        row["traces"] += 1
        row["kept"] += judged.is_kept
        row["right"] += judged.is_right
    return table


async def _make(run: Path, records: Path) -> list[PoolEntry]:
    rows = rows_of(run).select(["id", "entities", "pointable", "messages"]).to_pylist()
    entries: list[PoolEntry] = []
    async with engine_masks(records) as masks_of:
        for start in range(0, len(rows), VERIFIED_AT_ONCE):
            some = rows[start : start + VERIFIED_AT_ONCE]
            entries += await asyncio.gather(*(_entry(row, masks_of(row["id"])) for row in some))
    return entries


@contextlib.asynccontextmanager
async def engine_masks(records: Path) -> AsyncIterator[Callable[[str], ObjectMasks]]:
    """Give a function that returns the masks of a question by its id; the embedded engine finds the objects."""
    questions = _questions(records)
    settings = ModelsSettings(
        tuple(embedded_endpoints().items()), tuple(embedded_roles().items()), ":memory:", str(records), str(records)
    )
    models, served = Models(settings, cached=False), served_by(settings)
    try:
        yield lambda id: ObjectMasks(questions[id], Session(models), served)
    finally:
        await models.close()


def _questions(records: Path) -> dict[str, Question]:
    """Return the questions of a folder of records, by id."""
    store = MediaStore(str(records), str(records))
    found: dict[str, Question] = {}
    for number, line in enumerate((records / "records.jsonl").read_text("utf-8").splitlines(), 1):
        record = parse_record(RawRecord(number, line))
        draft = assemble(record, {uri: check_medium(uri, store) for uri in record.media})
        assert isinstance(draft, Draft)
        found[draft.id] = draft.question
    return found


async def _entry(row: Mapping, masks: ObjectMasks) -> PoolEntry:
    question = masks.question
    medium: MediaRef = question.media[0]
    text, entities = row["messages"][-1]["content"], tuple(row["entities"])
    gold: tuple[Box, ...] = question.gold_boxes or ()
    planted = plant(
        RightTrace(row["id"], text, question.answer, gold, entities, medium.width, medium.height), FAULT_SEED
    )
    found = [await judged(each, masks, entities, tuple(row["pointable"])) for each in (text, planted.text)]
    return PoolEntry(row["id"], planted.kind, planted.rank, *found)


async def judged(text: str, masks: ObjectMasks, entities: tuple[str, ...], pointable: tuple[str, ...]) -> VerifiedText:
    """Return the decision of the pipeline's verify stage on a trace, at its default settings."""
    settings = VerifySettings()
    trace = as_trace(0, Completion(text), masks.question.media)
    found = await verify(case_of(trace, masks, entities, pointable), settings.gate)
    trace = replace(trace, verdicts=found.verdicts, score=found.score)
    outcome = next(verdict for verdict in trace.verdicts if verdict.name == "outcome")
    kept = bool(good_traces((trace,), settings))
    return VerifiedText(text, outcome.value == 1.0, kept, "" if kept else why_rejected((trace,), settings)[0])
