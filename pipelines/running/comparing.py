"""Compares two finished runs.

If a setting is in only one of the two configs, its value is compared with the present default of this setting.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groundtrace.config.flat import default_values
from groundtrace.pipelines.running.plan.loading import bundled_file, bundled_names, load_recipe
from groundtrace.publishing.comparison.compare import Comparison, compare
from groundtrace.publishing.comparison.page import ShownComparison
from groundtrace.publishing.opened_run import OpenedRun
from groundtrace.publishing.reading import read_summary
from groundtrace.storage.mirror import local_copy

LISTED = 20
"""The default for the number of record ids that a comparison lists."""


def diff(first: str | Path | OpenedRun, second: str | Path | OpenedRun, limit: int | None = LISTED) -> ShownComparison:
    """Compare two finished runs, as ``beam diff`` does, and return the comparison. A notebook shows it as a page.

    ``first`` and ``second`` are the runs: the path or URL of a run folder, or an opened run. A record is listed if its
    set (``sft``, ``rl`` or ``rejected``), the stage that rejected it, or the reason of the rejection differs between
    the two runs. ``limit`` is the maximum number of records to list; None lists all of them. Raises
    :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read, or if a later run replaced an opened
    run in its folder.
    """
    for each in (first, second):
        if isinstance(each, OpenedRun):
            each.check_current()
    folders = [each.folder if isinstance(each, OpenedRun) else local_copy(str(each)) for each in (first, second)]
    names = [str(each.folder if isinstance(each, OpenedRun) else each) for each in (first, second)]
    return ShownComparison(**vars(diff_runs(folders[0], folders[1], (names[0], names[1]), limit)))


def diff_runs(
    first: Path,
    second: Path,
    names: tuple[str, str] | None = None,
    limit: int | None = LISTED,
    all_settings: bool = False,
) -> Comparison:
    """Return the comparison of two finished runs (executions of a pipeline): settings, counts, and records that differ.

    Args:
        first: The folder of the first run.
        second: The folder of the second run.
        names: The names of the two runs for the user; None for their paths.
        limit: The maximum number of records to list; None lists all of them. A record is listed if its set (``sft``,
            ``rl`` or ``rejected``), the stage that rejected it, or the reason of the rejection differs between the
            runs.
        all_settings: Whether to also list differences between the configs that the user did not cause. An example is a
            new setting with its default value: the config of a run by an older version of the code does not have it.

    Raises :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read.
    """
    name_a, name_b = names or (str(first), str(second))
    return compare(
        (name_a, first),
        (name_b, second),
        limit=limit,
        all_settings=all_settings,
        defaults=lambda: recipe_defaults(read_summary(first, checked=False).recipe),
    )


def recipe_defaults(recipe: str) -> Mapping[str, Any]:
    """Return the present defaults of a bundled recipe's settings by dotted key; empty for another recipe.

    ``recipe`` is the name in the ``run.json`` of a run, which may be from somebody else. So a name that is the path of
    a file is not imported. The import of a bundled recipe takes seconds, because it imports Beam.
    """
    if recipe not in bundled_names():
        return {}
    return default_values(load_recipe(str(bundled_file(recipe))).settings)
