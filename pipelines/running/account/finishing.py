"""Finishes a run: checks its summary, writes its pages, and replaces the old outputs in the run folder by new ones."""

import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from groundtrace.config.flat import default_values
from groundtrace.config.settings import to_toml
from groundtrace.pipelines.running.account.changes import replaced_by
from groundtrace.pipelines.running.account.failure_report import PartialRun
from groundtrace.pipelines.running.account.failures import (
    StageFailed,
    check_failures,
    check_records,
    most_frequent_details,
)
from groundtrace.pipelines.running.account.kept_rows import check_kept
from groundtrace.pipelines.running.plan.freshness import end_fresh
from groundtrace.pipelines.running.plan.loading import bundled_names, is_bundled
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.publishing.blind_baseline import blind_baseline
from groundtrace.publishing.card import write_card
from groundtrace.publishing.conflicting_answers import conflicting_answers
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.idle_floors import idle_floors
from groundtrace.publishing.reading import open_tables, read_rubrics
from groundtrace.publishing.report import write_report
from groundtrace.publishing.unanimous_attempts import unanimous_attempts
from groundtrace.rewards.mined_rubrics import missing_stratum
from groundtrace.schemas.run_summary import TRAINING_SETS, RunSummary
from groundtrace.stages.sources.base import RUN_MARKER


def finish(plan: Plan, summary: RunSummary, made: PartialRun) -> RunSummary:
    """Check a run, replace the old outputs in its folder with the new ones, and return the complete summary.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``summary`` holds the run's
    counts and costs; the result also holds warnings and the differences from the old run. Before the checks, the
    function stores the summary in ``made``, so that the page on a failed run (``failed.html``) can show it. If a check
    raises an error, the old outputs stay.
    """
    folder, staging, config = plan.folder, plan.folder.staging, to_toml(plan.settings)
    blind = blind_baseline(staging.glob("rl/*.parquet"), plan.recipe.reward)
    rubrics = read_rubrics(staging)
    kept = {name: stage.kept for name, stage in summary.stages.items()}
    missing = [missing_stratum(rubrics)] if rubrics else []
    conflicts = [conflicting_answers(staging.glob(f"{name}/*.parquet")) for name in TRAINING_SETS]
    unanimous = unanimous_attempts(staging.glob("rl/*.parquet"))
    warnings = (
        *filter(None, [*missing, *conflicts, unanimous, taken_name(plan)]),
        *plan.stages.unchecked(plan.settings, plan.models, kept),
    )
    if floors := _named_floors(plan.settings):
        with open_tables(staging, summary) as tables:
            warnings += idle_floors(tables, summary, floors)
    details = most_frequent_details(staging)
    summary = made.summary = replace(summary, details=details, blind=blind, warnings=warnings)
    check_records(summary)
    try:
        check_failures(plan.stages, summary, staging, plan.settings.max_failed)
    except StageFailed as error:
        if error.by_replies:
            end_fresh(folder.root)
        raise
    if not plan.arguments.replace:
        check_kept(folder.root, plan.arguments.output, summary, tomllib.loads(config))
    replaced = replaced_by(
        folder.root, summary, config, default_values(type(plan.settings)), (staging / RUN_MARKER).exists()
    )
    summary = replace(summary, replaced=replaced)
    (staging / "config.toml").write_text(config, "utf-8")
    (staging / "run.json").write_text(json.dumps(summary.to_fields(), indent=1), "utf-8")
    with open_tables(staging, summary) as tables:
        spread = balances(staging, tables, summary.sets)
        write_card(staging, summary, tables, spread)
        write_report(staging, folder.root, summary, plan.context.roots.store(), tables, spread)
    folder.commit(keep_previous=replaced is not None and replaced.kept)
    return summary


def _named_floors(settings: Any) -> Collection[str]:
    """Return the names of the scorers whose minimums in the config's ``verify.floors`` differ from the defaults.

    A scorer is code that checks one property of a response. A response with a lower value than the minimum is rejected.
    ``settings`` is the config. The result is empty if the config has no ``verify.floors``.
    """
    floors = getattr(getattr(settings, "verify", None), "floors", {})
    if not isinstance(floors, Mapping):  # of a user's recipe
        return ()
    known = default_values(type(settings))
    return {name for name, floor in floors.items() if known.get(f"verify.floors.{name}") != floor}


def taken_name(plan: Plan) -> str:
    """Return a warning if the recipe of a run is a file of the user, but has the name of a bundled recipe; else "".

    ``plan`` holds the recipe (the pipeline) and its file.
    """
    name = plan.recipe.name
    if name not in bundled_names() or is_bundled(plan.recipe_file):
        return ""
    return (
        f"The recipe of these rows is the file {plan.recipe_file.name}, but each row names it {name}, as if the "
        "bundled recipe had made the row: give the recipe another name."
    )
