"""Registers the export formats by name. A format is imported only when it is requested."""

from typing import TYPE_CHECKING

from groundtrace.publishing.exports.errors import ExportError
from groundtrace.schemas.registry import Registry, RegistryError

if TYPE_CHECKING:
    from groundtrace.publishing.exports.base import ExportFormat

FORMATS: "Registry[ExportFormat]" = Registry(
    "exports",
    "export format",
    "groundtrace.publishing.exports.base:ExportFormat",
    {
        "dpo": "groundtrace.publishing.exports.dpo:DPO",
        "easyr1": "groundtrace.publishing.exports.easyr1:EASYR1",
        "jsonl": "groundtrace.publishing.exports.jsonl:JSONL",
        "llamafactory": "groundtrace.publishing.exports.llamafactory:LLAMAFACTORY",
        "openrlhf": "groundtrace.publishing.exports.openrlhf:OPENRLHF",
        "swift": "groundtrace.publishing.exports.swift:SWIFT",
        "trl": "groundtrace.publishing.exports.trl:TRL",
        "verl": "groundtrace.publishing.exports.verl:VERL",
        "webdataset": "groundtrace.publishing.exports.webdataset:WEBDATASET",
    },
)


def export_format(name: str) -> "ExportFormat":
    """Return the export format that the user named with ``--format``. Raises ExportError for an unknown name."""
    try:
        return FORMATS.named(name)
    except RegistryError as error:
        raise ExportError(f"--format {error}") from error
