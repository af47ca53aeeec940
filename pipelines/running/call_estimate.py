"""Estimates the calls of a run from an earlier run or preview of the same input with the same config."""

import contextlib

from groundtrace.config.settings import config_sha256
from groundtrace.pipelines.running.forecast import count_records, expected_calls
from groundtrace.pipelines.running.plan import Plan
from groundtrace.publishing.figures import InspectError, read_summary
from groundtrace.schemas.run_summary import RunSummary


def calls_to_expect(plan: Plan) -> float | None:
    """The estimated calls of the whole run; None without an earlier run in the run folder or beside it.

    Also None if the input's size is not known.
    """
    earlier, total = _earlier_run(plan), count_records(plan.context.sources, plan.context.limit)
    return expected_calls(earlier, total, plan.stages, plan.settings) if earlier and total else None


def _earlier_run(plan: Plan) -> RunSummary | None:
    sha256 = config_sha256(plan.settings)
    for folder in (plan.folder, *plan.folder.beside(plan.input.fingerprint)):
        with contextlib.suppress(InspectError):
            summary = read_summary(folder.root, checked=False)
            if (summary.recipe, summary.config_sha256) == (plan.recipe.name, sha256) and summary.counts.input:
                return summary
    return None
