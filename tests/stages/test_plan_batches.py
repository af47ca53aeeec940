"""The batch plan: the paper's shares, and what they become where a part has no rows."""

import json
from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.schemas.records import Draft
from groundtrace.stages.plan_batches import BatchPlanSettings, PlanBatches, batch_plan
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.route_by_boxes import asked_in

from .matching import assert_that

BOTH, ALONE = ("grounded", "textual"), ("textual",)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ({BOTH: 37_000, ALONE: 14_000}, [(BOTH, 0.9, 37_000), (ALONE, 0.1, 14_000)]),
        ({BOTH: 1, ALONE: 1}, [(BOTH, 0.9, 1), (ALONE, 0.1, 1)]),
        ({BOTH: 3}, [(BOTH, 1.0, 3)]),
        ({ALONE: 3}, [(ALONE, 1.0, 3)]),
        ({}, []),
    ],
)
def test_the_parts(rows: dict, parts: list) -> None:
    plan = json.loads(batch_plan(rows, BatchPlanSettings()))
    assert [(tuple(part["streams"]), part["share"], part["rows"]) for part in plan["parts"]] == parts


def test_of_the_papers_batch_45_percent_are_distinct_questions_of_two_streams() -> None:
    dual, alone = json.loads(batch_plan({BOTH: 37_000, ALONE: 14_000}, BatchPlanSettings()))["parts"]
    assert dual["share"] / len(dual["streams"]) == pytest.approx(0.45)
    assert alone["share"] / len(alone["streams"]) == pytest.approx(0.1)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.1])
def test_each_part_has_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="dual_share"):
        BatchPlanSettings(share)


@pytest.mark.parametrize("counts", [(5, 2), (0, 0), (700, 1)])
def test_the_artifact_is_one_text(make_draft: Callable[..., Draft], counts: tuple[int, int]) -> None:
    drafts = [asked_in(make_draft(f"d{n}"), BOTH) for n in range(counts[0])]
    drafts += [asked_in(make_draft(f"t{n}"), ALONE) for n in range(counts[1])]
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        texts = pipeline | beam.Create(drafts, reshuffle=False) | PlanBatches(BatchPlanSettings())
        rows = {streams: n for streams, n in zip((BOTH, ALONE), counts, strict=True) if n}
        assert_that(texts, equal_to([batch_plan(rows, BatchPlanSettings())]))
