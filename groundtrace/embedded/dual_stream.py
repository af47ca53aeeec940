"""Implements the embedded engine (OpenCV, no model) as the teacher of :mod:`groundtrace.pipelines.dual_stream`.

The engine finds boxes by colour clustering, in pixels of the original image. The detector that checks these boxes uses
another method: it fits outlines to gradients. If the engine cannot read the question or the image, its answer is
"cannot read", without boxes.
"""

import json

import numpy as np

from groundtrace.embedded.scenes import CANNOT_READ, Scene, question_of, read_scene
from groundtrace.embedded.sight.answer import MAX_LABELS, relevant_labels
from groundtrace.embedded.sight.query import nouns_of
from groundtrace.embedded.sight.shapes import FoundShape
from groundtrace.grading.responses.response import format_box
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.geometry import Box


def name_targets(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the classes of objects that the question is about, as JSON: ``{"targets": ["blue circle", …]}``.

    ``prompt`` holds the question, and ``scene`` holds the image; the other arguments are not used. The list is empty if
    the embedded engine (OpenCV, no model) cannot read the question or the image. It is also empty if the engine finds
    more classes than ``max_targets`` (a variable of the prompt), or more than 9.
    """
    query = question_of(prompt)
    labels = () if query is None or scene.shapes is None else relevant_labels(query, scene.shapes)
    most = min(int(prompt.variable("max_targets")), MAX_LABELS - 1)  # a list of MAX_LABELS may be cut
    return json.dumps({"targets": list(labels) if len(labels) <= most else []})


def trace_boxes(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return reasoning and an answer, with boxes around the objects that the answer is based on.

    Some answers are based on no object, such as the answer "0" to "how many circles touch an edge?". Then each object
    that a noun of the question describes gets a box: in this example, each circle.

    ``prompt`` holds the question, and ``scene`` holds the image. The image can be coarsened (scaled down and blurred)
    at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not coarsened). The answer is
    "cannot read" if the embedded engine (OpenCV, no model) cannot read the question or the image.
    """
    shapes = scene.seen_as(rng, strength)
    reading, query = read_scene(prompt, scene, shapes), question_of(prompt)
    if reading is None or query is None:
        return _cannot_read()
    looked_at = [shape for shape in shapes or () if any(noun.matches(shape) for noun in nouns_of(query))]
    boxed = ", ".join(map(_named_box, reading.evidence or looked_at))
    opening = "I find" if reading.evidence else "I look at"
    found = f"{opening} {boxed}. " if boxed else ""
    return f"<think>{found}{reading.reason}</think>\n<answer>{reading.answer}</answer>"


def trace_textual(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return reasoning in words alone, without boxes, and an answer.

    ``prompt`` holds the question, and ``scene`` holds the image. The image can be coarsened (scaled down and blurred)
    at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not coarsened). The answer is
    "cannot read" if the embedded engine (OpenCV, no model) cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    if reading is None:
        return _cannot_read()
    return f"<think>{reading.reason}</think>\n<answer>{reading.answer}</answer>"


def _cannot_read() -> str:
    return f"<think>I cannot read this question or this picture.</think>\n<answer>{CANNOT_READ}</answer>"


def _named_box(shape: FoundShape) -> str:
    return f"the {shape.label} {format_box(Box(shape.label, *shape.box_px))}"


HANDLERS = {"name_targets": name_targets, "trace_boxes": trace_boxes, "trace_textual": trace_textual}
"""The function that answers each prompt, by the prompt's id."""
