"""Finds how a new run of a pipeline differs, in its config, input and rows, from the run whose outputs it replaces."""

import tomllib
from pathlib import Path

from groundtrace.config.flat import flat
from groundtrace.publishing.reading import InspectError, read_config, read_summary
from groundtrace.schemas.run_summary import ReplacedFigures, RunSummary

ABSENT = "(none)"


def replaced_by(root: Path, summary: RunSummary, config: str, other_input: bool = False) -> ReplacedFigures | None:
    """Return the differences between a new run and the finished run in its folder, and the old numbers of rows.

    The config, recipe, input, number of records and code revision of the two runs are compared. The result is None if
    the folder holds no finished run. The field ``kept`` of the result is True if the old outputs must be kept, i.e. if
    the old run has rows, and the runs differ in a compared property or in their numbers of rows.

    Args:
        root: The run folder.
        summary: The summary of the new run.
        config: The complete config of the new run, as TOML text.
        other_input: Whether the inputs of the two runs differ in their content. The result lists a different content
            only if the inputs have the same name. If their names differ, the result lists the two names.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the old config is damaged.
    """
    try:
        old = read_summary(root, checked=False)
    except InspectError:
        return None
    before, now = dict(flat(read_config(root))), dict(flat(tomllib.loads(config)))
    changed = [
        (key, before.get(key, ABSENT), now.get(key, ABSENT))
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
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
