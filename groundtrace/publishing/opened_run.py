"""Opens a finished run for reading, with its summary, and its sets as tables."""

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
    """Holds the folder and the summary of a finished run."""

    folder: Path
    summary: RunSummary

    @property
    def sft(self) -> pa.Table:
        """Return the rows for supervised fine-tuning; the table is empty if the recipe makes no such rows."""
        return self.table("sft")

    @property
    def rl(self) -> pa.Table:
        """Return the rows for reinforcement learning."""
        return self.table("rl")

    @property
    def rejected(self) -> pa.Table:
        """Return the rejected records, with stage, reason and detail."""
        return self.table("rejected")

    def table(self, name: str) -> pa.Table:
        """Return a set as an Arrow table; ``name`` is sft, rl or rejected.

        Raises :class:`groundtrace.publishing.reading.InspectError` for a shard that cannot be read, or that differs
        from its entry in ``run.json``.
        """
        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = sorted((self.folder / name).glob("*.parquet"))
        try:
            tables = [pq.read_table(file) for file in files]
        except (OSError, pa.ArrowException) as error:
            raise InspectError(f"cannot read {self.folder / name}: {one_line(error)}: repeat the run") from error
        return pa.concat_tables(tables) if tables else SHARDS[name].empty_table()

    def dataset(self, name: str) -> "datasets.Dataset":
        """Return a set as a data set of the library ``datasets``, which decodes images on access.

        Raises InspectError for an empty set, and for a shard that differs from its entry in ``run.json``.
        """
        import datasets

        check_files(self.folder, self.summary, digests=True, sets=[name])
        files = [str(file) for file in sorted((self.folder / name).glob("*.parquet"))]
        if not sum(pq.read_metadata(file).num_rows for file in files):
            raise InspectError(f"{self.folder / name} has no rows: choose another set")
        return datasets.Dataset.from_parquet(files, keep_in_memory=True)  # type: ignore[return-value]


def open_run(folder: str | Path) -> OpenedRun:
    """Open the finished run in a folder, or at a URL of an object store. A run in a store is copied to this machine.

    Raises :class:`groundtrace.publishing.reading.InspectError` if ``folder`` holds no finished run.
    """
    path = local_copy(str(folder))
    return OpenedRun(path, read_summary(path))
