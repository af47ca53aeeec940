"""Writes the replies of the embedded engine (OpenCV, no model): answers, entities, points, traces, boxes and masks.

Each function that answers a prompt takes four arguments: the rendered prompt; the scene (the image and the shapes found
in it); a random generator; and the degree to which the engine's view of the image is coarsened (scaled down and
blurred) at random. It returns the text of the reply. Positions are in pixels of the original image.
"""

import functools
import json
import re
import threading
from collections.abc import Callable

import numpy as np

from groundtrace.embedded.sight.answer import SightAnswer, answer, relevant_labels
from groundtrace.embedded.sight.by_colour import find_shapes
from groundtrace.embedded.sight.by_edges import Detection, detect_all
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.layout import find_panels
from groundtrace.embedded.sight.names import read_name
from groundtrace.embedded.sight.query import Query
from groundtrace.embedded.sight.segment import segment
from groundtrace.embedded.sight.shapes import Box, FoundShape
from groundtrace.embedded.sight.view import coarse_view
from groundtrace.grading.responses.response import format_point
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.grounding import encode_mask
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.geometry import Point

CANNOT_READ = "cannot read"
_LETTER = re.compile(r"^[A-Z]\. ", re.MULTILINE)
_MARK = re.compile(r"^\d+\. (?P<label>.+) \((?P<x>[\d.]+), (?P<y>[\d.]+)\)$")


class Scene:
    """Holds an image, and the shapes that the embedded engine (OpenCV, no model) finds in the image.

    The engine has two algorithms, and runs each of them at most once for a scene. ``load`` is a function that returns
    the pixels; it is None if the request has no image. The function is called each time that pixels are needed, so that
    a cached scene holds only the results and not the pixels.
    """

    def __init__(self, load: Callable[[], np.ndarray] | None) -> None:
        self._load = load
        self._lock = threading.RLock()

    @property
    def pixels(self) -> np.ndarray | None:
        """Return the image as RGB uint8 (H, W, 3); None if the request has no image."""
        return None if self._load is None else self._load()

    @functools.cached_property
    def _shapes(self) -> list[FoundShape] | None:
        pixels = self.pixels
        return None if pixels is None else find_shapes(pixels)

    @functools.cached_property
    def _detections(self) -> list[Detection]:
        pixels = self.pixels
        return [] if pixels is None else detect_all(pixels)

    @functools.cached_property
    def panels(self) -> tuple[Box, ...]:
        """Return the boxes of the image's panels (areas that are separated by bars); empty if it has no panels."""
        pixels = self.pixels
        return () if pixels is None else find_panels(pixels)

    @functools.cached_property
    def size(self) -> tuple[int, int]:
        """Return the (width, height) of the image in pixels; (0, 0) if the request has no image."""
        pixels = self.pixels
        return (0, 0) if pixels is None else (pixels.shape[1], pixels.shape[0])

    @property
    def shapes(self) -> list[FoundShape] | None:
        """Return the shapes that colour clustering finds in the image.

        The result is None if the request has no image, or if the image does not consist of flat shapes (a photograph,
        for example). It is empty if a readable image has no shapes.
        """
        with self._lock:
            return self._shapes

    @property
    def detections(self) -> list[Detection]:
        """Return the objects that the embedded engine (OpenCV, no model) finds by fitting outlines to edges in the
        image.

        The result is empty if the request has no image.
        """
        with self._lock:
            return self._detections

    def seen_as(self, rng: np.random.Generator, strength: float) -> list[FoundShape] | None:
        """Return the shapes that colour clustering finds in a randomly coarsened view of the image.

        ``rng`` is the random generator. ``strength`` is the degree of coarsening; at 0, the image itself is the view.
        Positions are in pixels of the original image. The result is None without an image, or if the view does not
        consist of flat shapes.
        """
        pixels = self.pixels if strength else None
        if pixels is None:
            return self.shapes
        view, scale = coarse_view(pixels, rng, strength)
        shapes = find_shapes(view)
        return None if shapes is None else [shape.scaled(1 / scale) for shape in shapes]


def read_scene(prompt: RenderedPrompt, scene: Scene, shapes: list[FoundShape] | None) -> SightAnswer | None:
    """Return the embedded engine's answer to the prompt's question, with the supporting shapes and a reason.

    ``prompt`` holds the question, and ``scene`` the image. ``shapes`` are the shapes in the image, or in a coarsened
    view of it; None if the image cannot be read. Returns None if the engine cannot read the question or the image, or
    if the shapes do not determine the answer.
    """
    query = question_of(prompt)
    if query is None or shapes is None:
        return None
    return answer(query, shapes, scene.size, scene.panels)


def question_of(prompt: RenderedPrompt) -> Query | None:
    """Return the parsed question of a prompt, with its choices; None if the embedded engine (OpenCV, no model) cannot
    read the question.
    """
    variables = dict(prompt.variables)
    choices = _LETTER.sub("", variables.get("choices", "")).split("\n")
    return read_question(variables["question"], [choice for choice in choices if choice] or None)


