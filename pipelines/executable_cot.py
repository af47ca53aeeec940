"""Curates executable reasoning, which teaches a model when to write code and how (CodeDance §3.2, §7.1).

The stages (steps) of this recipe are:

ingest → clean → deduplicate → decontaminate → draw
→ ┬ with a question ──────────────────────────────────────────────────────────┬ join → attempt → split by media group
  └ images: suitable? → question, answer, object → box of the object → good? ─┘
→ SFT side: difficulty ┬ easy: confirm → the gold answer directly ──────────────────────────┐
                       ├ hard: trajectory (think, execute, feedback) ──────────┬→ verify ──┼ ratio → cut → sft shards
                       └ some: confirm → reason in text ┬ rewrite with code ───┘           │
                                                        └──────────────────────────────────┘
→ RL side:  difficulty → confirm → cut → cap answers → rl shards

``decontaminate`` removes questions that are in a benchmark. Shards are files of training rows. The SFT side is the part
of the questions that becomes SFT rows, and the RL side the part that becomes RL rows. If the run has a target number of
SFT rows, ``draw`` selects as many questions as are needed, and ``cut`` keeps exactly this number of rows; without a
target, both keep all questions. ``cap answers`` limits the questions with the same answer. ``confirm`` removes
questions whose gold answer is not confirmed. ``suitable?`` and ``good?`` are checks by the judge: they reject
unsuitable images, and written questions that are not good.

Questions: If an image has no question, the teacher writes a question and its answer (§7.2, Tables 5 to 7). First the
judge must confirm this answer. Then a second check must confirm it: the policy's attempts (sampled answers of a weak
model) or executed code. Only a confirmed answer is used as the gold answer. The column ``question_source`` of a row
states who wrote its question.

Easy and hard: The policy attempts each question several times. The share of right attempts is the pass rate of the
question. The pass rates divide the questions (weak-to-strong filtering): a question is easy if its pass rate is above
the band of pass rates that ``difficulty`` sets, and hard if its pass rate is in the band. By default, the band holds
the pass rates between 0 and 1, without 0 and 1 themselves. On the SFT side, the lower end of the band (0 by default) is
always in the band, too. A strong teacher writes trajectories for the hard questions: reasoning, code and the result of
the code, in several turns. By default, the prompt of each trajectory asks for code of one kind of operation: transforms
of the image, computation or drawing. Code runs in the sandbox only (docs/sandbox.md): a run does not start on a machine
that cannot isolate code.

By default, no question takes the third branch, ``some``. In this branch, the teacher solves a hard question in text,
without code. Two settings send hard questions to the branch:

- ``text_from`` is a pass rate. Hard questions with at least this pass rate take the branch. Their solutions stay in
  text.
- ``trajectory.rewritten_sources`` lists data sets. All hard questions from these data sets take the branch. If such a
  question does not meet ``text_from``, code replaces the calculations in its solution (Tables 8 and 9). A question
  does not meet ``text_from`` if its pass rate is lower or unknown, or if ``text_from`` is not set.

The recipe deviates from the paper, or decides what the paper leaves open, in these points:

- The paper does not state the band or the number of attempts. By default, a question has 4 attempts here, and is easy
  if all of them are right.
- Questions that no attempt solves stay on the SFT side, because a stronger teacher may solve them. They are removed
  from the RL side, because a group of responses without a right answer has no learning signal.
- The paper's text does not state the shares of easy and hard questions in its 34K rows (Figure 6). By default,
  ``ratio`` keeps as many easy as hard questions.
- Questions that share an image are always on the same side; the paper does not mention this.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any

import apache_beam as beam

from groundtrace.config.settings import PositiveWeight, Share, settings
from groundtrace.grading.question_text import CODE
from groundtrace.grading.responses.operations import COMPUTATION, OPERATIONS
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.trajectory import DIRECT, IN_TEXT, MODE, WITH_CODE
from groundtrace.rewards.trajectory import OPERATIONS as OF_KINDS
from groundtrace.sandbox.settings import SandboxSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.answer_directly import AnswerDirectly
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.cap_answers import AnswerSettings, CapAnswers
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.confirm_answers import ConfirmAnswers
from groundtrace.stages.decontaminate_questions import DecontaminateQuestions, DecontaminateSettings
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions
from groundtrace.stages.filter_by_difficulty import TOO_EASY, DifficultySettings, FilterByDifficulty
from groundtrace.stages.ground_objects import GroundObjects, GroundObjectSettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.join_questions import JoinQuestions
from groundtrace.stages.judge_images import ALL, ImageSettings, JudgeImages
from groundtrace.stages.judge_pairs import JudgePairs, PairSettings
from groundtrace.stages.keep_ratio import KeepRatio
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.reason_in_text import ReasonInText, ReasonSettings
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates
from groundtrace.stages.rewrite_with_code import RewriteSettings, RewriteWithCode
from groundtrace.stages.split_by_media_group import SplitByMediaGroup, SplitSettings
from groundtrace.stages.verify_trajectories import TrajectoryCheckSettings, VerifyTrajectories
from groundtrace.stages.write_questions import WriteQuestions, WriteSettings
from groundtrace.stages.write_trajectories import TrajectorySettings, WriteTrajectories
from groundtrace.vision.clips import VideoSettings

SEVERAL = "several"
"""The class of SFT rows whose code has several kinds of operation, or no known kind."""


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, one for the frames of
    clips, and one for the sandbox.

    An SFT row has one of three contents: only an answer, reasoning in text, or code. The keys ``text_from`` and
    ``ratio`` decide how many rows there are of each.
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    judge_images: ImageSettings = field(default_factory=ImageSettings)
    write_questions: WriteSettings = field(default_factory=WriteSettings)
    ground_objects: GroundObjectSettings = field(default_factory=GroundObjectSettings)
    judge_pairs: PairSettings = field(default_factory=PairSettings)
    attempt: AttemptSettings = field(default_factory=AttemptSettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    difficulty: DifficultySettings = field(default_factory=DifficultySettings)
    trajectory: TrajectorySettings = field(default_factory=TrajectorySettings)
    verify_trajectory: TrajectoryCheckSettings = field(default_factory=TrajectoryCheckSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    reason: ReasonSettings = field(default_factory=ReasonSettings)
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)
    text_from: Annotated[
        Share | None, "hard questions with at least this pass rate are answered in text; none: with code"
    ] = None
    ratio: Annotated[
        Mapping[str, PositiveWeight],
        "the weights of SFT rows: direct, text, and either code or each kind of operation; empty: equal shares of "
        "direct, text and code",
    ] = field(default_factory=dict, hash=False)
    rl: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ratio and set(self.ratio) not in (self._modes | {WITH_CODE}, self._modes | self._kinds):
            raise ValueError(
                f"ratio must have exactly the keys {', '.join((*sorted(self._modes), WITH_CODE))}, or exactly the keys "
                f"{', '.join((*sorted(self._modes), *sorted(self._kinds)))}, got {', '.join(sorted(self.ratio))}"
            )

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the weight of each class of SFT rows, from the setting ``ratio``.

        The numbers of rows of the classes have the ratio of these weights. For example, ``{"code": 2.0, "direct":
        1.0}`` means twice as many rows with code as rows with the answer alone. If ``ratio`` is empty, all classes have
        the weight 1.
        """
        return self.ratio or dict.fromkeys((*sorted(self._modes), WITH_CODE), 1.0)

    @property
    def _modes(self) -> set[str]:
        """Return the modes, which are the kinds of SFT rows without code.

        The mode ``direct`` (the answer alone) is always in the result. The mode ``text`` (reasoning in text) is in the
        result only if the setting ``text_from`` is not None. ``text_from`` is a pass rate: hard questions with at least
        this pass rate are answered in text.
        """
        return {DIRECT} if self.text_from is None else {DIRECT, IN_TEXT}

    @property
    def _kinds(self) -> set[str]:
        """Return the kinds of operation that ``ratio`` can name as classes of rows with code, such as ``drawing``.

        These are the kinds with a weight above 0 in ``trajectory.mixture``. If no kind has such a weight, they are all
        kinds and :data:`SEVERAL`, the class of rows whose code does not have exactly one kind. If
        ``trajectory.rewritten_sources`` names data sets, computation is also in the result.
        """
        kinds = {kind for kind, weight in self.trajectory.mixture.items() if weight} or {*OPERATIONS, SEVERAL}
        return kinds | ({COMPUTATION} if self.trajectory.rewritten_sources else set[str]())


