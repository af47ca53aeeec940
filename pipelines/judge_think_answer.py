"""Curates data that teaches a model when and how to think (SAIL-RL §3.4, App. A.1).

In each response, the model first judges whether it needs to think, then thinks if so, then answers. The result of this
judging, to think or to answer directly, is called the decision. The stages (steps) of this recipe are:

ingest → clean → deduplicate → decontaminate → draw → complexity → split by media group
→ SFT side: judged trace → verify → leak → redundancy → balance of lengths → cut → sft shards
                                                      └ the three thinking judges are measured on a sample
→ RL side:  open choices → rewrite choices → domain
              → STEM:    attempt → difficulty ┐
              → general: quality → alike      ┴ cut → cap answers → ratio 50:20 → rl shards

``decontaminate`` removes questions that are in a benchmark. Shards are files of training rows. ``complexity`` annotates
whether a question needs thinking, and a judged trace is a response that first states its decision. ``redundancy``
rejects reasoning that only repeats the answer, and ``balance of lengths`` limits the share of reasoning of similar
length. ``domain`` sorts the questions into STEM (science and mathematics) and general questions, and ``quality``
rejects general questions in which a judge finds a fault. The SFT side is the part of the questions that becomes SFT
rows, and the RL side the part that becomes RL rows. If the run has a target number of SFT rows, ``draw`` selects as
many questions as are needed, and ``cut`` keeps exactly this number of rows; without a target, both keep all questions.
``leak`` rejects traces that mention something that only the teacher was shown. ``open choices`` and ``rewrite choices``
turn multiple-choice questions into free-response questions: the first removes the choices where rules allow it, and the
second lets the teacher rewrite the others if possible. ``alike`` limits the questions that are nearly the same, and
``cap answers`` limits those with the same answer. The three thinking judges check the logic, the grounding and the
consistency of reasoning; on a sample, the recipe measures how reliably they find faults.

The defaults are the paper's numbers where it states them; docs/recipes/judge_think_answer.md explains all of them.

The recipe deviates from the paper in these points:

- The complexity of a question (whether the question needs thinking) is annotated once. In the paper, it is annotated
  again in each call of the reward. The annotation is done before the split, since both sides need it. On the SFT side,
  the teacher writes a trace that fits the complexity. In the later RL training, a reward (the judging reward) is 1 if
  the decision of a response fits the complexity, and otherwise 0.
- Questions that share an image are always on the same side. The paper does not mention this.
- The recipe does not set the mix of sources. The mix follows from the sources of the input.
- Of the paper's sizes (400K SFT rows, 50K + 20K RL rows), only the ratio 50 to 20 of STEM and general RL rows is used.

The stage ``attempt`` lets the policy (a model) answer each question several times. The policy should be the SFT model.
So a first run makes the SFT shards. A second run makes the RL shards, with the trained model as the policy. In the
second run, set ``attempt.as_trained`` to True: the policy then gets the same prompts as in its training.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated

import apache_beam as beam

from groundtrace.config.settings import PositiveWeight, settings
from groundtrace.grading.question_text import JUDGE
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.scorers import format, judging, outcome, think_section
from groundtrace.schemas.records import Draft
from groundtrace.stages.annotate_complexity import AnnotateComplexity, ComplexitySettings
from groundtrace.stages.assign_domain import DOMAIN, GENERAL, STEM, AssignDomain, DomainSettings
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.balance_lengths import BalanceLengths, BalanceSettings
from groundtrace.stages.cap_alike import AlikeSettings, CapAlike
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from groundtrace.stages.filter_by_quality import FilterByQuality, QualitySettings
from groundtrace.stages.filter_by_redundancy import FilterByRedundancy, RedundancySettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.keep_ratio import KeepRatio
from groundtrace.stages.measure_judges import JudgeSampleSettings, MeasureJudges, judges_json
from groundtrace.stages.open_multiple_choice import OpenMultipleChoice
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.reject_leaks import LeakSettings, RejectLeaks
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.rewrite_multiple_choice import RewriteMultipleChoice, RewriteSettings
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces
from groundtrace.stages.write_judged_traces import JudgedTraceSettings, WriteJudgedTraces
from groundtrace.vision.clips import VideoSettings

SCORERS = (
    outcome.SCORER,
    format.SCORER,
    think_section.SCORER,
    replace(judging.SCORER, is_gate=True, floor=1.0),
)
"""The scorers of a trace. They check its answer, its form, its think section and its judge section.

