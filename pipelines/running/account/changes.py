"""Finds how a new run of a pipeline differs, in its config, input and rows, from the run whose outputs it replaces."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groundtrace.pipelines.running.account.config_changes import config_changes
from groundtrace.publishing.reading import InspectError, read_config, read_summary
from groundtrace.schemas.run_summary import ReplacedFigures, RunSummary


def replaced_by(
    root: Path, summary: RunSummary, config: str, defaults: Mapping[str, Any], other_input: bool = False
) -> ReplacedFigures | None:
    """Return the differences between a new run and the finished run in its folder, and the old numbers of rows.

    The config, recipe (the pipeline's file), input, number of records and code revision of the two runs are compared.
    The result is None if the folder holds no finished run. The field ``kept`` of the result is True if the old outputs
    must be kept, i.e. if the old run has rows, and the runs differ in a compared property or in their numbers of rows.

    Args:
        root: The run folder.
        summary: The summary of the new run.
        config: The complete config of the new run, as TOML text.
        defaults: The default of each setting of the new run's recipe, by dotted key; empty if it has no defaults.
        other_input: Whether the inputs of the two runs differ in their content. The result lists a different content
            only if the inputs have the same name. If their names differ, the result lists the two names.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the old config is damaged.
    """
    try:
        old = read_summary(root, checked=False)
    except InspectError:
        return None
    changed = [*config_changes(read_config(root), tomllib.loads(config), defaults)]
    pairs = {
        "recipe": (old.recipe, summary.recipe),
        "input": (old.input, summary.input),
        "records": (old.counts.input, summary.counts.input),
        "revision": (old.revision, summary.revision),
    }
    changed += [(name, str(was), str(new)) for name, (was, new) in pairs.items() if was != new]
    if other_input and old.input == summary.input:
        changed.append(("input", old.input, f"{summary.input}, with another content"))
    rows = (old.counts.sft, old.counts.rl)
    kept = any(rows) and (bool(changed) or rows != (summary.counts.sft, summary.counts.rl))
    return ReplacedFigures(old.finished, *rows, tuple(changed), kept)
