"""Curates executable reasoning, which teaches when to write code and how (CodeDance §3.2, §7.1).

ingest → clean → deduplicate → decontaminate → draw → attempt → split by media group
→ SFT side: difficulty ┬ easy: the gold answer directly ───────────────────────────────┐
                       └ hard: trajectory (think, execute, feedback) → verify ─────────┴ ratio → cut → sft shards
→ RL side:  difficulty → cut → cap answers → rl shards
The weak policy's attempts divide the questions (weak-to-strong filtering): a question is easy if its pass rate is above
the band. A strong teacher writes trajectories for the hard questions, each with one kind of operation. Code runs in the
sandbox only (docs/sandbox.md): without its isolation the run refuses to start.

Deviations. The paper gives neither the band nor the number of attempts: here 4 attempts, and easy means that all are
right. Questions that no attempt solves stay on the SFT side, where a stronger teacher may solve them, and leave the RL
side, where a group without a right answer teaches nothing. The shares of easy and hard questions in the paper's 34K
rows (Figure 6) cannot be read from its text: ``ratio`` keeps as many of each by default. The split puts no image on
both sides; the paper does not mention this.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import Annotated

import apache_beam as beam

from groundtrace.config.settings import PositiveWeight, settings
from groundtrace.grading.question_text import CODE
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.trajectory import DIRECT, MODE, WITH_CODE
from groundtrace.sandbox.settings import SandboxSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.answer_directly import AnswerDirectly
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import TOO_EASY, DifficultySettings, FilterByDifficulty
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.keep_ratio import KeepRatio
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_trajectories import TrajectoryCheckSettings, VerifyTrajectories
from groundtrace.stages.write_trajectories import TrajectorySettings, WriteTrajectories
from groundtrace.vision.clips import VideoSettings


@settings
class Settings(RunSettings):
    """The config of this pipeline: one section for each stage, and one for the sandbox."""

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    trajectory: TrajectorySettings = field(default_factory=TrajectorySettings)
    verify_trajectory: TrajectoryCheckSettings = field(default_factory=TrajectoryCheckSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    ratio: Annotated[Mapping[str, PositiveWeight], "the weights of SFT rows answered directly and with code"] = field(
        default_factory=lambda: {DIRECT: 1.0, WITH_CODE: 1.0}, hash=False
    )
    rl: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if set(self.ratio) != {DIRECT, WITH_CODE}:
            raise ValueError(
                f"ratio must give a weight to {DIRECT} and {WITH_CODE}, got {', '.join(self.ratio) or 'none'}"
            )


def mode_of(draft: Draft) -> str:
    """Return whether a draft is answered directly or with code; ``ratio`` mixes the SFT rows by this value."""
    return draft.added(MODE) or DIRECT


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Wire the stages of the recipe on the pipeline ``root``, and return the ends of its DAG."""
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    drawn = clear.kept | "Draw" >> DrawQuestions(run.draw.below)
    attempted = drawn.kept | "Attempt" >> AttemptQuestions(settings.attempt, models)
    sides = (attempted.kept, clear.kept) | "Split" >> SplitByMediaGroup(settings.split)

    to_sft = replace(settings.difficulty, include_low=True, route=(TOO_EASY,))
    graded = sides.sft | "Easy" >> FilterByDifficulty(to_sft)
    direct = graded.too_easy | "Direct" >> AnswerDirectly()
    written = graded.kept | "Trajectory" >> WriteTrajectories(settings.trajectory, settings.sandbox, models, roots)
    verified = written.kept | "Verify" >> VerifyTrajectories(
        settings.verify_trajectory, settings.trajectory, settings.sandbox, models, roots
    )
    both = (direct.kept, verified.kept) | "Both" >> beam.Flatten()
    mixed = both | "Ratio" >> KeepRatio(settings.ratio, mode_of)

    in_band = sides.rl | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    rl = in_band.kept | "AskForCode" >> beam.Map(partial(replace, form=CODE)).with_output_types(Draft)
    ends = {"sft": mixed.kept, "rl": rl} | "Cut" >> CutToTarget(run.draw.target_sft, run.draw.last)
    capped = ends["rl"] | "CapAnswers" >> CapAnswers(settings.rl)
    return Ends(sft=ends["sft"], rl=capped.kept)


RECIPE = Recipe(
    name="executable_cot",
    reward="codedance",
    settings=Settings,
    build=build,
    makes=(
        "The `sft` set holds easy questions that are answered directly, and hard ones with trajectories of a teacher: "
        "reasoning, Python code of one kind of operation, the result of its execution, and the answer. The `rl` set "
        "holds questions that the policy answers right sometimes but not always. No media group (questions that share "
        "an image) is in both."
    ),
    forms=(CODE,),
)
