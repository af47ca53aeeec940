"""Samples answers to the questions of an evaluation, with one pass or with two passes (iVGR §3.4).

With one pass, a question has one prompt, or one prompt for each of its streams. A stream is a form of response, such as
reasoning with boxes (``grounded``) or with text only (``textual``). Each prompt is answered ``eval.samples`` times.

With two passes, the model first answers each question once in the grounded stream: it reasons with boxes. In the second
pass, the model answers the prompt of the textual stream ``eval.samples`` times. This prompt shows the question's
images, the crops of the boxes, and the crop around all boxes (:mod:`groundtrace.vision.crops`). For comparison, the
same prompt without crops is also answered ``eval.samples`` times. If the first answer has no usable boxes, or the crops
would make the prompt too long, the second pass has no crops.

The first pass is sampled at ``rollout.temperature`` like all other answers, because the paper does not state its
temperature.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundtrace.grading.question_text import BOXES, user_text
from groundtrace.grading.question_text import TEXTUAL as TEXTUAL_FORM
from groundtrace.grading.responses.traces import read_trace
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.streams import GROUNDED, TEXTUAL
from groundtrace.schemas.crop_text import with_crops
from groundtrace.schemas.records import MediaRef
from groundtrace.trainer.encode import prompt_sample, prompt_samples
from groundtrace.trainer.episodes import opened
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.row_sampler import Drawn, LengthLimit
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.scoring import sample_and_score
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.vision.crops import Crop, crops_of, cut
from groundtrace.vision.decode import decode_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.overlay import encode_png


@dataclass(frozen=True)
class Examiner:
    """Samples the model's answers to prompts, and scores them.

    ``vlm`` is the model. ``sampler`` draws its answers, and ``reward`` scores them. ``settings`` holds the
    number of answers for each prompt, and the settings of the sampling.
    """

    vlm: VisionLanguageModel
    sampler: Sampler
    reward: Reward
    settings: TrainerSettings

    def prompts(self, row: TrainingRow) -> list[Drawn]:
        """Return the tokenised prompts of a row, each paired with a copy of the row that has only this prompt.

        The row has one prompt for each of its streams (forms of response) in ``eval.streams``, or one prompt if it has
        no streams. Raises UnusableRow if the row cannot be used.
        """
        return prompt_samples(self.vlm, opened(row, self.settings.environment), self.settings.eval.streams)

    def answer(self, chunk: Sequence[Drawn], seed: int) -> list[EvaluatedQuestion]:
        """Sample ``eval.samples`` answers to each prompt, and score them.

        ``chunk`` holds pairs of a row and its prompt. ``seed`` is the seed of the sampling. The result holds, for each
        prompt, its row with the answers and their scores. Raises JudgesDown if the model servers that the scoring needs
        do not answer, and SamplerError if answers cannot be sampled.
        """
        return self.answers(chunk, chunk, seed)

    def answers(self, asked: Sequence[Drawn], scored_as: Sequence[Drawn], seed: int) -> list[EvaluatedQuestion]:
        """Sample answers to the prompts in ``asked``, and score them as answers to the rows in ``scored_as``.

        ``asked`` and ``scored_as`` hold pairs of a row and its prompt, for the same questions in the same order. They
        differ if the prompts in ``asked`` show crops (cut-out image regions), which the rows in ``scored_as`` do not
        have. ``seed`` is the seed of the sampling. The result has one entry for each prompt: the row from
        ``scored_as``, the answers and their scores. Raises JudgesDown if the model servers that the scoring needs do
        not answer, and SamplerError if answers cannot be sampled.
        """
        samples = self.settings.eval.samples
        found = sample_and_score(self.vlm, self.sampler, self.reward, self.settings, asked, scored_as, samples, seed)
        return [
            EvaluatedQuestion(row, tuple(rollouts), tuple(scored))
            for (row, _), (rollouts, scored) in zip(scored_as, found, strict=True)
        ]


PASSES = ((GROUNDED, BOXES), (TEXTUAL, TEXTUAL_FORM))
"""For each of the two passes: the name of its stream, and the name of the response form that its prompt requests."""


def in_both_streams(row: TrainingRow) -> TrainingRow:
    """Return a copy of the row with two prompts: one for reasoning with boxes, and one for reasoning with text only.

    These are the prompts of the first and the second pass of an evaluation with crops (iVGR §3.4). If the row lacks one
    of them, it is made from the question, in the wording that pipelines use. Raises UnusableRow if the row has a video
    clip, which cannot be cropped.
    """
    if row.frames:
        raise UnusableRow(
            f"{row.id}: the row has a video clip, but eval.crops can crop only still images: remove the row, or set "
            "eval.crops = false"
        )
    media = tuple(MediaRef(name, "image", "", "", "", 0, 0, 1, len(data)) for data, name in row.images)
    question = replace(row.question, media=media)
    own = dict(row.streams)
    return replace(row, streams=tuple((name, own.get(name) or user_text(question, form)) for name, form in PASSES))


class ExaminerWithCrops(Examiner):
    """Samples answers in two passes, and scores those of the second pass.

    In the first pass, the model draws boxes in its reasoning. The prompts of the second pass show crops (cut-out image
    regions) of these boxes. For comparison, the same prompts without crops are answered, too.
    """

    def prompts(self, row: TrainingRow) -> list[Drawn]:
        """Return two prompts of a row: the first requests reasoning with boxes, the second requests text only.

        Each prompt is tokenised, and paired with a copy of the row that has only this prompt. Raises UnusableRow if the
        row cannot be used.
        """
        return prompt_samples(self.vlm, in_both_streams(row))

    def answer(self, chunk: Sequence[Drawn], seed: int) -> list[EvaluatedQuestion]:
        """Return two entries for each question: its scored answers without crops, then its scored answers with crops.

        ``chunk`` holds two prompts for each question, as :meth:`prompts` returns them. A crop is a cut-out image
        region. ``seed`` is the seed of the sampling. Raises JudgesDown if the model servers that the scoring needs do
        not answer, and SamplerError if answers cannot be sampled.
        """
        grounded, textual = chunk[::2], chunk[1::2]
        passes = self.sampler.sample([prompt for _, prompt in grounded], 1, seed)
        cropped = [
            self.with_crops(row, own, self.vlm.text_of(rollout.ids))
            for (row, own), [rollout] in zip(textual, passes, strict=True)
        ]
        plain = self.answers(textual, textual, seed)
        answered = self.answers([drawn for drawn, _ in cropped], textual, seed)
        return [
            each
            for alone, beside, (_, count) in zip(plain, answered, cropped, strict=True)
            for each in (alone, replace(beside, crops=count))
        ]

    def with_crops(self, row: TrainingRow, own: Sample, grounded: str) -> tuple[Drawn, int]:
        """Return a question's prompt with crops, in a pair with a new row for this prompt, and the number of crops.

        A crop is an image region that is cut out at a box. In the first pass, the model answered with boxes; in the
        second pass, it answers the prompt that this method returns. ``row`` is the row of the question, and ``own`` is
        its prompt without crops. ``grounded`` is the text of the first answer, with the boxes. The new row is a copy of
        ``row`` with the crops appended to its images. If there are no usable boxes, or if the prompt with crops would
        be too long, the result is ``row`` in a pair with ``own``, and 0.
        """
        sizes = [(image.width, image.height) for image in own.images]
        media = tuple(MediaRef("", "image", "", "", "", width, height, 1, 0) for width, height in sizes)
        in_pixels = self.vlm.speech.to_pixels(grounded, sizes) if sizes else grounded
        crops = crops_of(read_trace(0, in_pixels, media).boxes, sizes, self.settings.eval.crop)
        if not crops:
            return (row, own), 0
        shown = cropped_row(row, crops)
        prompt = replace(prompt_sample(self.vlm, shown), stream=own.stream)
        room = LengthLimit(self.settings.batch.max_tokens, self.settings.rollout.max_new_tokens)
        return ((row, own), 0) if room.refusal(prompt) else ((shown, prompt), len(crops))


def cropped_row(row: TrainingRow, crops: Sequence[Crop]) -> TrainingRow:
    """Return a copy of the row (a question with its images) with crops (cut-out image regions) appended to its images.

    ``crops`` are the regions to cut out of the row's images. The user turn is changed so that it mentions the crops.
    """
    pixels = [decode_image(data).pixels for data, _ in row.images]
    drawn = [encode_png(cut(pixels[crop.media_index], crop)) for crop in crops]
    text = with_crops(row.messages[0]["content"], len(row.images), len(crops))
    images = (*row.images, *((data, f"{sha256_bytes(data)}.png") for data in drawn))
    return replace(row, images=images, messages=({"role": "user", "content": text},))
