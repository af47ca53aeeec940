"""What a run hands to a pipeline, and what a pipeline hands back."""

from dataclasses import dataclass, field

from apache_beam.pvalue import PCollection

from inference.settings import ModelsSettings
from stages.draw_questions import Draw
from stages.ingest_records import MediaRoots
from stages.sources.base import Source


@dataclass(frozen=True)
class RunContext:
    """The run's input, media roots and models. ``limit`` keeps the first records of the input (None: all).

    ``draw`` says which questions this pass draws; a DAG that can end with an exact number of rows heeds it by
    DrawQuestions before its first model call and CutToTarget at its ends.
    """

    sources: tuple[Source, ...]
    roots: MediaRoots
    models: ModelsSettings
    limit: int | None = None
    draw: Draw = field(default_factory=Draw)


@dataclass(frozen=True)
class Outcome:
    """A pipeline's ends: drafts for SFT and RL, rejections, and a collection of one ``MinedRubrics``."""

    sft: PCollection
    rl: PCollection
    rejected: PCollection
    rubrics: PCollection