The think section must hold reasoning if the question is complex, and must be empty if the question is simple. The judge
section must hold the decision that fits the complexity: to think, or to answer directly. The check of this decision is
a reward in the paper of SAIL-RL (§3.2); here it also filters the SFT traces.
"""


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, one for the frames of
    clips, ``open_choices`` (whether multiple-choice questions are rewritten), and the wanted mix of domains (kinds of
    questions).
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    complexity: ComplexitySettings = field(default_factory=ComplexitySettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    judged_trace: JudgedTraceSettings = field(default_factory=JudgedTraceSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    leak: LeakSettings = field(default_factory=LeakSettings)
    redundancy: RedundancySettings = field(default_factory=RedundancySettings)
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    open_choices: Annotated[bool, "rewrite multiple choice as open questions if the answer allows it"] = True
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)
    domain: DomainSettings = field(default_factory=DomainSettings)
    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    quality: QualitySettings = field(default_factory=QualitySettings)
    alike: AlikeSettings = field(default_factory=AlikeSettings)
    rl: AnswerSettings = field(default_factory=AnswerSettings)
    ratio: Annotated[Mapping[str, PositiveWeight], "the weight of each domain in the mix of RL rows"] = field(
        default_factory=lambda: {STEM: 50.0, GENERAL: 20.0}, hash=False
    )
    judges: JudgeSampleSettings = field(default_factory=JudgeSampleSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if set(self.ratio) != {STEM, GENERAL}:
            raise ValueError(f"ratio must give a weight to {STEM} and {GENERAL}, got {', '.join(self.ratio) or 'none'}")


def domain_of(draft: Draft) -> str:
    """Return the domain of the question in ``draft`` (a question with its data): ``stem`` (science and mathematics) or
    ``general``.

    An earlier stage of the pipeline, AssignDomain, has added the domain to the draft. A draft without a domain counts
    as ``general``. The setting ``ratio`` gives the weight of each domain in the RL rows.
    """
    return draft.added(DOMAIN) or GENERAL


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline; return its SFT drafts, RL drafts and ``judges.json``.

    A draft is a question with all results of the stages so far; each returned draft becomes one row of the output set
    ``sft`` or ``rl``. ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the
    images and clips, and the models of this run. ``settings`` is the config. ``judges.json`` holds how often the three
    judges of the reasoning were right on a sample of the SFT drafts.
    """
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    drawn = clear.kept | "Draw" >> DrawQuestions(run.draw.below)
    labelled = drawn.kept | "Complexity" >> AnnotateComplexity(settings.complexity, models)
    sides = (labelled.kept, clear.kept) | "Split" >> SplitByMediaGroup(settings.split)

    traced = sides.sft | "JudgedTrace" >> WriteJudgedTraces(settings.judged_trace, models)
    verified = traced.kept | "Verify" >> VerifyTraces(settings.verify, models, SCORERS)
    sealed = verified.kept | "Leak" >> RejectLeaks(settings.leak, models)
    terse = sealed.kept | "Redundancy" >> FilterByRedundancy(settings.redundancy)
    balanced = terse.kept | "Balance" >> BalanceLengths(settings.balance)

    opened = sides.rl | "OpenChoices" >> OpenMultipleChoice(settings.open_choices, models.judges_text)
    rewritten = opened.kept | "RewriteChoices" >> RewriteMultipleChoice(settings.rewrite, models, settings.open_choices)
    sorted_ = rewritten.kept | "Domain" >> AssignDomain(settings.domain)
    attempted = sorted_.stem | "Attempt" >> AttemptQuestions(settings.attempt, models, JUDGE)
    in_band = attempted.kept | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    good = sorted_.general | "Quality" >> FilterByQuality(settings.quality, models)
    diverse = good.kept | "Alike" >> CapAlike(settings.alike)
    rl = (in_band.kept, diverse.kept) | "Mix" >> beam.Flatten()

    ends = {"sft": balanced.kept, "rl": rl} | "Cut" >> CutToTarget(run.draw.target_sft, run.draw.last)
    capped = ends["rl"] | "CapAnswers" >> CapAnswers(settings.rl)
    mixed = capped.kept | "Ratio" >> KeepRatio(settings.ratio, domain_of)
    measured = ends["sft"] | "Judges" >> MeasureJudges(settings.judges, models)
    return Ends(
        sft=ends["sft"],
        rl=mixed.kept,
        artifacts={"judges.json": measured["measured"] | "JudgesJson" >> beam.Map(judges_json)},
    )


RECIPE = Recipe(
    name="judge_think_answer",
    reward="sail_rl",
    settings=Settings,
    build=build,
    makes=(
        "The `sft` set holds questions whose response first decides whether to think: complex ones with reasoning "
        "that a teacher wrote under the guidance of the gold answer, simple ones with an empty think section. The `rl` "
        "set holds STEM problems that the policy answers right sometimes but not always, and general questions chosen "
        "for quality and diversity, each with its complexity, for reinforcement learning. No media group (questions "
        "that share an image) is in both."
    ),
    forms=(JUDGE,),
)
