"""The stages without which there are no rows of both kinds: for tests of how a run goes, a third shorter."""

from dataclasses import field

import apache_beam as beam

from groundtrace.config.settings import settings
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from groundtrace.stages.generate_traces import GenerateTraces, TraceSettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.point_entities import PointEntities
from groundtrace.stages.propose_entities import ProposeEntities, ProposeSettings
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces
from groundtrace.vision.clips import VideoSettings


@settings
class Settings(RunSettings):
    """The config of this pipeline: one section a stage, named as in ``grounded_cot``."""

    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    propose: ProposeSettings = field(default_factory=ProposeSettings)
    trace: TraceSettings = field(default_factory=TraceSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Wire the stages."""
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, run.roots, run.limit)
    attempted = ingested["kept"] | "Attempt" >> AttemptQuestions(settings.attempt, run.models)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    proposed = in_band.kept | "Propose" >> ProposeEntities(settings.propose, run.models)
    pointed = proposed.kept | "Point" >> PointEntities(run.models, VideoSettings())
    sides = (pointed.kept, ingested["kept"]) | "Split" >> SplitByMediaGroup(settings.split)
    traced = sides.sft | "Trace" >> GenerateTraces(settings.trace, run.models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, run.models)
    return Ends(sft=verified.kept, rl=sides.rl)


RECIPE = Recipe(
    name="short_recipe",
    settings=Settings,
    build=build,
    makes="The `sft` set holds questions with a verified trace, the `rl` set others with the policy's pass rate.",
)