def class_of(draft: Draft, weights: Mapping[str, float]) -> str:
    """Return the class of an SFT row: ``direct``, ``text``, ``code``, or the row's kind of operation.

    ``draft`` is a question with the results of the stages (steps) so far, such as the response from which the row is
    made. A row with the answer alone has the class ``direct``, and a row with reasoning in text has the class ``text``.
    ``weights`` holds a weight for each class. If ``weights`` has the class ``code``, all rows with code have this
    class. Otherwise the class of a row with code is its kind of operation, such as ``drawing``, or :data:`SEVERAL` if
    it does not have exactly one kind.
    """
    mode = draft.added(MODE) or DIRECT
    if mode != WITH_CODE or WITH_CODE in weights:
        return mode
    kinds = draft.added(OF_KINDS) or ()
    return kinds[0] if len(kinds) == 1 else SEVERAL


def is_in_text(draft: Draft, settings: Settings) -> bool:
    """Return whether a hard question is answered in text without code.

    ``draft`` holds the question and its pass rate (the share of right answers among several sampled answers). The
    result is True if this pass rate is at least ``text_from`` of ``settings``. It is always False if ``text_from`` is
    None or if the question has no pass rate.
    """
    rate = draft.pass_rate
    return settings.text_from is not None and rate is not None and rate >= settings.text_from


def is_solved_in_text(draft: Draft, settings: Settings) -> bool:
    """Return whether the teacher model first writes a solution of a hard question in text, without code.

    ``draft`` holds the question, and ``settings`` is the config. The result is True in two cases:

    - The pass rate (the share of right answers among several sampled answers) is at least ``text_from``. The solution
      then stays in text: no later stage changes it.
    - The first case does not apply, and ``trajectory.rewritten_sources`` names the source of the question. A later
      stage then replaces the calculations in the solution by code.

    The first case does not apply if the pass rate is lower or unknown, or if ``text_from`` is None.
    """
    return is_in_text(draft, settings) or draft.question.source in settings.trajectory.rewritten_sources


