"""Implements the embedded engine (OpenCV, no model) for images that have no question yet.

The engine judges an image, writes a question about the image, writes boxes around the question's objects, and judges
the pair of question and answer. It reads only the pixels. A question asks for the number of shapes of one class ("blue
circle"), or whether a statement about this number is true. The engine finds the answer in the image. As the judge, the
engine calls a pair GOOD only if its own answer is the same. An image that the engine cannot read is judged unfit for
questions.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.sight.answer import answer
from groundtrace.embedded.sight.labels import singular
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.names import read_name
from groundtrace.embedded.sight.shapes import FoundShape
from groundtrace.inference.errors import CallError, Failure
from groundtrace.prompts.loader import RenderedPrompt

_ALIKE = 3
"""The maximum number of objects of one class ("red circle") in an image, for condition B of :func:`judge_image`.

If the image has more objects of a class, each of them is one of many that look the same, and does not meet condition B.
"""
_SMALL_SHARE = 0.02
"""An object whose box covers less than this share of the image becomes clearer if it is enlarged.

Such an object meets condition C of :func:`judge_image`. A coarse view of the image (scaled down and blurred) does not
show such objects.
"""
_STATEMENT = 'Is the following statement about the image true? "{statement}" Answer yes or no.'


def judge_image(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge four conditions on an image. Return JSON with a reason and true or false for each of A, B, C and D.

    - A: the image has at least ``min_objects`` shapes, or at least ``min_kinds`` classes of shapes ("red circle").
    - B: the image has a shape whose box covers less than ``max_percent`` % of the image, and whose class has at most
      three shapes in the image.
    - C: the image has a shape whose box covers less than 2 % of the image. Such a shape becomes clearer if it is
      enlarged.
    - D: the image has a class of shapes that a question can count.

    All are false if the embedded engine (OpenCV, no model) cannot read the image. The three limits are variables of
    ``prompt``, and ``scene`` holds the image. The other arguments are not used.
    """
    shapes, (width, height) = scene.shapes, scene.size
    if shapes is None:
        return json.dumps({"reason": "this picture cannot be read", **dict.fromkeys("ABCD", False)})
    labels = Counter(shape.label for shape in shapes)
    shares = [(shape.label, shape.width_px * shape.height_px / (width * height)) for shape in shapes]
    most = float(prompt.variable("max_percent")) / 100
    found = {
        "A": len(labels) >= int(prompt.variable("min_kinds")) or len(shapes) >= int(prompt.variable("min_objects")),
        "B": any(share < most and labels[label] <= _ALIKE for label, share in shares),
        "C": any(share < _SMALL_SHARE for _, share in shares),
        "D": bool(_nouns(shapes)),
    }
    return json.dumps({"reason": f"{len(shapes)} shapes of {len(labels)} classes are seen", **found})


def write_question(_prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, _strength: float) -> str:
    """Write a question about the number of shapes of one class, and return it with its answer as JSON.

    The JSON has the keys ``question``, ``answer`` and ``object`` (the class, such as "blue circle"). All three values
    are null if the image shows no shape that a question can count. ``scene`` holds the image, and ``rng`` chooses the
    class and the form of the question at random. The other arguments are not used.
    """
    nouns = _nouns(scene.shapes or ())
    for index in rng.permutation(len(nouns)):
        noun = nouns[index]
        asked = next(_questions(noun, scene, rng))
        own = _answer(asked, scene)
        if own is not None:
            return json.dumps({"question": asked, "answer": own, "object": noun})
    return json.dumps({"question": None, "answer": None, "object": None})


def ground_object(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the boxes of all shapes that the prompt's variable ``label`` names ("blue circle"), as JSON.

    The result is ``{"boxes": [[x1, y1, x2, y2], …]}``, in pixels. ``prompt`` is the prompt with its variables, and
    ``scene`` holds the image; the last two arguments are not used. Raises CallError for a label that the embedded
    engine (OpenCV, no model) does not know.
    """
    name, shapes = read_name(prompt.variable("label")), scene.shapes or []
    if name is None:
        raise CallError(
            Failure.UNKNOWN_LABEL,
            f"the embedded engine does not know the label {prompt.variable('label')!r}: name a model for its role in "
            "[roles]",
        )
    named = name.among([shape.label for shape in shapes], [shape.box_px for shape in shapes], scene.panels)
    return json.dumps({"boxes": [[round(side, 2) for side in shapes[index].box_px] for index in named]})


def judge_pair(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge a question and its answer: "GOOD" if the embedded engine (OpenCV, no model) finds the same answer, else
    "BAD".

    The prompt holds the question and the answer, and ``scene`` holds the image. The result is also "BAD" if the image
    has no shapes, or if the engine cannot read the image or the question. The last two arguments are not used.
    """
    own = _answer(prompt.variable("question"), scene)
    return "GOOD" if own is not None and scene.shapes and own == prompt.variable("answer") else "BAD"


def _nouns(shapes: Sequence[FoundShape]) -> list[str]:
    """Return the classes in the image that a question can count, such as "blue circle", "circle" and "blue object"."""
    found = [name for shape in shapes for name in (shape.label, shape.kind, f"{shape.colour} object")]
    return sorted({name for name in found if singular(name.split()[-1]) == name.split()[-1]})


def _questions(noun: str, scene: Scene, rng: np.random.Generator) -> Iterator[str]:
    """Yield one or two questions about a class of shapes.

    The first, which may be left out at random, asks for the number of these shapes. The second asks whether a statement
    about this number is true; the stated number may differ by one from the right number.
    """
    name, shapes = read_name(noun), scene.shapes or []
    count = 0 if name is None else sum(name.noun.matches(shape) for shape in shapes)
    if rng.random() < 0.6:
        yield f"How many {noun}s are there in the image?"
    stated = max(1, count + int(rng.integers(-1, 2)))
    amount = ("exactly", "at least")[int(rng.integers(2))]
    verb, ending = ("is", "") if stated == 1 else ("are", "s")
    yield _STATEMENT.format(statement=f"There {verb} {amount} {stated} {noun}{ending}.")


def _answer(question: str, scene: Scene) -> str | None:
    """Answer a question about an image with the embedded engine (OpenCV, no model).

    ``scene`` holds the image. The result is None if the engine cannot read the question or the image.
    """
    query, shapes = read_question(question, None), scene.shapes
    reading = None if query is None or shapes is None else answer(query, shapes, scene.size, scene.panels)
    return None if reading is None else reading.answer


HANDLERS = {
    "judge_image": judge_image,
    "write_question": write_question,
    "ground_object": ground_object,
    "judge_pair": judge_pair,
}
"""The function that answers each prompt, by the prompt's id."""
