"""Writes the front matter of a data card: the YAML block at the beginning of the card, which the Hub reads."""

from collections.abc import Mapping

import yaml

from groundtrace.publishing.licences import hub_id
from groundtrace.schemas.run_summary import RunSummary

TASKS = ("visual-question-answering", "image-text-to-text")
GROUNDING_ROLES = ("pointer", "detector", "segmenter")
HUB_LICENCES = frozenset((
    "apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0",
    "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
    "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0",
    "cc-by-nc-sa-4.0", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "odc-by",
    "odbl", "pddl", "unlicense", "wtfpl", "isc", "artistic-2.0", "epl-2.0", "etalab-2.0", "gfdl", "zlib",
    "c-uda", "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0",
))  # fmt: skip
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")


def filled_sets(summary: RunSummary) -> list[str]:
    """Return the names of the training sets (sft, rl) with rows. ``summary`` is the content of a run's ``run.json``."""
    return [name for name in summary.sets if summary.counts.rows(name)]


def front_matter(
    name: str, summary: RunSummary, licences: set[str | None], further: Mapping[str, str] | None = None
) -> str:
    """Return the front matter of a data card: the YAML at its beginning, which the Hub reads.

    ``name`` is the title of the data set. ``summary`` holds the counts of its rows. ``licences`` are the licences that
    its rows name; None means rows without a licence. The front matter lists the configs, which are named parts of a
    data set on the Hub. Each training set with rows has a config; the library ``datasets`` refuses a config without
    rows. ``further`` maps the names of additional configs to their file patterns, such as ``rejected/*.parquet``.
    """
    rows = summary.counts.sft + summary.counts.rl
    front: dict[str, object] = {**licence_fields(licences)}
    front |= {
        "pretty_name": name,
        "task_categories": list(TASKS),
        "size_categories": [size_category(rows)],
        "tags": [*tags_of(summary), "-".join(summary.recipe.replace("_", " ").split())],
    }
    files = {side: f"{side}/*.parquet" for side in filled_sets(summary)} | dict(further or {})
    if files:
        front["configs"] = [{"config_name": config, "data_files": pattern} for config, pattern in files.items()]
    return yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=10_000)


def tags_of(summary: RunSummary) -> list[str]:
    """Return the Hub tags of a run's data set, such as "visual-grounding".

    ``summary`` is the content of ``run.json``. The tags depend on the training sets that the run writes (sft, rl) and
    on the roles (jobs) of its models, such as pointer.
    """
    traces = "sft" in summary.sets
    grounded = traces and any(role in summary.roles for role in GROUNDING_ROLES)
    tags = ["groundtrace", *(("visual-grounding", "grounded-reasoning") if grounded else ())]
    return [*tags, *(("chain-of-thought",) if traces else ()), "synthetic"]


def licence_fields(recorded: set[str | None]) -> dict[str, object]:
    """Return the licence fields of the front matter, which is the YAML at the beginning of a data card.

    ``recorded`` holds the licences that the rows name, and None if some rows name no licence. If all these licences
    have an id on the Hub, the field ``license`` holds these ids. If ``recorded`` holds None or a licence without an id
    on the Hub, ``license`` is only ``other``, and ``license_name`` is ``per-row``. The result is empty if ``recorded``
    is empty.
    """
    ids = sorted({hub_id(licence) for licence in recorded})
    if not ids:
        return {}
    if set(ids) <= HUB_LICENCES:
        return {"license": ids[0] if len(ids) == 1 else ids}
    return {"license": "other", "license_name": "per-row"}


def size_category(rows: int) -> str:
    """Return the Hub's size category for a number of rows, such as "1K<n<10K" for 5000."""
    return _SIZES[min(max(len(str(rows)) - 3, 0), len(_SIZES) - 1)]
