"""Packs the rows of shards for Beam's shuffles: a row is compressed, except for its id and its size in bytes.

When a shard is written, all its rows are in RAM at the same time. Therefore the rows stay packed, and each row is
unpacked only when its part of the shard is written. On one machine, the compressed rows are stored in files
(:mod:`groundtrace.stages.plumbing.spill`).
"""

import json
from dataclasses import dataclass
from typing import Any

from apache_beam.coders import BytesCoder, Coder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.coders.typecoders import registry

from groundtrace.stages.plumbing.ends import EndData
from groundtrace.stages.plumbing.packing import packed, unpacked
from groundtrace.stages.plumbing.rows import Row
from groundtrace.stages.plumbing.spill import read_spilled, spill, spool_folder


@dataclass(frozen=True)
class SizedRow:
    """Holds a row in packed (compressed) form without its images, and the size in bytes of the row with its images.

    Rows are packed because all rows of a shard (Parquet file) are in memory at the same time. ``packed`` is the
    compressed JSON of the row and of its entry in the table of final outcomes, which lists the stages and calls of each
    record (:mod:`groundtrace.stages.plumbing.ends`). If ``spool`` is not "", it is a folder of files on this machine
    (:mod:`groundtrace.stages.plumbing.spill`), and ``packed`` may be a reference to the JSON in these files.

    Special case: an object with an empty ``packed`` is not a row. Each shard gets one of these objects, so that a shard
    without rows is written, too.
    """

    id: str
    packed: bytes
    size_bytes: int
    spool: str = ""

    def unpack(self) -> tuple[Row, EndData]:
        """Return the row, with URIs in its image columns, and its entry in the table of final outcomes. The entry lists
        the stages that the record passed and the calls that were made for it.
        """
        row, end = json.loads(unpacked(read_spilled(self.packed, self.spool)))
        return row, end


EMPTY_END = EndData(passed=[], calls=[], labels=[])


def size_row(row: Row, media_bytes: int, end: EndData = EMPTY_END) -> SizedRow:
    """Return a row in packed (compressed) form, so that it can be shuffled.

    ``media_bytes`` is the size of its images on disk in bytes. ``end`` is the row's entry in the table of final
    outcomes: the stages that the record passed, and the calls that were made for it.
    """
    data, beside = (json.dumps(each, ensure_ascii=False).encode() for each in (row, end))
    both = b"[%b,%b]" % (data, beside)
    return SizedRow(str(row["id"]), spill(packed(both), ""), len(data) + media_bytes)


class SizedRowCoder(Coder):
    """Encodes a :class:`SizedRow`, which holds a row as compressed JSON, for the shuffles of Beam.

    The spool is a set of files on this machine that keep the data of shuffles, to save memory. ``folder`` is the folder
    of the spool; "" means that there is no spool. If there is a spool, the compressed JSON is written to it, and the
    encoded row holds only a reference to the JSON. If there is no spool, or if the JSON is very short, the encoded row
    holds the JSON itself.
    """

    _parts = TupleCoder((StrUtf8Coder(), BytesCoder(), VarIntCoder()))

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def from_type_hint(cls, kind: Any, registry: Any) -> "SizedRowCoder":
        """Return a coder that writes to the spool (files on this machine) of the pipeline that is being built. Beam
        calls this method. Its arguments are not used.
        """
        return cls(spool_folder())

    def encode(self, value: SizedRow) -> bytes:
        """Return the row as bytes: its id, its size, and its content as compressed JSON (``value.packed``).

        If there is a spool (files on this machine), the compressed JSON is written to the spool. The bytes then hold a
        short reference to the JSON instead of the JSON itself. Exception: a very short JSON stays in the bytes.
        """
        packed = value.packed
        if packed and value.spool != self._folder:
            packed = spill(read_spilled(packed, value.spool), self._folder)
        return self._parts.encode((value.id, packed, value.size_bytes))

    def decode(self, encoded: bytes) -> SizedRow:
        """Decode ``encoded``, a result of :meth:`encode`, and return the row."""
        row_id, packed, size_bytes = self._parts.decode(encoded)
        return SizedRow(row_id, packed, size_bytes, self._folder)

    def is_deterministic(self) -> bool:
        """Return False, so that Beam never uses a row as a key.

        A key must have the same bytes each time, but the position of a row in the spool (files on this machine) differs
        each time.
        """
        return False

    def to_type_hint(self) -> type[SizedRow]:
        """Return the class of the objects that this coder encodes."""
        return SizedRow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizedRowCoder) and self._folder == other._folder

    def __hash__(self) -> int:
        return hash((SizedRowCoder, self._folder))


registry.register_coder(SizedRow, SizedRowCoder)
NO_ROW = SizedRow("", b"", 0)
