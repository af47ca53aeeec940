"""Opens a finished run for reading: its summary, and the rows of its output sets (sft, rl and rejected) as tables."""

import contextlib
import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.reading import SHARDS, InspectError, check_files, config_for_hints, one_line, read_summary
from groundtrace.publishing.rows import Row, Rows
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import own_file, read_regular
from groundtrace.schemas.text import printable
from groundtrace.storage.mirror import local_copy

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True, repr=False)
class OpenedRun:
    """Holds a finished run, and reads its rows.

    A notebook that displays this object shows the run's report, and ``print`` writes the text that ``beam run`` prints
    at its end. ``folder`` is the run folder, and ``summary`` is the content of its ``run.json``.
    """

    folder: Path
    summary: RunSummary

    @property
    def sft(self) -> Rows:
        """Return the rows for supervised fine-tuning. The result is empty if the run's pipeline makes no such rows."""
        return self.rows("sft")

    @property
    def rl(self) -> Rows:
        """Return the rows for reinforcement learning. The result is empty if the run's pipeline makes no such rows."""
        return self.rows("rl")

    @property
    def rejected(self) -> Rows:
        """Return the rejected records.

        The column ``stage`` names the step of the pipeline that rejected a record. The columns ``reason`` and
        ``detail`` state why.
        """
        return self.rows("rejected")

    def rows(self, name: str) -> Rows:
        """Return the rows of an output set of the run. ``name`` is sft, rl or rejected.

        Raises InspectError for any other name, and for a shard (Parquet file of the run) that cannot be read or that
        has changed since the run ended.
        """
        stages = self.summary.stages
        reasons = dict.fromkeys(reason for figures in stages.values() for reason in figures.reasons)
        known = {"stage": (*stages,), "reason": (*reasons,)} if name == "rejected" else {}
        return Rows(self.folder, name, self.table(name), self.summary.input, known)

    def record(self, record_id: str) -> Row:
        """Return the row with the id ``record_id`` from the set (sft, rl or rejected) that contains it.

        Raises InspectError if no set contains the record, if a shard cannot be read, or if a later run replaced this
        run in its folder.
        """
        self.check_current()
        for name in SHARDS:
            for file in shards_of(self.folder, name):
                try:
                    found = pq.read_table(file, filters=[("id", "=", record_id)])
                except (OSError, MemoryError, pa.ArrowException) as error:
                    raise InspectError(f"cannot read {file}: {one_line(error)}: repeat the run") from error
                if found.num_rows:
                    return Row(self.folder, name, found.slice(0, 1).to_pylist()[0], self.summary.input)
        raise InspectError(f"{self.folder} has no record {record_id!r}: use one of the ids that `beam view` lists")

    def table(self, name: str) -> pa.Table:
        """Return an output set as an Arrow table. ``name`` is sft, rl or rejected. The table is empty if the set has no
        rows.

        Raises :class:`groundtrace.publishing.reading.InspectError` for any other name, and for a shard (Parquet file of
        the run) that cannot be read or that has changed since the run ended: ``run.json`` states another size or
        SHA-256. Also raises it if a later run replaced this run in its folder.
        """
        _check_set(name)
        self.check_current()
        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = shards_of(self.folder, name)
        try:
            tables = [pq.read_table(file) for file in files]
        except (OSError, MemoryError, pa.ArrowException) as error:
            raise InspectError(f"cannot read {self.folder / name}: {one_line(error)}: repeat the run") from error
        return pa.concat_tables(tables) if tables else SHARDS[name].empty_table()

    def dataset(self, name: str) -> "datasets.Dataset":
        """Return an output set as a data set of the library ``datasets``, which decodes images on access.

        ``name`` is sft, rl or rejected. Raises InspectError for any other name, for an output set without rows, and for
        a shard (Parquet file of the run) that has changed since the run ended.
        """
        import datasets

        _check_set(name)
        self.check_current()
        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = [str(file) for file in shards_of(self.folder, name)]
        if not sum(pq.read_metadata(file).num_rows for file in files):
            raise InspectError(
                f"the set {name} of the run {self.folder} has no rows: choose another of {', '.join(SHARDS)}"
            )
        return datasets.Dataset.from_parquet(files, keep_in_memory=True)  # type: ignore[return-value]

    def check_current(self) -> None:
        """Raise InspectError if a later run replaced the shards (Parquet files) of this run in its folder.

        The list of shards in the folder's ``run.json`` is compared with that of the opened run. If the outputs of the
        opened run are still in ``previous``, the message names this folder.
        """
        if read_summary(self.folder, checked=False).files == self.summary.files:
            return
        older, where = self.folder / "previous", ""
        with contextlib.suppress(UserError):
            if read_summary(older, checked=False).files == self.summary.files:
                where = f", and the replaced one with gt.open_run({str(older)!r})"
        raise InspectError(
            f"a later run replaced the run that was opened in {self.folder}: open the present one with "
            f"gt.open_run({str(self.folder)!r}){where}"
        )

    def __repr__(self) -> str:
        """Return one line with the folder, the recipe (pipeline) and the number of rows of each output set (sft, rl,
        rejected).
        """
        counts = self.summary.counts
        rows = ", ".join(f"{counts.rows(name)} {name}" for name in self.summary.sets)
        return f"<run {self.folder}: {self.summary.recipe}, {rows}, {counts.rejected_records} rejected>"

    def __str__(self) -> str:
        """Return the text that ``beam run`` prints at its end: rows, rejections with their reasons, costs, warnings.

        If a later run replaced this run in its folder, the text has no hints that depend on the config, because the
        folder holds the config of the later run.
        """
        from groundtrace.publishing.run_text import summary_text

        config = {}
        with contextlib.suppress(UserError, OSError):
            self.check_current()
            config = config_for_hints(self.folder)
        text = summary_text(self.summary, str(self.folder), config)
        return "\n".join(map(printable, text.split("\n")))

    def _repr_html_(self) -> str | None:
        """Return the run's report in an HTML ``iframe``; None if the run has no report.

        If a later run replaced this run in its folder, the result is a paragraph that states this, because the folder
        holds the report of the later run. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the report or
        ``run.json`` is a link to a file outside the run folder.
        """
        from groundtrace.pages.frame import framed

        try:
            self.check_current()
        except InspectError as error:
            return f"<p>{html.escape(printable(str(error)))}</p>"
        report = own_file(self.folder, "report.html")
        return framed(read_regular(report).decode("utf-8", errors="replace")) if report.is_file() else None


def _check_set(name: str) -> None:
    """Raise InspectError if ``name`` is not the name of an output set: sft, rl or rejected."""
    if name not in SHARDS:
        raise InspectError(f"{name!r:.60} is not a set of rows: choose one of {', '.join(SHARDS)}")


def open_run(folder: str | Path) -> OpenedRun:
    """Open a finished run, so that its rows can be read.

    ``folder`` is the run folder, or its URL in an object store. A run in a store is copied to this machine first.
    Raises :class:`groundtrace.publishing.reading.InspectError` if ``folder`` holds no finished run.
    """
    path = local_copy(str(folder))
    return OpenedRun(path, read_summary(path))
