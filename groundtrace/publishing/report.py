"""Writes the report of a run as one self-contained HTML file.

The report shows the funnel (the number of records that each step of the pipeline kept), the rejections, pass rates and
costs, and a gallery of rows. The gallery shows the rows whose ids have the lowest hashes, so that the report of the
same run always shows the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from groundtrace.pages.render import render
from groundtrace.pages.shown_images import ImageRoom
from groundtrace.publishing.diversity import Balance
from groundtrace.publishing.figures import (
    CALLS_NOTE,
    pass_rates,
    rejections,
    role_costs,
    score_bars,
    shown_flows,
    truncations,
)
from groundtrace.publishing.gallery import ShardRow, ShownRow, count_images, entry_of, rejected_entry
from groundtrace.publishing.reading import columns_of, read_config, read_rubrics
from groundtrace.publishing.role_endpoints import role_endpoint
from groundtrace.rewards.blindness import blind_text
from groundtrace.rewards.mined_rubrics import missing_stratum
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.stages.plumbing.malloc import release_memory
from groundtrace.storage.image_check import ROWS_AT_ONCE
from groundtrace.vision.media import MediaStore

SHOWN_ROWS = {"sft": 24, "rl": 12}
EXAMPLES = 3
_COLUMNS = (
    "id", "source", "license", "images", "overlays", "frames", "question", "answer", "answer_type", "choices", "points",
    "boxes", "scores", "verdicts", "pass_rate", "k", "attempts", "messages", "media", "media_names",
    "traces",
)  # fmt: skip


@dataclass(frozen=True)
class Example:
    """Holds a rejected record as an example of a reason: its id, the detail of its rejection, and its gallery entry.

    ``detail`` is a text about why this record was rejected. ``entry`` is what the report shows of the record, such as
    its image and its trace (a teacher's reasoning with its answer). It is None if the record has no question yet.
    """

    id: str
    detail: str
    entry: ShownRow | None


def write_report(
    staging: Path,
    run_root: Path,
    summary: RunSummary,
    store: MediaStore,
    tables: duckdb.DuckDBPyConnection,
    spread: Sequence[Balance],
) -> None:
    """Write the report of a run, ``report.html``, into the folder ``staging``.

    ``staging`` holds the shards (Parquet files) and ``rubrics.json``. The title is the name of the run folder
    ``run_root``. ``summary`` is the content of ``run.json``. ``store`` reads the images of rejected records, because
    their rows hold only references to image files. ``tables`` is a database with the run's rows
    (:func:`~groundtrace.publishing.reading.open_tables`). ``spread`` states how the rows are distributed, e.g. over
    sources and answer types (:func:`~groundtrace.publishing.diversity.balances`).

    Raises :class:`groundtrace.publishing.reading.InspectError` for shards that cannot be read.
    """
    page = report_page(staging, run_root, summary, store, tables, spread)
    (staging / "report.html").write_text(page, "utf-8", errors="backslashreplace")


def report_page(
    staging: Path,
    run_root: Path,
    summary: RunSummary,
    store: MediaStore,
    tables: duckdb.DuckDBPyConnection,
    spread: Sequence[Balance],
    **about: Any,
) -> str:
    """Return the HTML page with the report of a run, which :func:`write_report` writes to a file.

    ``staging`` is the folder with the shards (Parquet files) and ``rubrics.json``. The title is the name of the run
    folder ``run_root``. ``summary`` is the content of ``run.json``. ``store`` reads the images of rejected records.
    ``tables`` is a database with the run's rows. ``spread`` states how the rows are distributed, e.g. over sources.
    If the run did not finish, ``about`` holds the facts about its failure, as further variables of the HTML template.
    """
    release_memory()
    rates, examples = pass_rates(tables, summary), _examples(tables)
    schema = columns_of(staging, "sft")
    scores = score_bars(tables, [each.name for each in schema.field("scores").type]) if "scores" in schema.names else []
    ids = {side: _lowest_ids(tables, side, SHOWN_ROWS[side]) for side in summary.sets}
    rubrics, config = read_rubrics(staging), read_config(staging)
    rows = {side: _rows_of(staging / side, wanted) for side, wanted in ids.items()}
    room = ImageRoom(sum(count_images(row) for side in rows.values() for row in side))
    room.images += sum(map(len, examples.values()))
    return render(
        "groundtrace.publishing",
        "report.html.jinja",
        name=run_root.name,
        run=summary,
        blind=None if summary.blind is None else blind_text(summary.blind),
        flows=shown_flows(summary),
        rejections=rejections(summary),
        examples={why: _shown(staging, found, room, store) for why, found in examples.items()},
        rates=rates,
        scores=scores,
        costs=[(cost, role_endpoint(config, cost.role).text) for cost in role_costs(summary)],
        calls_note=CALLS_NOTE,
        truncations=truncations(summary),
        balances=spread,
        rubrics=rubrics,
        missing_stratum=missing_stratum(rubrics) if rubrics else "",
        galleries={side: [entry_of(row, room) for row in found] for side, found in rows.items()},
        **about,
    )


def _lowest_ids(tables: duckdb.DuckDBPyConnection, side: str, count: int) -> list[str]:
    """Return the ids of at most ``count`` rows of a training set, the same rows in each report of the same run.

    ``side`` is the name of the training set and of its table, ``sft`` or ``rl``. The result holds the ids whose SHA-256
    hashes are the lowest.
    """
    found = tables.execute(f"SELECT id FROM {side} ORDER BY sha256(id), id LIMIT {count}")
    return [row_id for (row_id,) in found.fetchall()]


def _rows_of(folder: Path, ids: Sequence[str]) -> list[ShardRow]:
    """Return the rows with these ids from the shards in ``folder``, in the order of ``ids``.

    To save memory, only the ids are read completely. Other columns are read only in row groups (blocks of a Parquet
    file) that contain a wanted row, and only up to the last wanted row.
    """
    found: dict[str, ShardRow] = {}
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as shard:
            added = [column.name for column in added_columns(shard.schema_arrow)]
            columns = [name for name in (*_COLUMNS, *added) if name in shard.schema_arrow.names]
            for group in range(shard.num_row_groups):
                held = set(shard.read_row_group(group, columns=["id"])["id"].to_pylist()) & set(ids)
                batches = shard.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=columns) if held else ()
                for batch in batches:
                    found |= {row["id"]: row for row in batch.to_pylist() if row["id"] in held}
                    if held <= found.keys():
                        break
    return [found[row_id] for row_id in ids]


def _examples(tables: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return examples of rejected records: for each (stage, reason), pairs of a record's id and the rejection's detail
    (a text about why this record was rejected).

    A stage is a step of the pipeline. Each stage and reason has at most :data:`EXAMPLES` records. They are the records
    whose ids have the lowest hashes.
    """
    query = f"""SELECT stage, reason, id, detail FROM rejected QUALIFY
        row_number() OVER (PARTITION BY stage, reason ORDER BY sha256(id), id) <= {EXAMPLES}
        ORDER BY stage, reason, sha256(id), id"""
    examples: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for stage, reason, row_id, detail in tables.execute(query).fetchall():
        examples.setdefault((stage, reason), []).append((row_id, detail or ""))
    return examples


def _shown(staging: Path, found: Sequence[tuple[str, str]], room: ImageRoom, store: MediaStore) -> list[Example]:
    """Return examples of rejected records for the report page. All of them were rejected for the same reason.

    ``staging`` is the folder with the shards (Parquet files). ``room`` holds how many images and bytes the page may
    still embed, and ``store`` reads the images. ``found`` holds the id of each row, and a detail of its rejection. The
    page shows the question, the image and the trace (a teacher's reasoning with its answer) of each example that has a
    question.
    """
    entries: dict[str, ShownRow] = {}
    for row in _rows_of(staging / "rejected", [row_id for row_id, _ in found]):
        if row.get("question"):
            entries[row["id"]] = rejected_entry(row, room, store)
        else:
            room.images -= 1
    return [Example(row_id, detail, entries.get(row_id)) for row_id, detail in found]
