"""Renders scenes with questions as an input folder of the pipelines: flat coloured shapes on a grid of 4x4 cells.

    python benchmarks/learning/scenes.py OUT --scenes N --seed S [--prefix train] [--questions 3]

OUT gets ``records.jsonl`` and ``images/``. The same arguments give the same files, and another seed other scenes. A
shape is within one cell of 64 px, which is one merged vision token of the tiny model once the image is shrunk to
64x64 px. The gold boxes are exact: the outermost pixels of each shape that the question is about, and
null if the image lacks such a shape.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from groundtrace.grading.question_text import TRACE_INSTRUCTION

IMAGE_PX = 256
CELLS = 4
CELL_PX = IMAGE_PX // CELLS
MARGIN_PX = 6
SIDES_PX = (38, 46)
OBJECTS = (2, 6)
QUESTIONS_PER_SCENE = 3

GROUND = (211, 211, 211)
COLOURS = {"black": (0, 0, 0), "blue": (0, 153, 255), "yellow": (255, 255, 0), "red": (220, 30, 30)}
SHAPES = ("square", "circle", "triangle")

# Shapes alike are commoner than by chance, so that counts above 2 can be asked of colour and shape together.
REPEATED_SHARE = 0.5
# More than this many objects of the noun asked about would make traces that are mostly points.
MAX_COUNT = 5
COUNT_SHARE = 0.6
# How often each count from 0 on is looked for first: the higher, the fewer scenes have it.
COUNT_WEIGHTS = (0.06, 0.10, 0.16, 0.20, 0.24, 0.24)
# The words that all questions of the scenes and all traces of the embedded teacher share: tokens of the tiny model.
PHRASES = (
    TRACE_INSTRUCTION,
    "How many",
    " are there in the image?",
    "Is the following statement about the image true?",
    " Answer with a number alone.",
    " Answer yes or no.",
    "Looking over the whole picture, there",
    "The picture shows",
    "That agrees with",
    "That does not agree with",
)
STATEMENT = 'Is the following statement about the image true? "{}" Answer yes or no.'


@dataclass(frozen=True)
class Placed:
    """A shape of a scene: its colour, its kind and its box ``x1, y1, x2, y2`` in pixels, right and bottom exclusive."""

    colour: str
    shape: str
    box_px: tuple[int, int, int, int]

    @property
    def label(self) -> str:
        """The colour and the kind, in the form in which points and boxes name the shape."""
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True)
class ObjectClass:
    """The objects that a question is about: those of a colour, of a shape, or of both ("" allows all)."""

    colour: str
    shape: str

    def among(self, objects: list[Placed]) -> list[Placed]:
        """Return the objects that belong to the class."""
        return [o for o in objects if self.colour in ("", o.colour) and self.shape in ("", o.shape)]

    def phrase(self, count: int) -> str:
        """Return the noun phrase in the form that follows ``count``: "blue objects", "circle"."""
        return f"{self.colour} {self.shape or 'object'}".strip() + ("" if count == 1 else "s")


OF_ALL = [ObjectClass("", "")]
BY_COLOUR = [ObjectClass(colour, "") for colour in COLOURS]
BY_SHAPE = [ObjectClass("", shape) for shape in SHAPES]
BY_BOTH = [ObjectClass(colour, shape) for colour in COLOURS for shape in SHAPES]


@dataclass(frozen=True)
class SceneQuestion:
    """A question, its gold answer, the type of this answer, and the objects that the question is about."""

    question: str
    answer: str
    answer_type: str
    objects: list[Placed]


def render_scene(rng: np.random.Generator) -> tuple[np.ndarray, list[Placed]]:
    """Return an image, RGB uint8 (256, 256, 3), and its objects from left to right and top to bottom."""
    pixels = np.full((IMAGE_PX, IMAGE_PX, 3), GROUND, np.uint8)
    count = int(rng.integers(OBJECTS[0], OBJECTS[1] + 1))
    objects: list[Placed] = []
    for place in sorted(int(cell) for cell in rng.permutation(CELLS * CELLS)[:count]):
        colour, shape = _looks(objects, rng)
        side = int(rng.integers(SIDES_PX[0], SIDES_PX[1] + 1))
        row, column = divmod(place, CELLS)
        free = CELL_PX - side - MARGIN_PX
        left = column * CELL_PX + int(rng.integers(MARGIN_PX, free + 1))
        top = row * CELL_PX + int(rng.integers(MARGIN_PX, free + 1))
        objects.append(Placed(colour, shape, draw(pixels, shape, COLOURS[colour], (left, top), side)))
    return pixels, objects


def _looks(objects: list[Placed], rng: np.random.Generator) -> tuple[str, str]:
    """Return the colour and shape of the next object.

    At most ``MAX_COUNT`` objects get the same, so that a question can be asked about them.
    """
    if objects and rng.random() < REPEATED_SHARE:
        like = objects[int(rng.integers(len(objects)))]
        looks = like.colour, like.shape
    else:
        looks = str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES))
    full = len(ObjectClass(*looks).among(objects)) >= MAX_COUNT
    return _looks(objects, rng) if full else looks


def draw(
    pixels: np.ndarray, shape: str, colour: tuple[int, int, int], corner: tuple[int, int], side: int
) -> tuple[int, int, int, int]:
    """Draw a shape ``side`` pixels wide with its top left ``corner`` there; returns the box of the pixels drawn."""
    left, top = corner
    mask = np.zeros(pixels.shape[:2], np.uint8)
    if shape == "square":
        mask[top : top + side, left : left + side] = 1
    elif shape == "circle":
        ys, xs = np.mgrid[0:side, 0:side] - (side - 1) / 2
        mask[top : top + side, left : left + side] = xs**2 + ys**2 <= (side / 2) ** 2
    else:
        last = side - 1
        corners = [[left + side // 2, top], [left + last, top + last], [left, top + last]]
        cv2.fillPoly(mask, [np.array(corners, np.int32)], 1)
    pixels[mask == 1] = colour
    x, y, width, height = cv2.boundingRect(mask)
    return x, y, x + width, y + height


def ask(objects: list[Placed], number: int, rng: np.random.Generator) -> list[SceneQuestion]:
    """Return at most ``number`` different questions about a scene: counts and statements."""
    asked: dict[str, SceneQuestion] = {}
    for _ in range(10 * number):
        one = ask_count(objects, rng) if rng.random() < COUNT_SHARE else ask_whether(objects, rng)
        asked.setdefault(one.question, one)
        if len(asked) == number:
            break
    return list(asked.values())


def ask_count(objects: list[Placed], rng: np.random.Generator) -> SceneQuestion:
    """Return a question for the number of objects of a class.

    A number is drawn first, and then a class that has this number of objects; otherwise nearly all answers would be 0
    and 1. Questions about all objects are as frequent as those about a colour or a shape: their traces point at
    everything.
    """
    groups = (OF_ALL, BY_COLOUR, BY_SHAPE, BY_BOTH)
    nouns = groups[int(rng.integers(len(groups)))]
    wanted = [len(objects)]
    if nouns is not OF_ALL:
        wanted = rng.choice(MAX_COUNT + 1, MAX_COUNT + 1, replace=False, p=COUNT_WEIGHTS).tolist()
    found = ([noun for noun in nouns if len(noun.among(objects)) == count] for count in wanted)
    noun = _one_of(next(fitting for fitting in found if fitting), rng)
    about = noun.among(objects)
    return SceneQuestion(f"How many {noun.phrase(0)} are there in the image?", str(len(about)), "numeric", about)


def ask_whether(objects: list[Placed], rng: np.random.Generator) -> SceneQuestion:
    """Return a question that asks whether a statement is true.

    The truth is drawn first, and then forms and amounts until the scene has a class that fits them, so that yes and no
    are equally frequent. False amounts are wrong by one or two.
    """
    truth = bool(rng.random() < 0.5)
    while True:
        form = str(rng.choice(["exactly", "at least", "a"]))
        amount, counts = _amount(form, truth, rng)
        nouns = BY_BOTH if form == "a" else BY_COLOUR + BY_SHAPE + BY_BOTH
        fitting = [noun for noun in nouns if len(noun.among(objects)) in counts]
        if fitting:
            break
    noun = _one_of(fitting, rng)
    phrase = noun.phrase(amount)
    words = f"There is a {phrase}." if form == "a" else f"There {_be(amount)} {form} {amount} {phrase}."
    return SceneQuestion(STATEMENT.format(words), "yes" if truth else "no", "bool", noun.among(objects))


def _amount(form: str, truth: bool, rng: np.random.Generator) -> tuple[int, tuple[int, ...]]:
    """Return the amount that a statement names, and the numbers of objects with which the statement has this truth."""
    if form == "exactly":
        amount = int(rng.integers(1, MAX_COUNT + 1))
        return amount, (amount,) if truth else (amount - 1, amount + 1)
    if form == "at least":
        amount = int(rng.integers(2, MAX_COUNT))
        return amount, (amount, amount + 1) if truth else (amount - 2, amount - 1)
    return 1, tuple(range(1, MAX_COUNT + 1)) if truth else (0,)


def _one_of(nouns: list[ObjectClass], rng: np.random.Generator) -> ObjectClass:
    return nouns[int(rng.integers(len(nouns)))]


def _be(amount: int) -> str:
    return "is" if amount == 1 else "are"


def write_scenes(folder: Path, scenes: int, seed: int, prefix: str, questions: int = QUESTIONS_PER_SCENE) -> Counter:
    """Write the input folder, and return how often each answer occurs.

    The ids and the names of the images begin with ``prefix``, so that folders can be distinguished. Raises
    FileExistsError if the folder already has records.
    """
    records = folder / "records.jsonl"
    if records.exists():
        raise FileExistsError(f"{records} exists: scenes go into a folder of their own")
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    answers: Counter[str] = Counter()
    lines = []
    for scene in range(scenes):
        pixels, objects = render_scene(rng)
        path = f"images/{prefix}-{scene:05d}.png"
        cv2.imwrite(str(folder / path), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
        for number, asked in enumerate(ask(objects, questions, rng)):
            answers[asked.answer] += 1
            lines.append(json.dumps(_record(f"{prefix}-{scene:05d}-{number}", path, asked)))
    records.write_text("\n".join(lines) + "\n", "utf-8")
    return answers


def _record(record_id: str, path: str, asked: SceneQuestion) -> dict[str, object]:
    boxes = [{"label": placed.label, "bbox": list(placed.box_px)} for placed in asked.objects]
    return {
        "id": record_id,
        "source": "scenes",
        "license": "CC0-1.0",
        "media": [path],
        "question": asked.question,
        "answer": asked.answer,
        "choices": None,
        "answer_type": asked.answer_type,
        "boxes": boxes or None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; prints the number of records and the share of the best constant answer."""
    parser = argparse.ArgumentParser(description="Write rendered scenes with questions.")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--scenes", type=int, required=True, help="the number of images")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--prefix", default="train", help="the prefix of ids and image names")
    parser.add_argument(
        "--questions", type=int, default=QUESTIONS_PER_SCENE, help="the maximum number of questions for each image"
    )
    chosen = parser.parse_args(arguments)
    answers = write_scenes(chosen.out, chosen.scenes, chosen.seed, chosen.prefix, chosen.questions)
    total = answers.total()
    common, times = answers.most_common(1)[0]
    print(f"{chosen.out}: {total:,} questions on {chosen.scenes:,} scenes; {common!r} answers {times / total:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
