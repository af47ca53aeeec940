"""Renders inputs for benchmarks: flat coloured shapes with a counting question that the embedded engine reads."""

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

BASE_SCENES = 100
GROUND = (211, 211, 211)
COLOURS = {"yellow": (255, 255, 0), "blue": (0, 153, 255), "black": (0, 0, 0), "red": (220, 30, 30)}
KINDS = ("square", "circle", "triangle")
JPEG_QUALITY = 95


@dataclass(frozen=True)
class SceneKind:
    """A kind of scene: width, height and cell size in pixels (each shape is in a cell), and file formats, used in turn.

    ``noise`` is the standard deviation of a camera-like grain on every pixel; 0 for flat drawings.
    """

    width: int
    height: int
    cell: int
    formats: tuple[str, ...]
    noise: float = 0.0

    @property
    def name(self) -> str:
        """The printed name: width and height, and "noisy" if there is noise."""
        return f"{self.width}x{self.height}" + (" noisy" if self.noise else "")


def render_input(folder: Path, size: SceneKind, records: int) -> None:
    """Write ``records`` scenes and their records.jsonl: copies of the base scenes, with one pixel changed in each.

    No two images are equal, so that each has its own replies in the cache.
    """
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(7)
    scenes = [render_scene(size, rng) for _ in range(min(BASE_SCENES, records))]
    per_row = size.width // 8
    lines = []
    for number in range(records):
        pixels, question, answer = scenes[number % len(scenes)]
        copy = number // len(scenes)
        changed = pixels.copy()
        changed[copy // per_row * 8 + 1, copy % per_row * 8 + 1] = 150
        path = f"images/{number:06d}.{size.formats[number % len(size.formats)]}"
        settings = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY] if path.endswith("jpg") else []
        cv2.imwrite(str(folder / path), cv2.cvtColor(changed, cv2.COLOR_RGB2BGR), settings)
        fields = {"id": f"scene-{number:06d}", "source": "rendered", "license": "CC0-1.0", "media": [path]}
        fields |= {"question": question, "answer": answer, "answer_type": "numeric"}
        lines.append(json.dumps(fields))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def render_scene(size: SceneKind, rng: np.random.Generator) -> tuple[np.ndarray, str, str]:
    """Return an image, its question and the answer, which is at least 1."""
    pixels = np.full((size.height, size.width, 3), GROUND, np.uint8)
    columns, rows = size.width // size.cell, size.height // size.cell
    drawn = []
    for place in rng.permutation(columns * rows)[: rng.integers(5, 12)]:
        colour, kind = str(rng.choice(list(COLOURS))), str(rng.choice(KINDS))
        row, column = divmod(int(place), columns)
        corner = (column * size.cell + size.cell // 8, row * size.cell + size.cell // 8)
        draw_shape(pixels, kind, COLOURS[colour], corner, int(size.cell * rng.uniform(0.5, 0.8)))
        drawn.append(f"{colour} {kind}")
    if size.noise:
        grain = rng.normal(0, size.noise, pixels.shape)
        pixels = np.clip(pixels + grain, 0, 255).astype(np.uint8)
    asked = str(rng.choice(drawn))
    return pixels, f"How many {asked}s are there?", str(drawn.count(asked))


def draw_shape(pixels: np.ndarray, kind: str, colour: tuple[int, int, int], corner: tuple[int, int], side: int) -> None:
    """Draw a shape into a square with this side in pixels and this top-left corner."""
    left, top = corner
    region = pixels[top : top + side, left : left + side]
    if kind == "square":
        region[:] = colour
    elif kind == "circle":
        ys, xs = np.mgrid[0:side, 0:side] - (side - 1) / 2
        region[xs**2 + ys**2 <= (side / 2) ** 2] = colour
    else:
        corners = [[left + side // 2, top], [left + side - 1, top + side - 1], [left, top + side - 1]]
        cv2.fillPoly(pixels, [np.array(corners, np.int32)], colour)
