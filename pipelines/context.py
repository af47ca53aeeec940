"""What a run hands to a pipeline, and what a pipeline hands back."""

from dataclasses import dataclass

from apache_beam.pvalue import PCollection

from inference.settings import ModelsSettings
from stages.ingest_records import MediaRoots
from stages.reading import Source


@dataclass(frozen=True)
class RunContext:
    """The run's input, media roots and models. ``limit`` keeps the first records of each source (None: all)."""

    sources: tuple[Source, ...]
    roots: MediaRoots
    models: ModelsSettings
    limit: int | None = None


@dataclass(frozen=True)
class Outcome:
    """A pipeline's ends: drafts for SFT and RL, rejections, and a collection of one ``MinedRubrics``."""

    sft: PCollection
    rl: PCollection
    rejected: PCollection
    rubrics: PCollection
