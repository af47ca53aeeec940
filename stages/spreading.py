"""How records cross shuffles: packed, so that the runner holds little of each.

A runner on one machine keeps several copies of what crosses a shuffle, as its coder wrote it. A type declared
:func:`packed` is written compressed: the elements stay records, for the stages and for whoever looks at a shuffle, and
only their coder differs. :class:`SpreadDrafts` redistributes drafts before slow calls.
"""

import ctypes
import dataclasses
import functools
import gc
import typing
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar, dataclass_transform

import apache_beam as beam
from apache_beam.coders import Coder, TupleCoder
from apache_beam.coders.typecoders import registry
from apache_beam.pvalue import PCollection
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from prompts.loader import load_prompt, prompt_names
from schemas.records import Draft

LEVEL = 1

Kind = TypeVar("Kind", bound=type)


@functools.cache
def lineage_dictionary() -> bytes:
    """The names and digests of the prompts: every draft repeats some, and within one record they do not compress."""
    return "\n".join(f"{name}\n{load_prompt(name).sha256}" for name in prompt_names()).encode()


def compress(data: bytes, dictionary: bytes) -> bytes:
    """The data in zlib's format, with what ``dictionary`` holds taken as said before."""
    packer = zlib.compressobj(LEVEL, zdict=dictionary)
    return packer.compress(data) + packer.flush()


def decompress(data: bytes, dictionary: bytes) -> bytes:
    """The inverse of :func:`compress` under the same dictionary. Raises ValueError for anything else."""
    unpacker = zlib.decompressobj(zdict=dictionary)
    try:
        unpacked = unpacker.decompress(data)
    except zlib.error as error:
        raise ValueError(f"not packed with this dictionary: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("packed data is cut short or has more behind it")
    return unpacked


class PackedCoder(Coder):
    """Writes a :func:`packed` type: its fields by their own coders, compressed together. It carries its dictionary, so
    that any worker reads what another wrote.
    """

    def __init__(self, kind: type, fields: Coder, dictionary: bytes) -> None:
        self._kind, self._fields, self._dictionary = kind, fields, dictionary

    @classmethod
    def from_type_hint(cls, kind: Any, registry: Any) -> "PackedCoder":
        """The coder of a packed type."""
        hints = typing.get_type_hints(kind)
        coders = [registry.get_coder(convert_to_beam_type(hints[field.name])) for field in dataclasses.fields(kind)]
        return cls(kind, TupleCoder(coders), lineage_dictionary())

    def to_type_hint(self) -> Any:
        """The packed type."""
        return self._kind

    def encode(self, value: Any) -> bytes:
        """The fields, compressed."""
        fields = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
        return compress(self._fields.encode(fields), self._dictionary)

    def decode(self, encoded: bytes) -> Any:
        """The value again. Raises ValueError for bytes that :meth:`encode` did not make."""
        return self._kind(*self._fields.decode(decompress(encoded, self._dictionary)))

    def is_deterministic(self) -> bool:
        """Never a key: versions of zlib may differ in what they write."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedCoder) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def _state(self) -> tuple[type, Coder, bytes]:
        return self._kind, self._fields, self._dictionary


@dataclass_transform(frozen_default=True)
def packed(kind: Kind) -> Kind:
    """Make ``kind`` a frozen dataclass of records, strings and numbers that crosses shuffles packed.

    It stands for nothing but the crossing: Beam takes no such type for a row, so it is no field of a record.
    """
    made = dataclasses.dataclass(frozen=True)(kind)
    registry.register_coder(made, PackedCoder)
    return made


@packed
class Parcel:
    """A draft on its way through a shuffle."""

    draft: Draft


def _wrap(draft: Draft) -> Parcel:
    return Parcel(draft)


def release_memory() -> None:
    """Give the C library's free memory back to the system; nothing on systems whose library cannot.

    What a stage frees lies scattered between what is still in use, and glibc gives none of that back by itself. Rings
    of objects, such as the runner's bundles, are collected first.
    """
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no C library that can be opened by the process's own name
        return None


class _Unwrap(beam.DoFn):
    """Takes drafts out of their parcels; a bundle begins with the memory of the stages before it given back."""

    def start_bundle(self) -> None:
        release_memory()

    def process(self, parcel: Parcel) -> Iterator[Draft]:
        yield parcel.draft


class SpreadDrafts(beam.PTransform):
    """Redistribute drafts over the workers, so that slow calls run wherever there is room."""

    def expand(self, drafts: PCollection) -> Any:
        """The same drafts."""
        return drafts | "Wrap" >> beam.Map(_wrap) | "Spread" >> beam.Reshuffle() | "Unwrap" >> beam.ParDo(_Unwrap())
