"""Measures whether crops help a model to answer questions (iVGR §3.4): grades its answers without and with crops.

The model is called the policy. A crop is a part of an image, cut out around a box that the policy named. The stages
(steps) of this pipeline are:

ingest → clean → attempt in words alone → grounded pass → crops of its boxes → answer in words with crops → rl shards

RL shards are files with one row for each question. The policy first answers each question in words, without crops. In
the grounded pass, it reasons with boxes around the things that it looks at. Then it answers again in words, with the
crops of these boxes. The paper uses crops in this way at test time. So each row holds the pass rates without and with
crops, and ``crops.json`` holds the accuracies without and with crops. This recipe makes no data for training the
policy: it does not filter questions by difficulty, and it writes no SFT rows. ``trainer eval --crops`` makes the same
measurement, but loads the model itself instead of sending requests to an endpoint (a model server).

The paper does not state the following defaults (the last three are from :mod:`groundtrace.vision.crops`):

- The policy gives four answers without crops, and four answers with crops, at temperature 1.
- A margin is added to each side of a box: a tenth of its width or height.
- The sides of a crop have at least 56 px, if the image is large enough.
- At most 8 boxes of an image are cropped one by one. There is one more crop around all boxes of the image.
"""

from dataclasses import field

import apache_beam as beam

from groundtrace.config.settings import settings
from groundtrace.grading.question_text import TEXTUAL
from groundtrace.inference.endpoint import check_coordinates
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.stages.answer_with_crops import AnswerWithCrops, compared, crops_json, summed
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.cut_crops import CutCrops
from groundtrace.stages.ground_questions import GroundQuestions, GroundSettings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.crops import CropSettings


@settings
class Settings(RunSettings):
    """Holds the config of this pipeline: a section for each stage (step) that has settings, and one for the frames of
    clips.

    The policy is the model whose answers are measured. The settings of its endpoint (model server) must name its model
    family (models that write coordinates in the same way) or its coordinate frame (the range of the coordinates, such
    as pixels or 0–1000).
    """

    video: VideoSettings = field(default_factory=VideoSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    attempt: AttemptSettings = field(default_factory=lambda: AttemptSettings(as_trained=True))
    ground: GroundSettings = field(default_factory=GroundSettings)
    crop: CropSettings = field(default_factory=CropSettings)

    def __post_init__(self) -> None:
        RunSettings.__post_init__(self)
        if policy := self.roles.get("policy"):
            check_coordinates("policy", policy, self.endpoints[policy])


def build(root: beam.Pipeline, run: RunContext, settings: Settings) -> Ends:
    """Add all stages (steps) of this recipe to a Beam pipeline, and return the outputs: RL drafts and ``crops.json``.

    A draft is a question with all results of the stages so far; each RL draft becomes one row of the output set ``rl``.
    ``root`` is the Beam pipeline, which is still empty. ``run`` holds the input, the folders of the images and clips,
    and the models of this run. ``settings`` is the config. ``crops.json`` holds the accuracies of the policy (the model
    that answers) without and with crops.
    """
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, run.roots, run.limit, settings.video)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(settings.clean)
    attempted = cleaned.kept | "Attempt" >> AttemptQuestions(settings.attempt, run.models, TEXTUAL)
    grounded = attempted.kept | "Ground" >> GroundQuestions(settings.ground, run.models)
    cropped = grounded.kept | "Crop" >> CutCrops(settings.crop, run.roots)
    answered = cropped.kept | "Answer" >> AnswerWithCrops(settings.attempt, run.models)
    found = answered.kept | "Compare" >> beam.Map(compared) | "Sum" >> beam.CombineGlobally(summed)
    return Ends(
        rl=answered.kept,
        artifacts={"crops.json": found | "CropsJson" >> beam.Map(crops_json)},
    )


RECIPE = Recipe(
    name="crop_and_answer",
    settings=Settings,
    build=build,
    makes=(
        "The `rl` set holds every question that a policy was measured on, with its answers in words alone: `attempts` "
        "on the original images, `crop_attempts` with crops of what it boxed beside them (`overlays`). `crops.json` "
        "has the accuracy of both."
    ),
    forms=(TEXTUAL,),
)