def attempt(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a response to a question, with a point on each object that the answer is based on.

    ``prompt`` holds the question, and ``scene`` holds the image. The embedded engine (OpenCV, no model) sees the image
    coarsened (scaled down and blurred) at random: ``rng`` is the random generator, and ``strength`` is the degree (0:
    not coarsened). The answer is "cannot read" if the engine cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    return _response(reading, [] if reading is None else [(shape.label, shape.point_px) for shape in reading.evidence])


def propose(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the classes of objects that the question is about, as JSON: ``{"entities": ["blue circle", …]}``.

    ``prompt`` holds the question, and ``scene`` holds the image; the other arguments are not used. The list is empty if
    the embedded engine (OpenCV, no model) cannot read the question or the image.
    """
    query = question_of(prompt)
    labels = () if query is None or scene.shapes is None else relevant_labels(query, scene.shapes)
    return json.dumps({"entities": list(labels)})


def point_at(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a point on every object that the prompt's variable ``entity`` names, such as "blue circle".

    Each point is a tag on its own line. The result is "There are none." if no object is found. ``scene`` holds the
    image. The image can be coarsened (scaled down and blurred) at random: ``rng`` is the random generator, and
    ``strength`` is the degree (0: not coarsened).
    """
    name, shapes = read_name(prompt.variable("entity")), scene.seen_as(rng, strength)
    if name is None or shapes is None:
        return "There are none."
    named = name.among([shape.label for shape in shapes], [shape.box_px for shape in shapes], scene.panels)
    found = [shapes[index] for index in named]
    points = (format_point(Point(prompt.variable("entity"), *shape.point_px)) for shape in found)
    return "\n".join(points) or "There are none."


def trace(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return reasoning and an answer, with a point on each object that the answer is based on.

    The prompt can list numbered points on objects. If an object has a listed point, the reasoning uses the position of
    this point. Some answers are based on no object, such as "no, there is no red circle". Then the reasoning has all
    listed points, since the embedded engine (OpenCV, no model) has checked all objects.

    ``prompt`` holds the question, and ``scene`` holds the image. The image can be coarsened (scaled down and blurred)
    at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not coarsened). The answer is
    "cannot read" if the engine cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    marks = [match for line in prompt.variable("points").split("\n") if (match := _MARK.match(line))]
    if reading is not None and not reading.evidence:
        looked_at = [(mark["label"], (float(mark["x"]), float(mark["y"]))) for mark in marks]
        return _response(reading, looked_at, "I look at")
    places = []
    for shape in () if reading is None else reading.evidence:
        x1, y1, x2, y2 = shape.box_px
        on_it = [
            (float(mark["x"]), float(mark["y"]))
            for mark in marks
            if x1 <= float(mark["x"]) < x2 and y1 <= float(mark["y"]) < y2 and mark["label"] == shape.label
        ]
        places.append((shape.label, on_it[0] if on_it else shape.point_px))
    return _response(reading, places)


def detect_boxes(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the boxes of all objects that the prompt's variable ``label`` names ("leftmost circle"), as JSON.

    The result is ``{"boxes": [[x1, y1, x2, y2], …]}``, in pixels. The objects are found by fitting outlines to edges in
    the image. ``scene`` holds the image; the other arguments are not used. Raises CallError for a label that the
    embedded engine (OpenCV, no model) does not know.
    """
    name = read_name(prompt.variable("label"))
    if name is None:
        message = f"the embedded detector does not know the label {prompt.variable('label')!r}"
        raise CallError(Failure.UNKNOWN_LABEL, message)
    boxes_px = [found.box_px for found in scene.detections]
    named = name.among([found.label for found in scene.detections], boxes_px, scene.panels)
    boxes = [boxes_px[index] for index in named]
    return json.dumps({"boxes": [[round(value, 2) for value in box] for box in boxes]})


def segment_boxes(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the mask (the pixels) of the object in each box, as JSON. Each mask is cropped to its box.

    The boxes are the prompt's variable ``boxes``, in pixels. ``scene`` holds the image; the other arguments are not
    used. Raises CallError without an image.
    """
    pixels = _one_image(scene)
    return json.dumps({"masks": [_cropped_mask(pixels, box) for box in json.loads(prompt.variable("boxes"))]})


def segment_points(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return, for each point, the mask (the pixels) of the object at this point, as JSON.

    The points are the prompt's variable ``points``, in pixels. The object is the one in the smallest detected box that
    contains the point. The mask is empty if no detected box contains the point. ``scene`` holds the image; the other
    arguments are not used. Raises CallError without an image.
    """
    pixels = _one_image(scene)
    masks = []
    for x, y in json.loads(prompt.variable("points")):
        around = [b for b in (found.box_px for found in scene.detections) if b[0] <= x < b[2] and b[1] <= y < b[3]]
        box = min(around, key=lambda b: (b[2] - b[0]) * (b[3] - b[1]), default=None)
        masks.append(encode_mask(0, 0, np.zeros((1, 1), bool)) if box is None else _cropped_mask(pixels, box))
    return json.dumps({"masks": masks})


def _one_image(scene: Scene) -> np.ndarray:
    pixels = scene.pixels
    if pixels is None:
        raise CallError(
            Failure.UNSUPPORTED,
            "the embedded segmenter needs exactly one image, but the request has none or several: name another "
            "endpoint for the role segmenter in [roles]",
        )
    return pixels


def _cropped_mask(pixels: np.ndarray, box: Box) -> dict[str, object]:
    """Return the mask of the object in a box as JSON fields: position, size and run-length coded pixels."""
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = box
    left, top = max(0, int(x1)), max(0, int(y1))
    right, bottom = min(width, int(np.ceil(x2))), min(height, int(np.ceil(y2)))
    return encode_mask(left, top, segment(pixels, (x1, y1, x2, y2))[top:bottom, left:right])


def _response(
    reading: SightAnswer | None, places: list[tuple[str, tuple[float, float]]], opening: str = "I find"
) -> str:
    if reading is None:
        return f"<think>I cannot read this question or this picture.</think>\n<answer>{CANNOT_READ}</answer>"
    pointed = ", ".join(format_point(Point(label, x, y)) for label, (x, y) in places)
    found = f"{opening} {pointed}. " if pointed else ""
    return f"<think>{found}{reading.reason}</think>\n<answer>{reading.answer}</answer>"
