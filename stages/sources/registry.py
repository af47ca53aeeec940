"""The input formats by name. A new one is a file of its own beside this one, and one line here."""

from collections.abc import Iterator

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
        "datasets": "groundtrace.stages.sources.hf_datasets:DATA_SETS",
    },
)


def formats() -> Iterator[Format]:
    """The formats in the order in which they are asked what ``--input`` names: plug-ins first, then ours.

    Data sets come last: any name may be one's id. Raises RegistryError for a plug-in that cannot be used.
    """
    for name in (*FORMATS.plugins, *FORMATS.ours):
        yield FORMATS[name]


def format_of(source: Source) -> Format:
    """The format of a source. Raises RegistryError where there is none of its name."""
    try:
        return FORMATS[source.kind]
    except RegistryError as error:
        raise RegistryError(f"{source.path}: the input format {error}") from error


def read_source(source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
    """The source's records in order."""
    return format_of(source).records(source, rows, store)
