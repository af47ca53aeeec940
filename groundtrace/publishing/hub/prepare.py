"""Puts all files to publish in one folder: shards (Parquet files), data card, ``run.json``, and parts on request.

The parts on request are the rejected records and the rubrics. Shards that are published unchanged are linked, not
copied. Two digests are computed. ``run_sha256`` identifies the run by its config, its code and its training shards.
``published_sha256`` identifies the published content, and its first digits are in the tag that marks the publication in
the repository.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.card import write_card
from groundtrace.publishing.columns import kept_columns
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.hub.card_check import problems_of
from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.private import change_of, public_artifact, public_summary
from groundtrace.publishing.hub.selection import Selection, count_rows, select_rows
from groundtrace.publishing.hub.shards import Change, check_shard, copy_rows
from groundtrace.publishing.hub.sources import strictest
from groundtrace.publishing.publication import FlaggedRows, Publication, SourceUse
from groundtrace.publishing.reading import open_tables, read_config, read_rubrics, read_summary
from groundtrace.publishing.view.audit_figures import AuditFigures, audit_figures
from groundtrace.publishing.view.present_rows import present_rows
from groundtrace.publishing.view.reviews import Mark, flags_of, known_flags
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import own_file, read_regular

REJECTED, RUBRICS = "rejected", "rubrics"
EXTRAS = (REJECTED, RUBRICS)
"""The parts of a run that are published only on request. Each becomes a config (a named part of the data set)."""
AUDIT = "audit"
"""The name by which a user requests that the data card shows the result of the run's audit.

In an audit, a person judges traces of the run.
"""
ARTIFACTS = ("batch_plan.json", "judges.json", "crops.json")
"""Further files of a run that are published.

A file is in this list if the data card also shows its content, or if the file is needed to use the rows.
"""
_INTERVAL = pa.list_(pa.float64())
RUBRIC_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("description", pa.string()),
        ("criteria", pa.string()),
        ("applicability", pa.float64()),
        ("applicability_interval", _INTERVAL),
        ("pass_rate", pa.float64()),
        ("pass_rate_interval", _INTERVAL),
        ("kept", pa.bool_()),
        ("stratum", pa.string()),
        ("reason", pa.string()),
        ("uncertain", pa.bool_()),
        ("uncertain_about", pa.list_(pa.string())),
    ]
)
"""The schema of rubrics as Parquet rows.

Rubrics are published as Parquet, because ``datasets`` reads all configs of a data set in one format.
"""
TAG_DIGITS = 12
NEEDED = ("id", "source", "license", "lineage", "images")
NEEDED_REJECTED = ("id", "source", "license", "media", "detail", "cost_usd")
"""The columns that rejected rows must have. The columns that training rows must have are in :data:`NEEDED`.

