"""Spreading: drafts are redistributed over the workers before slow calls."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from schemas.records import Draft
from stages.plumbing.malloc import release_memory


class _Begin(beam.DoFn):
    """Lets drafts through; a bundle begins with the memory of the stages before it given back."""

    def start_bundle(self) -> None:
        release_memory()

    def process(self, draft: Draft) -> Iterator[Draft]:
        yield draft


class SpreadDrafts(beam.PTransform):
    """Redistribute drafts over the workers, so that slow calls run wherever there is room."""

    def expand(self, drafts: PCollection) -> Any:
        """The same drafts."""
        return drafts | "Spread" >> beam.Reshuffle() | "Begin" >> beam.ParDo(_Begin())
