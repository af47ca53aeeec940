"""Grounded chain of thought: the main pipeline (Argos §4, with the difficulty filter and the rubrics of the other
papers).

ingest → clean → deduplicate → decontaminate → open choices → draw → attempt → difficulty → split by media group
→ SFT side: propose → point → overlay → trace → verify → cut → sft shards
→ RL side:  cut → rubrics mined on a sample and attached to every row → rl shards
Draw and cut let everything pass unless the run has a target. Every rejection of every stage goes to the rejected
shards.
"""

from dataclasses import field, replace
from typing import Annotated

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from pipelines.running.context import Outcome, RunContext
from pipelines.running.settings import RunSettings
from rewards.rubrics import RubricSettings
from schemas.config import settings
from schemas.records import Draft
from stages.attempt_questions import AttemptQuestions, AttemptSettings
from stages.clean_questions import CleanQuestions, CleanSettings
from stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from stages.draw_overlays import DrawOverlays
from stages.draw_questions import CutToTarget, DrawQuestions, is_record, stand_in
from stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from stages.generate_traces import GenerateTraces, TraceSettings
from stages.ingest_records import IngestRecords
from stages.mine_rubrics import MineRubrics
from stages.open_multiple_choice import OpenMultipleChoice
from stages.point_entities import PointEntities
from stages.propose_entities import ProposeEntities, ProposeSettings
from stages.remove_duplicates import DedupSettings, RemoveDuplicates
from stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from stages.verify_traces import VerifySettings, VerifyTraces
from vision.clips import VideoSettings

RECIPE = "grounded_cot"


@settings
class Settings(RunSettings):
    """The config of this pipeline: one section a stage."""

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    open_choices: Annotated[bool, "turn multiple choice into open questions where the answer allows it"] = True
    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    propose: ProposeSettings = field(default_factory=ProposeSettings)
    trace: TraceSettings = field(default_factory=TraceSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    rubrics: RubricSettings = field(default_factory=RubricSettings)


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Outcome:
    """Wire the stages; the runner of the run writes what comes out."""
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    opened = clear.kept | "OpenChoices" >> OpenMultipleChoice(settings.open_choices)
    chosen = opened.kept | "Draw" >> DrawQuestions(run.draw.below)
    attempted = chosen.kept | "Attempt" >> AttemptQuestions(settings.attempt, models)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)

    whole_groups = opened.kept | "StandIns" >> beam.FlatMap(stand_in).with_output_types(Draft)
    to_split = (in_band.kept, whole_groups) | "WithStandIns" >> beam.Flatten()
    split = to_split | "Split" >> SplitByMediaGroup(settings.split)
    sft_side = split.sft | "SftDrafts" >> beam.Filter(is_record)
    rl_side = split.rl | "RlDrafts" >> beam.Filter(is_record)

    proposed = sft_side | "Propose" >> ProposeEntities(settings.propose, models)
    pointed = proposed.kept | "Point" >> PointEntities(models, settings.video)
    drawn = pointed.kept | "Overlay" >> DrawOverlays(roots)
    traced = drawn.kept | "Trace" >> GenerateTraces(settings.trace, models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, models)

    ends = {"sft": verified.kept, "rl": rl_side} | "Cut" >> CutToTarget(run.draw.target_sft, run.draw.last)
    mined = ends["rl"] | "Rubrics" >> MineRubrics(settings.rubrics, models)
    with_rubrics = ends["rl"] | "AttachRubrics" >> beam.Map(
        lambda draft, found: replace(draft, rubrics=found.kept, calls=draft.calls + found.calls),
        AsSingleton(mined),
    )
    stages = (cleaned, unique, clear, opened, chosen, attempted, in_band, proposed, pointed, drawn, traced, verified)
    ended = (ingested["rejected"], *(stage.rejected for stage in stages), ends["rejected"])
    rejected = ended | "AllRejected" >> beam.Flatten()
    return Outcome(sft=ends["sft"], rl=with_rubrics, rejected=rejected, rubrics=mined)
