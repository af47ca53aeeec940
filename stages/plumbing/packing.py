"""Packing: how records are written when they cross a shuffle, or go from one process to another.

Every record type is written compressed, and into a spool if there is one (:mod:`groundtrace.stages.plumbing.spill`):
Beam's runner on one machine keeps several copies of what crosses a shuffle, as its coder wrote it, and so holds little
of each. A runner in another language hands on what a coder of ours wrote as bytes. What Beam's row coder wrote it would
read, and Java's reads ours wrong: Python writes ``str | None`` as a type that only Python knows.

Who imports this module has all record types registered, also those that are declared later.
"""

import functools
import zlib
from typing import Any

from apache_beam.coders import Coder, RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from groundtrace.schemas.coding import RECORD_MODULES, for_each_record
from groundtrace.stages.plumbing.spill import read_spilled, spill, spool_folder

LEVEL = 1


def unpacked(data: bytes) -> bytes:
    """What was compressed. Raises ValueError for data that is cut short, has more behind it, or is something else."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data)
    except zlib.error as error:
        raise ValueError(f"not packed: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("packed data is cut short or has more behind it")
    return found


@functools.cache
def _row_coder(kind: Any) -> RowCoder:
    """The coder of a record's rows; Beam takes its time to make one and asks for it at every step of a pipeline."""
    return RowCoder(SCHEMA_REGISTRY.get_schema_by_id(kind._beam_schema_id))


class PackedCoder(Coder):
    """Writes a record as its row, compressed, into the spool where there is one."""

    def __init__(self, kind: Any, folder: str) -> None:
        self._kind, self._folder = kind, folder
        self._row = _row_coder(kind)

    def __reduce__(self) -> Any:
        """Only the type travels: a worker makes the row's coder of its own class, which has the methods."""
        return PackedCoder, (self._kind, self._folder)

    @classmethod
    def from_type_hint(cls, kind: Any, registry: Any) -> "PackedCoder":
        """The coder of a record type, with the spool of pipelines that are built now."""
        return cls(kind, spool_folder())

    def to_type_hint(self) -> Any:
        """The record type."""
        return self._kind

    def encode(self, value: Any) -> bytes:
        """The row, compressed, or a slip that says where it lies. Raises OSError when the spool cannot be written."""
        return spill(zlib.compress(self._row.encode(value), LEVEL), self._folder)

    def decode(self, encoded: bytes) -> Any:
        """The record again. Raises ValueError for bytes that :meth:`encode` did not make."""
        return self._row.decode(unpacked(read_spilled(encoded, self._folder)))

    def is_deterministic(self) -> bool:
        """Never a key: versions of zlib may differ in what they write, and no two slips are alike."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedCoder) and (self._kind, self._folder) == (other._kind, other._folder)

    def __hash__(self) -> int:
        return hash((self._kind, self._folder))


_KINDS: list[type] = []


def _register(kind: type) -> None:
    """Register a record type. Beam takes a frozen class in another's fields for a row only while it is coded as one."""
    _KINDS.append(kind)
    for each in _KINDS:
        registry.register_coder(each, RowCoder)
    registry.register_row(kind)
    for each in _KINDS:
        registry.register_coder(each, PackedCoder)


for_each_record(_register)
RECORD_MODULES.add(__name__)
