"""Encodes records that cross a shuffle or go from one process to another.

Encoded records are compressed. If there is a spool (files on this machine, :mod:`groundtrace.stages.plumbing.spill`),
they are written to the spool. This saves RAM: Beam's runner on one machine keeps several encoded copies of all data
that cross a shuffle, but with a spool these copies are only short references.

Beam's own row coder is not registered for records, because runners in other languages decode its output. Java's runners
cannot decode a field of the type ``str | None``, because Python writes it as a type that only Python knows. Runners do
not decode the output of our coder; they pass it on as bytes.

Importing this module registers our coder for all record types, also for types that are defined later.
"""

import functools
import struct
from typing import Any

import pyarrow as pa
from apache_beam.coders import Coder, RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from groundtrace.schemas.coding import RECORD_MODULES, for_each_record
from groundtrace.stages.plumbing.spill import SPILLED_BYTES, read_spilled, spill, spool_folder

_LZ4 = pa.Codec("lz4_raw")
_SIZE = struct.Struct(">I")


def packed(data: bytes) -> bytes:
    """Compress ``data`` with LZ4, and return four bytes with the length of ``data``, followed by the compressed bytes.

    LZ4 takes a tenth of zlib's time, and the result of LZ4 is about a third larger than that of zlib.
    """
    return _SIZE.pack(len(data)) + _LZ4.compress(data, asbytes=True)


def unpacked(data: bytes) -> bytes:
    """Decompress ``data``, a result of :func:`packed`, and return the original bytes.

    Raises ValueError if ``data`` is truncated, has extra bytes at its end, or is not compressed.
    """
    try:
        (size,) = _SIZE.unpack_from(data)
        return _LZ4.decompress(memoryview(data)[_SIZE.size :], size, asbytes=True)
    except (struct.error, OSError) as error:
        raise ValueError(f"a packed record cannot be decompressed ({error}): start the run again") from error


@functools.cache
def _row_coder(kind: Any) -> RowCoder:
    """Return Beam's row coder for the record class ``kind``.

    The coder is cached, because Beam creates it slowly and requests it at every step of a pipeline.
    """
    return RowCoder(SCHEMA_REGISTRY.get_schema_by_id(kind._beam_schema_id))


class PackedCoder(Coder):
    """Encodes a record for Beam as a compressed row.

    ``kind`` is the record's class. ``folder`` is the folder of the spool (files on this machine), to which the
    compressed row is written; "" means that there is no spool.
    """

    def __init__(self, kind: Any, folder: str) -> None:
        self._kind, self._folder = kind, folder
        self._row = _row_coder(kind)

    def __reduce__(self) -> Any:
        """Pickle only the record type and the folder of the spool (files on this machine).

        The row coder is not pickled, because a worker can create it from the record type.
        """
        return PackedCoder, (self._kind, self._folder)

    @classmethod
    def from_type_hint(cls, kind: Any, registry: Any) -> "PackedCoder":
        """Return the coder of the record class ``kind`` for the pipeline that is being built.

        If this pipeline has a spool (a folder on this machine), the coder writes the encoded records to files in it, to
        save memory. Beam calls this method. ``registry`` is Beam's registry of coders, which is not used.
        """
        return cls(kind, spool_folder())

    def to_type_hint(self) -> Any:
        """Return the class of the records that this coder encodes."""
        return self._kind

    def encode(self, value: Any) -> bytes:
        """Return a record as bytes: the compressed row, or a short reference to its position in the spool (files on
        this machine).

        Raises OSError if the spool cannot be written.
        """
        return spill(packed(self._row.encode(value)), self._folder)

    def decode(self, encoded: bytes) -> Any:
        """Decode ``encoded``, a result of :meth:`encode`, and return the record. Raises ValueError if ``encoded`` is
        not a result of :meth:`encode`.
        """
        return self._row.decode(unpacked(read_spilled(encoded, self._folder)))

    def estimate_size(self, value: Any) -> int:
        """Return the number of bytes of the encoded record. Beam calls this method for some records.

        If there is a spool (files on this machine), the record is not encoded here, because this would write the record
        to the spool once more. The result is then the size of a reference to the spool. For the few records that are
        too short for the spool, this is only an estimate.
        """
        return SPILLED_BYTES if self._folder else len(self.encode(value))

    def is_deterministic(self) -> bool:
        """Return False, so that Beam never uses a record as a key.

        A key must have the same bytes each time. But versions of LZ4 may write different bytes, and the position of the
        record in the spool (files on this machine) is different each time.
        """
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedCoder) and (self._kind, self._folder) == (other._kind, other._folder)

    def __hash__(self) -> int:
        return hash((self._kind, self._folder))


_KINDS: list[type] = []


def _register(kind: type) -> None:
    """Register a record type with Beam, so that PackedCoder, our compressing coder, encodes its records.

    A field of a record type may hold a record of an earlier type. Beam accepts the schema (list of fields) of the new
    type only while RowCoder, Beam's own coder, is registered for the earlier type. So this function has three steps:

    1. It registers RowCoder for the new type and for all earlier record types.
    2. It registers the schema of the new type.
    3. It registers PackedCoder, in place of RowCoder, for all these types.
    """
    _KINDS.append(kind)
    for each in _KINDS:
        registry.register_coder(each, RowCoder)
    registry.register_row(kind)
    for each in _KINDS:
        registry.register_coder(each, PackedCoder)


for_each_record(_register)
RECORD_MODULES.add(__name__)
