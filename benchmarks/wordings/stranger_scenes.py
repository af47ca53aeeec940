"""Questions about images of NLVR whose answer the gold boxes decide, for the stranger's lists."""

import json
import random
from collections.abc import Iterator
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
        """What it is: "blue square"."""
        return f"{self.colour} {self.shape}"

    @property
    def side(self) -> str:
        """In which of the three boxes it lies."""
        return SIDES[min(2, int(self.x // 150))]

    @property
    def x(self) -> float:
        """Its middle, in pixels."""
        return round((self.box_px[0] + self.box_px[2]) / 2)

    @property
    def y(self) -> float:
        """A little below its middle, in pixels: well inside a triangle, too."""
        return round(self.box_px[1] + (self.box_px[3] - self.box_px[1]) * 0.6)

    def label(self, style: str) -> str:
        """The object's name in one of the natural styles in which writers name it."""
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
class Scene:
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
    """The parts as a sentence lists them."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else "none"


def plural(name: str, n: int = 2) -> str:
    """The name as it is written behind the number."""
    return name if n == 1 else f"{name}s"


def things_of(record: dict) -> list[Thing]:
    """The objects of a record; the objects of towers form three columns."""
    boxes = record.get("boxes") or []
    in_tower = all(b["label"].endswith("square") and b["bbox"][0] in (40, 190, 340) for b in boxes)
    found = []
    for box in boxes:
        colour, shape = box["label"].split()
        left, top, right, bottom = box["bbox"]
        found.append(Thing(colour, shape, (left, top, right, bottom), in_tower))
    return found


def images(folder: Path) -> list[tuple[str, Path, list[Thing]]]:
    """Each image once, with all its objects: those of its statement's record."""
    found = {}
    for line in (folder / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["id"].endswith("-s") and record.get("boxes"):
            found.setdefault(record["media"][0], (record["id"], folder / record["media"][0], things_of(record)))
    return list(found.values())


def _matching(things: list[Thing], name: str) -> list[Thing]:
    colour, shape = name.split() if " " in name else ("", name)
    return [t for t in things if (not colour or t.colour == colour) and (shape in ("object", t.shape))]


def _names(things: list[Thing]) -> list[str]:
    return [f"{c} {s}" for c in COLOURS for s in SHAPES] + [f"{c} object" for c in COLOURS] + SHAPES


def _statement(text: str) -> str:
    return f'Is the following statement about the image true? "{text}" Answer yes or no.'


def scenes_of(kind: str, record_id: str, image: Path, things: list[Thing], rng: random.Random) -> Iterator[Scene]:
    """Questions of a kind about one image, in random order."""
    ordered = sorted(things, key=lambda t: (SIDES.index(t.side), t.x, -t.y))

    def scene(question, answer, answer_type, entities, chosen, things2=(), **words):
        others = [t for t in ordered if t not in chosen and t not in things2]
        return Scene(
            record_id,
            image,
            kind,
            question,
            answer,
            answer_type,
            entities,
            list(chosen),
            others,
            {k: str(v) for k, v in words.items()},
            list(things2),
        )

    names = _names(things)
    rng.shuffle(names)
    sides = SIDES[:]
    rng.shuffle(sides)
    for name in names:
        chosen = _matching(ordered, name)
        n = len(chosen)
        things_word = plural(name)
        if n > 5:
            continue
        if kind in ("count", "count_zero", "count_one"):
            if {"count": n > 0, "count_zero": n == 0, "count_one": n == 1}[kind]:
                yield scene(
                    f"How many {things_word} are there in the image?", str(n), "numeric", [name], chosen, thing=name
                )
        elif kind == "box_count":
            for side in sides:
                here = [t for t in chosen if t.side == side]
                if here:
                    yield scene(
                        f"How many {things_word} are there in the {side} box?",
                        str(len(here)),
                        "numeric",
                        [name],
                        here,
                        thing=name,
                        side=side,
                    )
        elif kind in ("exists_yes", "exists_no"):
            if " " in name and "object" not in name and (n > 0) == (kind == "exists_yes"):
                near = [t for t in ordered if t.colour == name.split()[0] or t.shape == name.split()[1]]
                if kind == "exists_yes" or 0 < len(near) <= 5:
                    yield scene(
                        f"Is there a {name} in the image? Answer yes or no.",
                        kind[7:],
                        "bool",
                        [name] if kind == "exists_yes" else [],
                        chosen if kind == "exists_yes" else [],
                        thing=name,
                        colour=name.split()[0],
                        shape=name.split()[-1],
                    )
        elif kind.startswith("says_exactly") and n:
            k = n if kind.endswith("true") else rng.choice([k for k in (n - 1, n + 1, n + 2) if k > 0])
            if kind.endswith("more"):
                k = n + rng.choice([1, 2])
            be = "is" if k == 1 else "are"
            yield scene(
                _statement(f"There {be} exactly {WORDS[k]} {plural(name, k)}."),
                "yes" if k == n else "no",
                "bool",
                [name],
                chosen,
                thing=name,
                k=k,
                k_word=WORDS[k],
            )
        elif kind.startswith("says_least") and n:
            k = rng.randint(1, n) if kind.endswith("true") else n + rng.choice([1, 2])
            yield scene(
                _statement(f"There are at least {WORDS[k]} {plural(name, k)}."),
                "yes" if k <= n else "no",
                "bool",
                [name],
                chosen,
                thing=name,
                k=k,
                k_word=WORDS[k],
            )
        elif kind == "says_box" and n:
            side = chosen[0].side
            yield scene(
                _statement(f"There is a {name} in the {side} box."),
                "yes",
                "bool",
                [name],
                chosen,
                thing=name,
                side=side,
            )
        elif kind == "compare" and n and " " in name:
            for other in names:
                second = _matching(ordered, other)
                if " " in other and "object" not in name + other and other != name and 0 < len(second) <= 5:
                    more = n > len(second)
                    yield scene(
                        f"Are there more {things_word} than {plural(other)} in the image? Answer yes or no.",
                        "yes" if more else "no",
                        "bool",
                        [name, other],
                        chosen,
                        second,
                        thing=name,
                        thing2=other,
                        verdict_more=f"there are {'more' if more else 'not more'} {things_word} than {plural(other)}",
                    )
        elif kind == "which_box" and n and " " in name and len({t.side for t in chosen}) == 1:
            side = chosen[0].side
            yield scene(
                f"Which box contains a {name}: the left, the middle or the right one?",
                side,
                "text",
                [name],
                chosen,
                thing=name,
                side=side,
            )
    for side in sides:
        here = [t for t in ordered if t.side == side]
        if kind == "colour":
            for shape in SHAPES:
                only = [t for t in here if t.shape == shape]
                if len(only) == 1:
                    yield scene(
                        f"What colour is the {shape} in the {side} box?",
                        only[0].colour,
                        "text",
                        [shape],
                        only,
                        thing=shape,
                        side=side,
                        shape=shape,
                        colour=only[0].colour,
                    )
        elif kind == "shape":
            for colour in COLOURS:
                only = [t for t in here if t.colour == colour]
                if len(only) == 1:
                    yield scene(
                        f"What shape is the {colour} object in the {side} box?",
                        only[0].shape,
                        "text",
                        [f"{colour} object"],
                        only,
                        thing=f"{colour} object",
                        side=side,
                        shape=only[0].shape,
                        colour=colour,
                    )
        elif kind in ("tower", "top_colour") and here and here[0].in_tower:
            up = sorted(here, key=lambda t: -t.y)
            if kind == "tower":
                yield scene(
                    f"How many blocks high is the {side} tower?",
                    str(len(up)),
                    "numeric",
                    ["block"],
                    up,
                    thing="block",
                    side=side,
                )
            else:
                yield scene(
                    f"What colour is the topmost block of the {side} tower?",
                    up[-1].colour,
                    "text",
                    ["block"],
                    up,
                    thing="block",
                    side=side,
                    colour=up[-1].colour,
                )
