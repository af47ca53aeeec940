"""Curates chains of thought whose claims about the image have coordinates (Argos §4).

This is the main pipeline. Its filters and rubrics are from other papers. Its stages (steps) are:

ingest → clean → deduplicate → decontaminate → open choices → draw → attempt → difficulty → propose → point
→ split by media group
→ SFT side: overlay → trace → verify → leak → cut → sft shards
→ RL side:  cut → answers capped → rubrics mined on a sample and attached to every row → rl shards

``decontaminate`` removes questions that are in a benchmark. Shards are files of training rows. Rubrics are criteria by
which a judge grades a response. A media group consists of the questions that share an image. The SFT side is the part
of the questions that becomes SFT rows, and the RL side the part that becomes RL rows. ``open choices`` turns
multiple-choice questions into questions with a free answer. ``propose`` names the things to point at, and ``point``
finds them. ``answers capped`` limits the share of questions with the same answer. For ``rubrics mined``, a model
proposes rubrics, and a judge measures them on a sample of the questions. ``overlay`` draws the points on a copy of the
image, which the teacher sees. ``leak`` rejects traces that mention something that only the teacher was shown, such as
these points.

Points are found before the split, because the rewards of the RL side also need them: a reward compares them with the
points of a response. If the run has a target number of SFT rows, ``draw`` selects as many questions as are needed, and
``cut`` keeps exactly this number of rows; without a target, both keep all questions. The records that any stage rejects
are written to the rejected shards.
"""

from dataclasses import field
from typing import Annotated

import apache_beam as beam

from groundtrace.config.settings import settings
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.mined_rubrics import rubrics_json
from groundtrace.rewards.rubrics import RubricSettings
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.draw_overlays import DrawOverlays
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from groundtrace.stages.generate_traces import GenerateTraces, TraceSettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.mine_rubrics import MineRubrics
from groundtrace.stages.open_multiple_choice import OpenMultipleChoice
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.point_entities import PointEntities
from groundtrace.stages.propose_entities import ProposeEntities, ProposeSettings
from groundtrace.stages.reject_leaks import LeakSettings, RejectLeaks
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces
from groundtrace.vision.clips import VideoSettings


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, one for the frames of
    clips, and the switch ``open_choices``.
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    open_choices: Annotated[bool, "rewrite multiple choice as open questions if the answer allows it"] = True
    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    propose: ProposeSettings = field(default_factory=ProposeSettings)
    trace: TraceSettings = field(default_factory=TraceSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    leak: LeakSettings = field(default_factory=LeakSettings)
    rubrics: RubricSettings = field(default_factory=RubricSettings)
    rl: AnswerSettings = field(default_factory=AnswerSettings)


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline; return its SFT drafts, RL drafts and ``rubrics.json``.

    A draft is a question with all results of the stages so far; each returned draft becomes one row of the output set
    ``sft`` or ``rl``. ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the
    images and clips, and the models of this run. ``settings`` is the config. ``rubrics.json`` holds the rubrics
    (criteria by which a judge grades a response) with their measured pass rates.
    """
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    opened = clear.kept | "OpenChoices" >> OpenMultipleChoice(settings.open_choices, models.judges_text)
    drawn = opened.kept | "Draw" >> DrawQuestions(run.draw.below)
    attempted = drawn.kept | "Attempt" >> AttemptQuestions(settings.attempt, models)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    proposed = in_band.kept | "Propose" >> ProposeEntities(settings.propose, models)
    pointed = proposed.kept | "Point" >> PointEntities(models, settings.video)
    sides = (pointed.kept, opened.kept) | "Split" >> SplitByMediaGroup(settings.split)

    overlaid = sides.sft | "Overlay" >> DrawOverlays(roots)
    traced = overlaid.kept | "Trace" >> GenerateTraces(settings.trace, models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, models)
    sealed = verified.kept | "Leak" >> RejectLeaks(settings.leak, models)

    ends = {"sft": sealed.kept, "rl": sides.rl} | "Cut" >> CutToTarget(run.draw.target_sft, run.draw.last)
    capped = ends["rl"] | "CapAnswers" >> CapAnswers(settings.rl)
    mined = capped.kept | "Rubrics" >> MineRubrics(settings.rubrics, models)
    return Ends(
        sft=ends["sft"],
        rl=mined["kept"],
        artifacts={"rubrics.json": mined["mined"] | "RubricsJson" >> beam.Map(rubrics_json, settings.rubrics)},
    )


RECIPE = Recipe(
    name="grounded_cot",
    reward="argos",
    settings=Settings,
    build=build,
    makes=(
        "The `sft` set holds questions with a reasoning trace whose claims about the image carry coordinates; each "
        "trace was scored against the gold answer and the image before it was kept. The `rl` set holds questions with "
        "verifiable answers, the policy's pass rate and rubrics, for reinforcement learning. No media group (questions "
        "that share an image) is in both."
    ),
)
