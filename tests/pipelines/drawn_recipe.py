"""The short recipe with a target: it draws questions and cuts the rows, as ``grounded_cot`` does."""

import apache_beam as beam

from groundtrace.stages.attempt_questions import AttemptQuestions
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import FilterByDifficulty
from groundtrace.stages.generate_traces import GenerateTraces
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.point_entities import PointEntities
from groundtrace.stages.propose_entities import ProposeEntities
from groundtrace.stages.split_by_media_group import SplitByMediaGroup
from groundtrace.stages.verify_traces import VerifyTraces
from groundtrace.vision.clips import VideoSettings
from tests.pipelines.short_recipe import Settings


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Wire the stages."""
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, run.roots, run.limit)
    drawn = ingested["kept"] | "Draw" >> DrawQuestions(run.draw.below)
    attempted = drawn.kept | "Attempt" >> AttemptQuestions(settings.attempt, run.models)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    proposed = in_band.kept | "Propose" >> ProposeEntities(settings.propose, run.models)
    pointed = proposed.kept | "Point" >> PointEntities(run.models, VideoSettings())
    sides = (pointed.kept, ingested["kept"]) | "Split" >> SplitByMediaGroup(settings.split)
    traced = sides.sft | "Trace" >> GenerateTraces(settings.trace, run.models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, run.models)
    ends = {"sft": verified.kept, "rl": sides.rl} | "Cut" >> CutToTarget(run.draw.target_sft, run.draw.last)
    return Ends(sft=ends["sft"], rl=ends["rl"])


RECIPE = Recipe(
    name="drawn_recipe",
    settings=Settings,
    build=build,
    makes="The `sft` set holds questions with a verified trace, the `rl` set others with the policy's pass rate.",
)
