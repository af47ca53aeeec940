"""Implements the embedded engine (OpenCV, no model) as the policy of :mod:`groundtrace.pipelines.crop_and_answer`.

The engine gets a question in two prompts. Its reply to the first prompt has boxes, in pixels, around the objects that
its answer is based on. The second prompt also contains crops of these boxes. The engine ignores the crops and reads the
whole image again, since it cannot find more objects in a crop.
"""

import numpy as np

from groundtrace.embedded.scenes import CANNOT_READ, Scene, read_scene
from groundtrace.grading.responses.response import format_box
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.geometry import Box

CROPS_PROMPT = "answer_with_crops"
ONE_IMAGE = "The first image is"
"""The beginning of the hint in a prompt that shows one image and crops (cut-out parts) of this image.

The hint is the sentence that explains the crops to the model (:func:`groundtrace.schemas.crop_text.crop_hint`). For
several images, it begins in another way.
"""


def attempt_with_boxes(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a response to a question, with a box around each object that the answer is based on.

    ``prompt`` holds the question, and ``scene`` holds the image. The embedded engine (OpenCV, no model) sees the image
    coarsened (scaled down and blurred) at random: ``rng`` is the random generator, and ``strength`` is the degree (0:
    not coarsened). The answer is "cannot read" if the engine cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    if reading is None:
        return _response("I cannot read this question or this picture.", CANNOT_READ)
    boxes = ", ".join(format_box(Box(shape.label, *shape.box_px)) for shape in reading.evidence)
    return _response(f"{f'I find {boxes}. ' if boxes else ''}{reading.reason}", reading.answer)


def answer_with_crops(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a response to a question, without boxes. The crops in the prompt are ignored.

    ``prompt`` holds the question, and ``scene`` holds the whole image. The embedded engine (OpenCV, no model) sees the
    image coarsened (scaled down and blurred) at random: ``rng`` is the random generator, and ``strength`` is the degree
    (0: not coarsened). The answer is "cannot read" if the engine cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    if reading is None:
        return _response("I cannot read this question or this picture.", CANNOT_READ)
    return _response(reading.reason, reading.answer)


def is_one_image(prompt: RenderedPrompt) -> bool:
    """Return whether a prompt is the second of two turns, and shows exactly one image with crops of it.

    In the first turn, a model writes boxes around objects. The prompt of the second turn shows crops of these boxes,
    and requests the answer. The embedded engine (OpenCV, no model) can answer such a prompt. The result is False for
    any other prompt, and for a second turn about several images.
    """
    return prompt.name.startswith(f"{CROPS_PROMPT}.") and prompt.variable("hint").startswith(ONE_IMAGE)


def _response(reasoning: str, answer: str) -> str:
    return f"<think>{reasoning}</think>\n<answer>{answer}</answer>"
