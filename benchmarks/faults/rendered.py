"""Renders scenes of flat shapes on a light ground, with two counting questions, a statement and the boxes for each."""

import json
from pathlib import Path

import cv2
import numpy as np
from scenes import COLOURS, GROUND, draw_shape

WIDTH, HEIGHT, CELL_WIDTH, CELL_HEIGHT = 400, 100, 36, 33


def render(folder: Path, scenes: int, seed: int) -> None:
    """Write ``scenes`` images, with squares, circles and triangles of 14 to 26 pixels, and their records.jsonl."""
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    lines = []
    for number in range(scenes):
        pixels, boxes = _scene(rng)
        path = f"images/{number:06d}.png"
        cv2.imwrite(str(folder / path), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
        shared = {"source": "rendered", "license": "CC0-1.0", "media": [path]}
        for name, asked in _questions(boxes, rng):
            lines.append(json.dumps({"id": f"scene-{number:06d}-{name}"} | shared | asked))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def _scene(rng: np.random.Generator) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Return the pixels, and the box of each shape with its colour and kind as its label."""
    pixels, boxes = np.full((HEIGHT, WIDTH, 3), GROUND, np.uint8), []
    for cell in rng.permutation(33)[: rng.integers(4, 14)]:
        side, colour = int(rng.integers(14, 27)), str(rng.choice(list(COLOURS)))
        row, column = divmod(int(cell), 11)
        left, top = (
            column * CELL_WIDTH + int(rng.integers(1, 32 - side)),
            row * CELL_HEIGHT + int(rng.integers(1, 32 - side)),
        )
        kind = str(rng.choice(["square", "circle", "triangle"]))
        draw_shape(pixels, kind, COLOURS[colour], (left, top), side)
        boxes.append({"label": f"{colour} {kind}", "bbox": [left, top, left + side, top + side]})
    return pixels, boxes


def _questions(boxes: list[dict[str, object]], rng: np.random.Generator) -> list[tuple[str, dict[str, object]]]:
    """Return three questions: a count of a class, a count of a colour or a kind, and a statement of the least number of
    a class.
    """
    labels = [str(box["label"]) for box in boxes]
    one, other, stated = (str(label) for label in rng.choice(labels, 3))
    colour, kind = other.split()
    broad = f"{colour} object" if rng.random() < 0.5 else kind
    asked = []
    for name, noun in (("c0", one), ("c1", broad)):
        meant = [box for box in boxes if set(noun.removesuffix(" object").split()) <= set(str(box["label"]).split())]
        question = f"How many {noun}s are there in the image?"
        asked.append(
            (name, {"question": question, "answer": str(len(meant)), "answer_type": "numeric", "boxes": meant})
        )
    least = max(1, labels.count(stated) + int(rng.integers(-1, 2)))
    plural = "" if least == 1 else "s"
    question = f'Is the following statement about the image true? "There {"is" if least == 1 else "are"} at least '
    question += f'{least} {stated}{plural}." Answer yes or no.'
    answer = "yes" if labels.count(stated) >= least else "no"
    asked.append(("s", {"question": question, "answer": answer, "answer_type": "bool", "boxes": boxes}))
    return asked
