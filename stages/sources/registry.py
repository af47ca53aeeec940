"""The input formats that there are. A new one is a file of its own beside this one, and one line here.

A format from outside this repository is added where its module is imported: ``FORMATS.insert(0, Xml())``.
"""

from collections.abc import Iterator

from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources.base import Format, RowSettings, Source
from groundtrace.stages.sources.hf_datasets import DataSets
from groundtrace.stages.sources.jsonl import JsonLines
from groundtrace.stages.sources.parquet import Parquet
from groundtrace.stages.sources.tables import Tables
from groundtrace.vision.media import MediaStore

FORMATS: list[Format] = [
    Tables(),
    JsonLines(),
    Parquet(),
    DataSets(),
]
"""In the order in which they are asked what ``--input`` names. Data sets come last: any name may be one's id."""


def format_of(source: Source) -> Format:
    """The format of a source. Raises ValueError for one that there is not."""
    found = next((each for each in FORMATS if each.name == source.kind), None)
    if found is None:
        raise ValueError(f"{source.path}: there is no input format {source.kind!r}")
    return found


def read_source(source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
    """The source's records in order."""
    return format_of(source).records(source, rows, store)
