"""A finished run, opened for reading: its summary, and its sets as tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.reading import SHARDS, InspectError, check_files, one_line, read_summary
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.storage.mirror import local_copy

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class OpenedRun:
    """A run folder that holds a finished run."""

    folder: Path
    summary: RunSummary

    @property
    def sft(self) -> pa.Table:
        """The rows for supervised fine-tuning; empty if the recipe makes no such rows."""
        return self.table("sft")

    @property
    def rl(self) -> pa.Table:
        """The rows for reinforcement learning."""
        return self.table("rl")

    @property
    def rejected(self) -> pa.Table:
        """The rejected records, with stage, reason and detail."""
        return self.table("rejected")

    def table(self, name: str) -> pa.Table:
        """Return the set with this name as an Arrow table.

        Raises :class:`groundtrace.publishing.reading.InspectError` for a shard that cannot be read, or that differs
        from its entry in ``run.json``.
        """
        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = sorted((self.folder / name).glob("*.parquet"))
        try:
            tables = [pq.read_table(file) for file in files]
        except (OSError, pa.ArrowException) as error:
            raise InspectError(f"cannot read {self.folder / name}: {one_line(error)}") from error
        return pa.concat_tables(tables) if tables else SHARDS[name].empty_table()

    def dataset(self, name: str) -> "datasets.Dataset":
        """Return the set as a ``datasets`` data set, which decodes images on access. Raises InspectError for an empty
        set.
        """
        import datasets

        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = [str(file) for file in sorted((self.folder / name).glob("*.parquet"))]
        if not sum(pq.read_metadata(file).num_rows for file in files):
            raise InspectError(f"{self.folder / name} has no rows: choose another set")
        return datasets.Dataset.from_parquet(files, keep_in_memory=True)  # type: ignore[return-value]


def open_run(folder: str | Path) -> OpenedRun:
    """Open the run in a folder, or at a URL of an object store, from which it is copied.

    Raises :class:`groundtrace.publishing.reading.InspectError` if there is no finished run.
    """
    path = local_copy(str(folder))
    return OpenedRun(path, read_summary(path))