The columns ``source`` and ``license`` decide whether a rejected row is published. Private data are removed from the
other columns.
"""


@dataclass(frozen=True)
class Prepared:
    """Describes the content to publish on the Hub, which is in the folder ``folder``.

    Attributes:
        folder: the folder with all files to publish.
        summary: the content of the run's ``run.json``.
        files: the SHA-256 of each file by its path. A file has the same path in the folder and in the repository.
        uses: for each source (data set from which rows come) its licence, its number of rows, and whether they are
            published.
        flagged: the rows whose records a reviewer has flagged, and whether they are left out.
        rows: the numbers of published rows by output set (sft, rl or rejected).
        audit: the result of the run's audit, in which a person judged traces (reasoning with answer); None if it is not
            published.
        kept_columns: the names of the published columns that the run copied from its input (setting ``input.keep``).
        run_sha256: the digest of the run's config, code and training shards (Parquet files).
        published_sha256: the digest of the published content.
    """

    folder: Path
    summary: RunSummary
    files: Mapping[str, str]
    uses: Sequence[SourceUse]
    flagged: FlaggedRows
    rows: Mapping[str, int]
    audit: AuditFigures | None
    kept_columns: Sequence[str]
    run_sha256: str
    published_sha256: str

    @property
    def tag(self) -> str:
        """Return the tag of the published content in the repository, such as ``run-0123456789ab``."""
        return f"run-{self.published_sha256[:TAG_DIGITS]}"

    def size_bytes(self, name: str) -> int:
        """Return the size in bytes of the file with the path ``name``."""
        return (self.folder / name).stat().st_size


def prepare(
    run: Path,
    staging: Path,
    repo: str,
    extras: Collection[str] = (),
    asked: Collection[str] = (),
    without_flagged: bool = False,
) -> Prepared:
    """Put all files to publish into the empty folder ``staging``, and describe them.

    ``run`` is the folder of a finished run, and ``repo`` is the name of the repository, as ORG/NAME. Three parts of a
    run are published only on request: the rejected records, the rubrics (both in :data:`EXTRAS`), and the result of the
    audit (:data:`AUDIT`). ``extras`` holds the names of the requested parts. ``asked`` holds the names of sources (data
    sets from which rows come). The rows of these sources are published whatever their licence is. If
    ``without_flagged`` is True, the rows of all records that a reviewer has flagged in ``beam view`` are left out, also
    those of rejected records.

    Raises PublishError if records of the run were lost, if no row may be published, or if the data card is not valid.
    Raises :class:`groundtrace.publishing.reading.InspectError` for a folder without a finished run, or without the
    requested audit. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file to publish is a link to a file
    outside the run folder.
    """
    summary = read_summary(run, digests=True)
    read_config(run)  # the card needs it
    audit = audit_figures(run) if AUDIT in extras else None
    sets = [*summary.sets, *([REJECTED] if REJECTED in extras else [])]
    shards = {name: shards_of(run, name) for name in {*summary.sets, REJECTED}}
    check_balance(run, summary, shards)
    flags = flags_of(run) if without_flagged else known_flags(run)
    of_sets = {name: shards[name] for name in sets}
    selection = select_rows(of_sets, asked, frozenset(flags) if without_flagged else frozenset())
    if without_flagged:
        outdated = count_rows(of_sets, selection.sources, _outdated(run, summary, flags))
        flagged = FlaggedRows(selection.flagged, True, sum(outdated.values()))
    else:
        flagged = FlaggedRows(count_rows(of_sets, selection.sources, flags))
    rows, uses = selection.rows, selection.uses
    for name in sets:
        _put_shards(staging / name, shards[name], selection, change_of(name, summary))
    published = replace(summary.counts, sft=rows.get("sft", 0), rl=rows.get("rl", 0))
    extra = _put_extras(run, staging, extras, rows)
    digests = {name: sha256_of(staging / name) for name in _files(staging)}
    run_sha256 = digest_of(summary, {str(f.relative_to(run)): sha256_of(f) for s in summary.sets for f in shards[s]})
    published_sha256 = digest_of(summary, {**digests, **_audit_digest(audit, flagged)})
    publication = Publication(repo, run_sha256, tuple(uses), strictest(uses), extra, audit, flagged)
    _put_words(run, staging, summary, replace(summary, counts=published), publication)
    files = {name: digests.get(name) or sha256_of(staging / name) for name in _files(staging)}
    problems = problems_of((staging / "README.md").read_text("utf-8"), list(files))
    if problems:
        raise PublishError(
            f"the Hub would refuse the data card (README.md) of this run: {'; '.join(problems[:3])}: shorten the name "
            "of the recipe or of the input, and repeat the run"
        )
    kept = kept_columns(run, [name for name in sets if rows[name]])
    return Prepared(staging, summary, files, uses, flagged, rows, audit, kept, run_sha256, published_sha256)


def _outdated(run: Path, summary: RunSummary, flags: Mapping[str, Mark]) -> set[str]:
    """Return the ids of the flagged records whose flag was set on another version of the row.

    ``flags`` are the marks (flag, tags and note) of the flagged records by id, and ``summary`` is the content of
    ``run.json``.
    """
    with open_tables(run, summary) as tables:
        present = present_rows(tables, flags)
    return {record_id for record_id, row in present.items() if not flags[record_id].is_about(*row)}


def _audit_digest(audit: AuditFigures | None, flagged: FlaggedRows) -> dict[str, str]:
    """Return a dict that maps the name :data:`AUDIT` to the SHA-256 of all facts in the data card's section on the
    audit. The dict is empty if ``audit`` is None, because the card then has no such section.

    The tag of a publication depends on these facts. So a card with other facts is uploaded even if the rows are the
    same. ``flagged`` holds the numbers of rows that a reviewer has flagged; they are among the facts of this section.
    """
    if audit is None:
        return {}
    facts = [asdict(audit), *([dict(flagged.rows), flagged.are_left_out] if flagged.total else [])]
    return {AUDIT: hashlib.sha256(json.dumps(facts).encode()).hexdigest()}


def check_balance(run: Path, summary: RunSummary, shards: Mapping[str, Sequence[Path]]) -> None:
    """Check that each record that a run read is in one of the run's output sets: sft, rl or rejected.

    ``run`` is the run folder, ``summary`` is the content of ``run.json``, and ``shards`` holds the shards (Parquet
    files) of each output set. Raises PublishError if records are missing, if the numbers of rows in the shards and in
    ``run.json`` differ, if a shard cannot be read, or if a shard lacks a required column.
    """
    counts = summary.counts
    ends = counts.sft + counts.rl + counts.rejected_records
    if ends != counts.input:
        raise PublishError(
            f"{run} has lost records: {counts.input} records were read, but {ends} were written: repeat the run"
        )
    for name, files in shards.items():
        expected = counts.rejected_records if name == REJECTED else counts.rows(name)
        found = sum(_rows_of(file, NEEDED_REJECTED if name == REJECTED else NEEDED) for file in files)
        if found != expected:
            raise PublishError(
                f"{run / name} holds {found} rows, but the number in run.json is {expected}: repeat the run"
            )


def _rows_of(file: Path, needed: Sequence[str]) -> int:
    """Return the number of rows of a shard (Parquet file).

    ``file`` is the path of the shard. Raises PublishError if the shard cannot be read, or lacks a column in ``needed``.
    """
    if not file.is_file():  # reading a pipe would block
        raise PublishError(f"{file} is not a regular file: remove it from the run folder, or repeat the run")
    try:
        read = pq.read_metadata(file)
        missing = [name for name in needed if name not in read.schema.to_arrow_schema().names]
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise PublishError(f"{file} is not a readable Parquet file: repeat the run") from error
    if missing:
        raise PublishError(f"{file} has no column {missing[0]}: repeat the run with this version of Groundtrace")
    return read.num_rows


def _put_shards(folder: Path, shards: Sequence[Path], selection: Selection, change: Change | None) -> None:
    """Put the shards (Parquet files) of one output set (sft, rl or rejected) into ``folder``, as
    ``train-00000-of-00003.parquet`` and so on.

    Only the shards with rows to publish are numbered, so no number is missing. A shard is linked if all its rows are
    published unchanged and the Hub's viewer accepts it. Of any other shard, the rows to publish are copied.
    ``selection`` decides which rows are published. ``change`` is a function that is applied to the rows; None if they
    stay unchanged.
    """
    files = [file for file in shards if selection.rows_of[file]]
    if files:
        folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        target = folder / f"train-{number:05d}-of-{len(files):05d}.parquet"
        whole = selection.rows_of[file] == pq.read_metadata(file).num_rows and change is None
        if check_shard(file, needs_images=folder.name != REJECTED) and whole:
            target.symlink_to(file.resolve())
        else:
            copy_rows(file, target, selection.sources, change, selection.flagged_ids)


def _put_extras(run: Path, staging: Path, extras: Collection[str], rows: Mapping[str, int]) -> dict[str, str]:
    """Write the requested rubrics and the run's JSON files into ``staging``, and return the file pattern of each extra.

    An extra is a set of rows that is published only on request: the rejected records or the rubrics. ``extras`` holds
    the names of the requested extras, and ``rows`` holds the numbers of published rows by output set (sft, rl or
    rejected). If the rubrics are requested, they are written as a Parquet file. The rejected records are not written
    here, because the caller has already written them.

    The JSON files are ``rubrics.json`` and the files in :data:`ARTIFACTS`. If the run has such a file, it is written
    without a request.

    The result maps the name of each extra with rows to its file pattern, such as ``rubrics/*.parquet``. Raises
    PublishError if the rubrics are requested, but the run has no ``rubrics.json``.
    """
    found = {REJECTED: f"{REJECTED}/*.parquet"} if rows.get(REJECTED) else {}
    if RUBRICS in extras:
        rubrics = read_rubrics(run)
        if rubrics is None:
            raise PublishError(
                "--with rubrics cannot be used, because the run has no rubrics.json: leave this option out"
            )
        if rubrics["rubrics"]:
            (staging / RUBRICS).mkdir()
            table = pa.Table.from_pylist(rubrics["rubrics"], RUBRIC_SCHEMA)
            pq.write_table(table, staging / RUBRICS / "train-00000-of-00001.parquet", compression="zstd")
            found[RUBRICS] = f"{RUBRICS}/*.parquet"
    for name in (*ARTIFACTS, "rubrics.json"):
        if (file := own_file(run, name)).is_file():
            (staging / name).write_text(public_artifact(file, staging), "utf-8")
    return found


def _put_words(run: Path, staging: Path, summary: RunSummary, rows: RunSummary, publication: Publication) -> None:
    """Write the data card, and ``run.json`` without private data of the run's owner, to the folder ``staging``.

    ``summary`` is the content of the ``run.json`` in the run folder ``run``. ``rows`` is a copy of ``summary`` with the
    counts of the published rows. ``publication`` holds the facts about the publication for the data card.
    """
    config = own_file(run, "config.toml")
    if config.is_file():  # the card takes the models from it; it is not published, as it holds paths and addresses
        (staging / "config.toml").write_bytes(read_regular(config))
    with open_tables(staging, summary) as tables:
        write_card(staging, summary, tables, balances(staging, tables, summary.sets), publication, rows)
    (staging / "config.toml").unlink(missing_ok=True)
    public = public_summary(summary)
    public["published"] = {
        "run_sha256": publication.run_sha256,
        "rows": {"sft": rows.counts.sft, "rl": rows.counts.rl},
        "left_out": [
            {"source": use.source, "license": use.licence, **use.rows}
            for use in publication.uses
            if not use.is_published
        ],
        "left_out_flagged": dict(publication.flagged.left_out),
    }
    (staging / "run.json").write_text(json.dumps(public, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _files(folder: Path) -> Iterator[str]:
    """Return the paths of all files in the folder and its subfolders, relative to the folder and sorted."""
    return iter(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()))


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's bytes. Raises PublishError if the file cannot be read."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise PublishError(
            f"{file} cannot be read ({error.strerror}): check its permissions and the disk, and publish again; if "
            "the file is lost, repeat the run"
        ) from error


def digest_of(summary: RunSummary, files: Mapping[str, str]) -> str:
    """Return a SHA-256 that identifies a run's config, its code and the given files.

    ``files`` maps the path of each file to its SHA-256. The digest is computed over these lines: ``config <sha256>``,
    ``revision <id>``, and ``<path> <sha256>`` for each file, sorted by path.
    """
    lines = [f"config {summary.config_sha256}", f"revision {summary.revision}"]
    lines += [f"{name} {sha256}" for name, sha256 in sorted(files.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