def _split(rule: Callable[[Draft], bool]) -> beam.Partition:
    """Return the transform with two outputs: first the drafts for which ``rule`` is false, then the others.

    A draft is a question with all results of the stages (steps) so far.
    """
    return beam.Partition(lambda draft, _: int(rule(draft)), 2)  # type: ignore[arg-type]


def with_questions(drawn: Any, settings: Settings, models: ModelsSettings) -> Any:
    """Return the collection of the drafts with a question. The teacher writes a question for each image without one.

    A draft is a record of the input with its data: a question with its images, or images without a question. ``drawn``
    is a Beam collection of drafts of both kinds. ``settings`` is the config. ``models`` names the models that judge the
    images, write the questions and find the boxes. This function adds stages to the pipeline. They may reject a draft
    because of its images, or because of the question that the teacher wrote for it. The result is a Beam collection
    without the rejected drafts.
    """
    if settings.judge_images.apply_to == ALL:
        drawn = (drawn | "JudgeImages" >> JudgeImages(settings.judge_images, models)).kept
    images, asked = drawn | "WithoutQuestion" >> _split(is_asked)
    if settings.judge_images.apply_to != ALL:
        images = (images | "JudgeImages" >> JudgeImages(settings.judge_images, models)).kept
    written = images | "WriteQuestions" >> WriteQuestions(settings.write_questions, models)
    grounded = written.kept | "GroundObjects" >> GroundObjects(settings.ground_objects, models)
    good = grounded.kept | "JudgePairs" >> JudgePairs(settings.judge_pairs, models)
    both = (asked, good.kept) | "AskedAndWritten" >> beam.Flatten()
    return (both | "JoinQuestions" >> JoinQuestions()).kept


def is_asked(draft: Draft) -> bool:
    """Return whether ``draft`` (a record of the input with its data) has a question. A record may be an image alone."""
    return draft.question.is_asked


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline, and return the outputs: SFT drafts and RL drafts.

    A draft is a question with all results of the stages so far; each returned draft becomes one row of the output set
    ``sft`` or ``rl``. ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the
    images and clips, and the models of this run. ``settings`` is the config.
    """
    models, roots = run.models, run.roots
    ingested = root | "Ingest" >> IngestRecords(
        run.sources, settings.input, roots, run.limit, settings.video, may_lack_question=True
    )
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    unique = cleaned.kept | "Deduplicate" >> RemoveDuplicates(settings.dedup, roots)
    clear = unique.kept | "Decontaminate" >> DecontaminateQuestions(settings.decontaminate, roots)
    drawn = clear.kept | "Draw" >> DrawQuestions(run.draw.below)
    asked = with_questions(drawn.kept, settings, models)
    attempted = asked | "Attempt" >> AttemptQuestions(settings.attempt, models)
    sides = (attempted.kept, clear.kept) | "Split" >> SplitByMediaGroup(settings.split)

    to_sft = replace(settings.difficulty, include_low=True, route=(TOO_EASY,))
    graded = sides.sft | "Easy" >> FilterByDifficulty(to_sft)
    easy = graded.too_easy | "ConfirmEasy" >> ConfirmAnswers()
    direct = easy.kept | "Direct" >> AnswerDirectly()
    coded, to_solve = graded.kept | "InTextFirst" >> _split(partial(is_solved_in_text, settings=settings))
    solvable = to_solve | "ConfirmText" >> ConfirmAnswers()
    solved = solvable.kept | "Reason" >> ReasonInText(settings.reason, models)
    to_rewrite, in_text = solved.kept | "InTextOnly" >> _split(partial(is_in_text, settings=settings))
    rewritten = to_rewrite | "Rewrite" >> RewriteWithCode(settings.rewrite, settings.sandbox, models, roots)
    written = coded | "Trajectory" >> WriteTrajectories(settings.trajectory, settings.sandbox, models, roots)
    verified = (
        (written.kept, rewritten.kept)
        | "WithCode" >> beam.Flatten()
        | "Verify"
        >> VerifyTrajectories(settings.verify_trajectory, settings.trajectory, settings.sandbox, models, roots)
    )
    every = (direct.kept, in_text, verified.kept) | "Every" >> beam.Flatten()
    mixed = every | "Ratio" >> KeepRatio(settings.weights, partial(class_of, weights=settings.weights))

    in_band = sides.rl | "Difficulty" >> FilterByDifficulty(settings.difficulty)
    confirmed = in_band.kept | "Confirm" >> ConfirmAnswers()
    rl = confirmed.kept | "AskForCode" >> beam.Map(partial(replace, form=CODE)).with_output_types(Draft)
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
        "an image) is in both. Where `question_source` is `teacher`, a model wrote question and answer, and boxed the "
        "object; no person has checked them."
    ),
    forms=(CODE,),
    writes_questions=True,
)
