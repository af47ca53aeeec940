"""The export formats by name. Nothing of them is imported until one is asked for."""

from typing import TYPE_CHECKING

from groundtrace.inference.loading import is_path, load
from groundtrace.publishing.exports.errors import ExportError

if TYPE_CHECKING:
    from groundtrace.publishing.exports.base import ExportFormat

FORMATS = {
    "dpo": "groundtrace.publishing.exports.dpo:DPO",
    "easyr1": "groundtrace.publishing.exports.easyr1:EASYR1",
    "jsonl": "groundtrace.publishing.exports.jsonl:JSONL",
    "llamafactory": "groundtrace.publishing.exports.llamafactory:LLAMAFACTORY",
    "openrlhf": "groundtrace.publishing.exports.openrlhf:OPENRLHF",
    "swift": "groundtrace.publishing.exports.swift:SWIFT",
    "trl": "groundtrace.publishing.exports.trl:TRL",
    "verl": "groundtrace.publishing.exports.verl:VERL",
    "webdataset": "groundtrace.publishing.exports.webdataset:WEBDATASET",
}
"""One line a format. A format of one's own needs none: its value is named as ``module:NAME``."""


def export_format(name: str) -> "ExportFormat":
    """Returns the format of that name, or of a value elsewhere named as ``module:NAME``. Raises ExportError."""
    from groundtrace.publishing.exports.base import ExportFormat

    if name not in FORMATS and not is_path(name):
        known = ", ".join(FORMATS)
        raise ExportError(f"--format must be one of {known}, or one of your own as module:NAME, got {name!r:.80}")
    try:
        found = load(FORMATS.get(name, name))
    except (ImportError, AttributeError) as error:
        raise ExportError(f"the format {name} cannot be imported ({error}): make it importable") from error
    if not isinstance(found, ExportFormat):
        raise ExportError(
            f"{name} must be an ExportFormat of groundtrace.publishing.exports.base, not a {type(found).__name__}"
        )
    return found
