"""The export formats by name. Nothing of them is imported until one is asked for."""

from typing import TYPE_CHECKING

from inference.loading import is_path, load
from publishing.exports.errors import ExportError

if TYPE_CHECKING:
    from publishing.exports.base import ExportFormat

FORMATS = {
    "dpo": "publishing.exports.dpo:DPO",
    "easyr1": "publishing.exports.easyr1:EASYR1",
    "jsonl": "publishing.exports.jsonl:JSONL",
    "llamafactory": "publishing.exports.llamafactory:LLAMAFACTORY",
    "openrlhf": "publishing.exports.openrlhf:OPENRLHF",
    "swift": "publishing.exports.swift:SWIFT",
    "trl": "publishing.exports.trl:TRL",
    "verl": "publishing.exports.verl:VERL",
    "webdataset": "publishing.exports.webdataset:WEBDATASET",
}
"""One line a format. A format of one's own needs none: its value is named as ``module:NAME``."""


def export_format(name: str) -> "ExportFormat":
    """Returns the format of that name, or of a value elsewhere named as ``module:NAME``. Raises ExportError."""
    from publishing.exports.base import ExportFormat

    if name not in FORMATS and not is_path(name):
        known = ", ".join(FORMATS)
        raise ExportError(f"--format must be one of {known}, or one of your own as module:NAME, got {name!r:.80}")
    try:
        found = load(FORMATS.get(name, name))
    except (ImportError, AttributeError) as error:
        raise ExportError(f"the format {name} cannot be imported ({error}): make it importable") from error
    if not isinstance(found, ExportFormat):
        raise ExportError(f"{name} must be an ExportFormat of publishing.exports.base, not a {type(found).__name__}")
    return found
