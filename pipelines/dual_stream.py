"""Curates data for a model that reasons with boxes and also learns to reason in words alone.

A stream is a way of answering a question: with boxes (the grounded stream) or in words alone (the textual stream). The
method is that of iVGR (§3.2, §4.1, App. B). The stages (steps) of this recipe are:

ingest → clean → deduplicate → decontaminate → draw → locate (pseudo-boxes where a record has none)
→ split by media group
→ SFT side: assign one stream → trace → verify → ratio of the streams → cut → sft shards
→ RL side:  with boxes: both streams ─────────────────────────────┐
            without: attempt → difficulty, the textual stream alone ┴→ cut → cap answers → rl shards,
            batch plan

``decontaminate`` removes questions that are in a benchmark. Shards are files of training rows. Pseudo-boxes are boxes
that a detector finds, in place of boxes that a person drew. A media group consists of the questions that share an
image. Each side is a part of the questions: the SFT side becomes SFT rows, and the RL side becomes RL rows. If the run
has a target number of SFT rows, ``draw`` selects as many questions as are needed, and ``cut`` keeps exactly this number
of rows; without a target, both keep all questions. On the RL side, a question with boxes is asked in both streams, and
a question without boxes in the textual stream only. ``cap answers`` limits the questions with the same answer.
Multiple-choice questions keep their choices, as in the paper's general set (App. B).

The recipe deviates from the paper as follows; further deviations are named in the stages:

- The paper's cold start (§4.1), i.e. the SFT before RL, uses annotated traces unchanged. Here the teacher writes the
  traces, and each trace is verified. The paper has separate data sets for SFT and RL; here one input is split.
- The paper has 37K rows with boxes and 14K rows without boxes (App. B). Here these numbers are not a quota, because a
  quota would only remove rows that are already paid for. The share of each of these two kinds of rows in a training
  batch does not depend on the numbers of rows: the batch plan (the file ``batch_plan.json``) sets this share.
- If a question has several images, boxes are located in each image separately. Clips are in the textual stream only
  (reasoning without boxes), because a box has no field for a clip's frame.
"""

from dataclasses import field

import apache_beam as beam

from groundtrace.config.settings import settings
from groundtrace.grading.question_text import BOXES, TEXTUAL
from groundtrace.inference.endpoint import check_coordinates
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.scorer_sets import STREAM_SCORERS
from groundtrace.stages.assign_stream import AssignStream, ColdStartSettings, form_of_draft
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from groundtrace.stages.generate_traces import TraceSettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.keep_ratio import KeepRatio
from groundtrace.stages.locate_targets import LocateSettings, LocateTargets
from groundtrace.stages.plan_batches import BatchPlanSettings, PlanBatches
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.route_by_boxes import GENERAL, RouteByBoxes
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces
from groundtrace.stages.write_stream_traces import WriteStreamTraces
from groundtrace.vision.clips import VideoSettings

SFT_RATIO = 0.407
"""The share of questions on the SFT side. In the paper, 35K of 86K rows belong to the cold start (§4.1, Table 11)."""


def _verifying() -> VerifySettings:
    floors = {scorer.name: scorer.floor for scorer in STREAM_SCORERS if scorer.floor is not None}
    weights = {"outcome": 1.0, "boxes": 1.0, "boxes_located": 1.0, "temporal": 1.0, "reasoning": 1.0}
    return VerifySettings(floors=floors, gate=GateSettings(weights=weights))


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, and one for the frames of
    clips. The defaults are the paper's values.

    With the defaults of ``attempt`` and ``difficulty``, general questions (without boxes) are kept if one or two of
    five answers are right. The paper samples these answers from its cold-start model, i.e. the model after SFT. If the
    policy (the model whose answers are sampled) was also trained on SFT rows, set ``attempt.as_trained`` to true. The
    prompts of the attempts then have the same words as those of the SFT rows, with which the policy was trained.
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    locate: LocateSettings = field(default_factory=LocateSettings)
    split: SplitSettings = field(default_factory=lambda: SplitSettings(sft_ratio=SFT_RATIO))
    cold_start: ColdStartSettings = field(default_factory=ColdStartSettings)
    trace: TraceSettings = field(default_factory=lambda: TraceSettings(n=4))
    verify: VerifySettings = field(default_factory=_verifying)
    attempt: AttemptSettings = field(default_factory=lambda: AttemptSettings(k=5, k_min=5, max_tokens=4096))
    difficulty: DifficultySettings = field(
        default_factory=lambda: DifficultySettings(low=0.2, high=0.4, include_low=True, include_high=True)
    )
    batch: BatchPlanSettings = field(default_factory=BatchPlanSettings)
    rl: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.roles.get("teacher")
        if name:
            check_coordinates("teacher", name, self.endpoints[name])


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline; return its outputs: SFT drafts, RL drafts, batch plan.

    A draft is a question with all results of the stages so far; each returned draft becomes one row of the output set
    ``sft`` or ``rl``. ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the
    images and clips, and the models of this run. ``settings`` is the config. The batch plan is the file
    ``batch_plan.json``, which states how many prompts of a training batch come from questions with boxes, and how many
    from questions without boxes.
    """
    models, roots, target = run.models, run.roots, run.draw.target_sft
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    drawn = clear.kept | "Draw" >> DrawQuestions(run.draw.below)
    located = drawn.kept | "Locate" >> LocateTargets(settings.locate, models)
    sides = (located.kept, clear.kept) | "Split" >> SplitByMediaGroup(settings.split)

    assigned = sides.sft | "Assign" >> AssignStream(settings.cold_start)
    traced = assigned.kept | "Trace" >> WriteStreamTraces(settings.trace, models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, models, STREAM_SCORERS)
    in_ratio = verified.kept | "Ratio" >> KeepRatio(settings.cold_start.ratio, form_of_draft, target)

    routed = sides.rl | "Streams" >> RouteByBoxes(models.judges_text)
    attempted = routed[GENERAL] | "Attempt" >> AttemptQuestions(settings.attempt, models, TEXTUAL)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    rl = (routed.kept, in_band.kept) | "BothParts" >> beam.Flatten()

    ends = {"sft": in_ratio.kept, "rl": rl} | "Cut" >> CutToTarget(target, run.draw.last)
    capped = ends["rl"] | "CapAnswers" >> CapAnswers(settings.rl)
    return Ends(
        sft=ends["sft"],
        rl=capped.kept,
        artifacts={"batch_plan.json": capped.kept | "PlanBatches" >> PlanBatches(settings.batch)},
    )


RECIPE = Recipe(
    name="dual_stream",
    reward="ivgr",
    settings=Settings,
    build=build,
    makes=(
        "The `sft` set holds questions with one verified reasoning trace each: most with a box for each thing that the "
        "answer rests on, the others in words alone. The `rl` set holds questions for reinforcement learning in two "
        "streams: those with boxes are asked once for reasoning with boxes and once in words, those without in words "
        "only. Boxes of the input are `gold`; where it has none, `detector` marks those that a detector found. No "
        "media group (questions that share an image) is in both sets. `batch_plan.json` holds how batches are made."
    ),
    forms=(BOXES, TEXTUAL),
)
