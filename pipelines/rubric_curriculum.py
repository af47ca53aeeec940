"""Makes questions for GRPO, and rubrics for a curriculum of rewards (RuCL §3.2, §4.1).

A rubric is one criterion by which a judge grades a response. In the curriculum, easy rubrics are rewarded first, and
hard rubrics later. The rubrics are measured on a sample of the questions. An attempt is an answer that the policy
samples. A candidate is a proposed rubric. η is the share of attempts to which a rubric applies, and p is the share of
these attempts that meet the rubric. A filter removes rubrics that seldom apply. The strata are the easy and the hard
rubrics. Shards are files of training rows. The stages (steps) of this recipe are:

ingest → clean → deduplicate → decontaminate → sample
→ only the sample: attempt
→ all questions, in the sample or not: cap answers
→ only the sample: candidates from the teacher or the default pool → judge → η, p → filter → strata
→ all questions: rl shards, each row with the run's rubrics; the file rubrics.json holds the measurements

``cap answers`` limits the share of questions with the same answer, and the share of questions about things that are not
in the image. The default pool is a fixed list of rubrics in Groundtrace. If the setting ``open_choices`` is True, a
further stage before the sample turns multiple-choice questions into questions with a free answer. If the setting
``attempt_all`` is True, every question is attempted, not only the questions of the sample. Only in this case, the
config's section ``[difficulty]`` can set a band of pass rates, and a further stage rejects the questions outside this
band. Defaults are the paper's numbers. docs/recipes/rubric_curriculum.md explains the deviations.
"""

from dataclasses import field, replace
from functools import partial
from typing import Annotated

import apache_beam as beam
from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.question_text import PLAIN
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.mined_rubrics import rubrics_json
from groundtrace.rewards.rubrics import RubricSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.mine_rubrics import MineRubrics
from groundtrace.stages.open_multiple_choice import OpenMultipleChoice
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.sample_questions import SampleQuestions
from groundtrace.vision.clips import VideoSettings


@settings
class OneAttempt(AttemptSettings):
    """Holds the settings of the attempts (answers that the base policy samples). The default is one attempt a question.

    A judge grades these attempts by rubrics (criteria of grading), to measure how often each rubric is met (RuCL §3.2).
    By default, only a sample of the questions is attempted. If ``attempt_all`` is True, all questions are attempted,
    and the settings in ``difficulty`` can reject questions by their pass rate. To reject questions by their pass rate,
    set ``k`` to at least 2: the pass rate of a question with one attempt can only be 0 or 1.
    """

    k: Annotated[PositiveInt, "the number of attempts at each question"] = 1
    k_min: Annotated[PositiveInt, "a question with fewer graded attempts is rejected as ungradable"] = 1


@settings
class AnyDifficulty(DifficultySettings):
    """Holds the band of pass rates (shares of right attempts at a question); questions outside the band are rejected.

    By default, all questions are kept, as in the paper (RuCL §4.1).
    """

    include_low: Annotated[bool, "keep a pass rate of exactly low"] = True
    include_high: Annotated[bool, "keep a pass rate of exactly high"] = True


@settings
class SampledRubrics(RubricSettings):
    """Holds the settings with which rubrics (criteria by which a judge grades a response) are proposed and measured
    (RuCL §4.1).

    20 candidates (proposed rubrics) are measured on N = 2,000 questions. The applicability η of a candidate is the
    share of attempts (the policy's sampled answers) to which it applies. A candidate is kept if η is at least 0.99. A
    kept rubric is easy if its pass rate is at least ``easy_pass_rate``, and otherwise hard. The paper does not state
    this limit; the default 0.8 reproduces the paper's Table 1.
    """

    sample: Annotated[PositiveInt, "the number of questions that are attempted and on which the rubrics are judged"] = (
        2000
    )


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, one for the frames of
    clips, and the switches ``open_choices`` and ``attempt_all``.
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    open_choices: Annotated[bool, "rewrite multiple choice as open questions if the answer allows it"] = False
    attempt_all: Annotated[
        bool, "attempt every question, not only the sample: rows then have pass rates, by which difficulty can filter"
    ] = False
    attempt: OneAttempt = field(default_factory=OneAttempt)
    difficulty: AnyDifficulty = field(default_factory=AnyDifficulty)
    rubrics: SampledRubrics = field(default_factory=SampledRubrics)
    rl: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.difficulty != AnyDifficulty() and not self.attempt_all:
            raise ValueError(
                "[difficulty] needs the pass rate of each question, but attempt_all = false: set attempt_all = true, "
                "or remove [difficulty]"
            )


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline, and return its outputs: RL drafts and ``rubrics.json``.

    A draft is a question with all results of the stages so far; each RL draft becomes one row of the output set ``rl``.
    ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the images and clips,
    and the models of this run. ``settings`` is the config. ``rubrics.json`` holds the measured pass rate of each rubric
    (a criterion by which a judge grades a response).
    """
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    questions, others = clear.kept, []
    if settings.open_choices:
        opened = questions | "OpenChoices" >> OpenMultipleChoice(judged=models.judges_text)
        questions = opened.kept
    if not settings.attempt_all:
        drawn = questions | "Sample" >> SampleQuestions(settings.rubrics.sample, models.judges_text)
        questions, others = drawn["kept"], [drawn["others"]]
    attempted = questions | "Attempt" >> AttemptQuestions(settings.attempt, models, PLAIN)
    questions = attempted.kept
    if settings.attempt_all:
        in_band = questions | "Difficulty" >> FilterByDifficulty(settings.difficulty)
        questions = in_band.kept
    together = [questions, *others] | "Questions" >> beam.Flatten()
    capped = together | "CapAnswers" >> CapAnswers(settings.rl)
    mined = capped.kept | "Rubrics" >> MineRubrics(settings.rubrics, models)
    return Ends(
        rl=mined["kept"] | "AskPlainly" >> beam.Map(partial(replace, form=PLAIN)).with_output_types(Draft),
        artifacts={"rubrics.json": mined["mined"] | "RubricsJson" >> beam.Map(rubrics_json, settings.rubrics)},
    )


RECIPE = Recipe(
    name="rubric_curriculum",
    reward="rucl",
    settings=Settings,
    build=build,
    makes=(
        "The `rl` set holds questions with verifiable answers for reinforcement learning. Each row carries the run's "
        "rubrics, criteria for the reasoning that were measured on attempts of the policy: easy ones to be rewarded "
        "first, and hard ones once the easy ones are met. `rubrics.json` holds what was measured of all candidates."
    ),
    forms=(PLAIN,),
)
