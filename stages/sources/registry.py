"""Registers the input formats by name. A new format needs a file in this folder, and one line here."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from groundtrace.schemas.records import RawRecord
from groundtrace.schemas.registry import Registry, RegistryError
from groundtrace.stages.sources.base import Format, RowSettings, Source
from groundtrace.vision.media import MediaStore

FORMATS: Registry[Format] = Registry(
    "formats",
    "input format",
    "groundtrace.stages.sources.base:Format",
    {
        "table": "groundtrace.stages.sources.tables:TABLES",
        "jsonl": "groundtrace.stages.sources.jsonl:JSON_LINES",
        "parquet": "groundtrace.stages.sources.parquet:PARQUET",
        "images": "groundtrace.stages.sources.images:IMAGES",
        "datasets": "groundtrace.stages.sources.hf_datasets:DATA_SETS",
    },
)


def formats() -> Iterator[Format]:
    """Yield the input formats, such as Parquet, in the order in which they are tried for ``--input``. The formats of
    plug-ins (code from outside this repository) come first.

    The format of data sets comes last, because any name may be the id of a data set. Raises RegistryError for a plug-in
    that cannot be used.
    """
    for name in (*FORMATS.plugins, *FORMATS.ours):
        yield FORMATS[name]


def format_of(source: Source) -> Format:
    """Return the input format of a source, i.e. of a part of the input such as a file. Raises RegistryError if no
    format has the name ``source.kind``.
    """
    try:
        return FORMATS[source.kind]
    except RegistryError as error:
        raise RegistryError(
            f"cannot read {source.path}: its input format cannot be used, because it {error}"
        ) from error


def read_source(source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
    """Yield the records of a source (a part of the input, such as a file) in order, read by the source's format.

    ``rows`` holds the settings by which rows become records. Media that rows contain as bytes are written to ``store``.
    If ``source.only`` is given, only the records with these numbers are read. If the format is of a plug-in and gives
    no place of a record in the source, the place is its number, such as "record 12".
    """
    records = map(partial(_with_place, source), format_of(source).records(source, rows, store))
    only = source.only
    return records if only is None else islice((raw for raw in records if raw.number in only), len(only))


def _with_place(source: Source, raw: RawRecord) -> RawRecord:
    """Return the record ``raw`` with its place in ``source``, such as "questions.psv, record 12".

    If the format has already given the record a place, the record is returned unchanged.
    """
    if raw.origin.input_row:
        return raw
    place = f"{source.name}, record {raw.number - source.first_number + 1}"
    return replace(raw, origin=replace(raw.origin, input_row=place))
