"""Writes the inputs: records with a question and one or more JPEG images."""

import json
from dataclasses import dataclass
from pathlib import Path

ANSWER = "4"
SEED = 7


@dataclass(frozen=True)
class InputKind:
    """Describes an input: the number of images of each record, and the size of an image in pixels."""

    name: str
    images: int = 1
    width: int = 320
    height: int = 230


IMAGE = InputKind("image")
TEXT = InputKind("text", width=32, height=32)
"""A record needs an image. This one has 2 KB, so that a request is little more than its text."""
MANY = InputKind("20 images", images=20)
KINDS = (IMAGE, TEXT, MANY)


def write_input(folder: Path, count: int, kind: InputKind = IMAGE) -> None:
    """Write ``count`` records and as many images. A record with several images shares them with the next records."""
    import cv2  # not by the bare client, which imports this module too
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(SEED)
    noise = rng.integers(0, 256, (kind.height, kind.width, 3), np.uint8)
    names = [f"item-{number:06d}" for number in range(count)]
    with (folder / "records.jsonl").open("w", encoding="utf-8") as lines:
        for number, name in enumerate(names):
            pixels = noise.copy()
            pixels[:16, :16] = rng.integers(0, 256, 3)
            pixels = np.roll(pixels, int(rng.integers(0, kind.width)), axis=1)
            (folder / f"{name}.jpg").write_bytes(cv2.imencode(".jpg", pixels)[1].tobytes())
            media = [f"{names[(number + place) % count]}.jpg" for place in range(kind.images)]
            record = {"id": name, "question": f"How many squares are there in picture {name}?", "answer": ANSWER}
            lines.write(json.dumps(record | {"media": media, "source": "bench", "license": "CC0-1.0"}) + "\n")
