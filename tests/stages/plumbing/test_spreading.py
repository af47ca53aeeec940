"""Spreading: the drafts stay the same, and cross packed."""

import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import equal_to
from apache_beam.transforms.window import FixedWindows

from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.spill import spooling
from groundtrace.stages.plumbing.spreading import SpreadDrafts

from ..matching import assert_that


def make_draft(number: int) -> Draft:
    """A draft that no compression makes small."""
    return Draft(
        Question(f"q{number}", "rendered", "CC0-1.0", (), random.Random(number).randbytes(200).hex(), "2", "numeric")
    )


class Groupings(PipelineVisitor):
    """Collects the element types that enter the groupings of a pipeline."""

    def __init__(self) -> None:
        self.entered: list[object] = []

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if isinstance(transform_node.transform, beam.GroupByKey):
            self.entered += [elements.element_type for elements in transform_node.inputs]

    enter_composite_transform = visit_transform


@pytest.mark.parametrize("windowed", [False, True])
def test_spreading_keeps_the_drafts_and_packs_them_on_the_way(windowed: bool, tmp_path: Path) -> None:
    drafts = [make_draft(number) for number in range(40)]
    groupings = Groupings()
    with spooling(str(tmp_path)), beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        source = pipeline | beam.Create(drafts)
        if windowed:
            source = source | beam.WindowInto(FixedWindows(60))
        spread: Any = source | SpreadDrafts()
        pipeline.visit(groupings)
        assert spread.element_type is Draft
        assert_that(spread, equal_to(drafts))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > 40 * 200, "they went through the spool"
    carrying = [kind for kind in groupings.entered if Draft.__name__ in str(kind)]
    assert len(carrying) == 1
    with spooling(""):
        assert "PackedCoder" in repr(registry.get_coder(carrying[0]))
