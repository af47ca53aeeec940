"""Reads the objects of NLVR's images from their gold boxes, and makes scenes that fill the stranger's lists."""

import json
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SIDES = ["left", "middle", "right"]
COLOURS = ["black", "blue", "yellow"]
SHAPES = ["square", "circle", "triangle"]
SIZES = {10: "small", 20: "medium-sized", 30: "large"}


@dataclass(frozen=True)
class Thing:
    """One object of an image, with its box in pixels."""

    colour: str
    shape: str
    box_px: tuple[float, float, float, float]
    in_tower: bool

    @property
    def name(self) -> str:
        """The name of the object: "blue square"."""
        return f"{self.colour} {self.shape}"

    @property
    def side(self) -> str:
        """The box of the image in which the object is: left, middle or right."""
        return SIDES[min(2, int(self.x // 150))]

    @property
    def x(self) -> float:
        """The horizontal centre of the object, in pixels."""
        return round((self.box_px[0] + self.box_px[2]) / 2)

    @property
    def y(self) -> float:
        """A height slightly below the object's centre, in pixels, which is well inside a triangle, too."""
        return round(self.box_px[1] + (self.box_px[3] - self.box_px[1]) * 0.6)

    def label(self, style: str) -> str:
        """Return the object's name in one of the styles in which writers name it."""
        if style == "block":
            return f"{self.colour} block" if self.in_tower else self.name
        if style == "size":
            size = SIZES.get(round(self.box_px[2] - self.box_px[0]))
            return f"{size} {self.name}" if size and not self.in_tower else self.name
        return {
            "object": f"{self.colour} object",
            "colour_object": f"{self.colour} object",
            "shape": f"{self.colour} shape",
            "place": f"{self.name} in the {self.side} box",
            "place_plain": f"{self.shape} in the {self.side} box",
            "place_side": f"{self.name} on the {self.side}",
            "shape_only": self.shape,
            "topmost": "topmost block",
        }.get(style, self.name)


@dataclass
class StrangerScene:
    """A question about one image, its gold answer, and the objects that decide it."""

    record_id: str
    image: Path
    kind: str
    question: str
    answer: str
    answer_type: str
    entities: list[str]
    things: list[Thing]
    others: list[Thing]
    words: dict[str, str] = field(default_factory=dict)
    things2: list[Thing] = field(default_factory=list)


def join(parts: list[str], last: str = "and") -> str:
    """Return the parts as a list in a sentence."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else "none"


def plural(name: str, n: int = 2) -> str:
    """Return the name in the form that follows the number."""
    return name if n == 1 else f"{name}s"


def things_of(record: dict) -> list[Thing]:
    """Return the objects of a record; the objects of towers form three columns."""
    boxes = record.get("boxes") or []
    in_tower = all(b["label"].endswith("square") and b["bbox"][0] in (40, 190, 340) for b in boxes)
    found = []
    for box in boxes:
        colour, shape = box["label"].split()
        left, top, right, bottom = box["bbox"]
        found.append(Thing(colour, shape, (left, top, right, bottom), in_tower))
    return found


def images(folder: Path) -> list[tuple[str, Path, list[Thing]]]:
    """Return each image once, with all its objects, which are those of its statement's record."""
    found = {}
    for line in (folder / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["id"].endswith("-s") and record.get("boxes"):
            found.setdefault(record["media"][0], (record["id"], folder / record["media"][0], things_of(record)))
    return list(found.values())
