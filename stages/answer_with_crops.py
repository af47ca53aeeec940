"""Lets the policy answer each question again, now with crops of the images (iVGR §3.4, third step).

The prompt asks for an answer without coordinates of boxes.

The policy is the model to be trained. A crop is a part of an image around one or more boxes that the policy predicted.
The new answers show whether crops help the policy.

The inputs are drafts (questions with their data) that have attempts. The attempts are sampled answers for which the
policy saw the images without crops. The outputs are the same drafts, each with ``attempt.k`` new answers, which are
graded. For the new answers, the policy saw the images and their crops. There is one exception: for a draft without
crops, no call is made, and its attempts are stored as the new answers, too. A draft is rejected if a call failed or too
few answers could be graded.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import pyarrow as pa

from groundtrace.grading.messages import media_part, shown
from groundtrace.grading.question_text import TEXTUAL, answer_format, instruction, lettered_choices
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.rewards.scorers import outcome
from groundtrace.schemas.arrow import ATTEMPT
from groundtrace.schemas.columns import Column
from groundtrace.schemas.crop_text import crop_hint
from groundtrace.schemas.records import Attempt, Draft, rate_of
from groundtrace.stages.attempt_questions import UNGRADABLE, AttemptSettings, graded, require_graded
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.rows import attempt_rows
from groundtrace.stages.plumbing.stage import Stage

PROMPT = "answer_with_crops.v1"
CROP_ATTEMPTS = Column[list[dict[str, Any]]](
    "crop_attempts",
    pa.list_(ATTEMPT),
    "the policy's answers as in attempts, with crops of what it boxed beside the images",
    for_training=False,
)
CROP_PASS_RATE = Column[float]("crop_pass_rate", pa.float64(), "share of the scored ones among these that are right")


def crops_prompt(draft: Draft) -> RenderedPrompt:
    """Return the prompt that shows the policy model the images of a question and their crops (parts cut out around
    boxes). ``draft`` holds the question and the crops.
    """
    question = draft.question
    return load_prompt(PROMPT).render(
        {"original": shown(question.media), "crops": [media_part(crop) for crop in draft.overlays]},
        hint=crop_hint(len(question.media), len(draft.overlays)),
        question=question.question,
        choices=lettered_choices(question),
        instruction=instruction(question, TEXTUAL),
        answer_format=answer_format(question),
    )


async def answer(draft: Draft, session: Session, settings: AttemptSettings, judged: bool) -> Draft:
    """Let the policy model answer a question with its images and their crops (parts cut out around boxes), and return
    the draft (a question with its data) with the graded answers.

    ``session`` makes the calls. ``settings`` holds the number of answers and their sampling. ``judged`` is True if a
    judge model grades answers in free text. Raises :class:`groundtrace.stages.plumbing.stage.Reject` if fewer than
    ``settings.k_min`` answers could be graded.
    """
    if not draft.overlays:
        return with_answers(draft, draft.attempts)
    answered = await session.generate("policy", crops_prompt(draft), settings.sampling)
    attempts = await graded(draft.question, answered.completions, session if judged else None)
    require_graded(attempts, settings, answered.call.keys[0])
    return with_answers(draft, attempts)


def with_answers(draft: Draft, attempts: tuple[Attempt, ...]) -> Draft:
    """Return the draft (a question with its data) with ``attempts`` and their pass rate in the columns for answers
    with crops.

    ``attempts`` are sampled answers for which the policy model saw crops (parts of the images around boxes). If the
    question has no crops, ``attempts`` are the answers for which the policy saw the images alone.
    """
    answered = draft.with_added(CROP_ATTEMPTS, attempt_rows(attempts) or None)
    return answered.with_added(CROP_PASS_RATE, rate_of(attempts))


STAGE = Stage(
    "answer_with_crops",
    "the policy answers again in words alone, with the crops beside the images, and the answers are graded",
    reasons={UNGRADABLE: "fewer answers with crops could be graded than attempt.k_min"},
    asks=(Asks("policy", (PROMPT,)), *outcome.ASKS),
    settings=AttemptSettings,
    adds=(CROP_ATTEMPTS, CROP_PASS_RATE),
)


@dataclass
class AnswerWithCrops(CallingStage):
    """Stage (pipeline step) that lets the policy model answer every question again. The prompt shows the images and
    then their crops (parts cut out around boxes).

    ``models`` holds the settings of the run's models. The new answers are graded. They are stored in columns of their
    own, so that the answers for which the policy saw no crops stay unchanged.
    """

    settings: AttemptSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the policy model
        answer with the images and their crops, i.e. parts cut out around boxes (:func:`answer`).
        """
        return partial(answer, settings=self.settings, judged=self.models.judges_text)


@dataclass(frozen=True)
class CropComparison:
    """Compares the policy model's answers without and with crops (parts of the images around boxes), as counts that can
    be summed over questions.

    Attributes:
        questions: the number of questions.
        cropped: the number of questions that have crops.
        crops: the number of crops of all questions.
        right_without: the number of right answers without crops.
        graded_without: the number of graded answers without crops.
        right_with: the number of right answers with crops.
        graded_with: the number of graded answers with crops.
        better: the number of questions whose share of right answers rose with crops.
        worse: the number of questions whose share of right answers fell with crops.
    """

    questions: int = 0
    cropped: int = 0
    crops: int = 0
    right_without: int = 0
    graded_without: int = 0
    right_with: int = 0
    graded_with: int = 0
    better: int = 0
    worse: int = 0


def compared(draft: Draft) -> CropComparison:
    """Return the counts of right answers without and with crops (parts of the images around boxes) for the one question
    of a draft (a question with its data).
    """
    with_crops = [each["correct"] for each in draft.added(CROP_ATTEMPTS) or ()]
    (right, of), (right_with, of_with) = _counts([each.correct for each in draft.attempts]), _counts(with_crops)
    without, beside = right * of_with, right_with * of
    count = len(draft.overlays)
    return CropComparison(
        1, int(count > 0), count, right, of, right_with, of_with, int(beside > without), int(beside < without)
    )


def _counts(correct: Sequence[bool | None]) -> tuple[int, int]:
    return sum(each is True for each in correct), sum(each is not None for each in correct)


def summed(comparisons: Iterable[CropComparison]) -> CropComparison:
    """Return the sum of several comparisons, field by field. The order does not matter."""
    found = list(comparisons)
    return CropComparison(*(sum(getattr(each, field.name) for each in found) for field in fields(CropComparison)))


def crops_json(comparison: CropComparison) -> str:
    """Return the content of the run's file ``crops.json``: all counts of ``comparison``, and the policy model's
    accuracies without and with crops (parts of the images around boxes).

    An accuracy is null if no answer was graded.
    """
    c = comparison
    accuracies = {
        "accuracy_without_crops": c.right_without / c.graded_without if c.graded_without else None,
        "accuracy_with_crops": c.right_with / c.graded_with if c.graded_with else None,
    }
    return json.dumps(accuracies | asdict(c), indent=1) + "\n"
