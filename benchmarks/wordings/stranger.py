"""Questions and traces of the stranger's lists, from the gold boxes of an input's records.

The lists were written by somebody who had read the docs and no rule. A template is text with fields in braces; each
is filled from one scene: a question whose answer the gold boxes decide, and the tags of the objects that answer it.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SIDES = ["left", "middle", "right"]
COLOURS = ["black", "blue", "yellow"]
SHAPES = ["square", "circle", "triangle"]
SIZES = {10: "small", 20: "medium-sized", 30: "large"}
WIDTH_PX, HEIGHT_PX = 400, 100


@dataclass(frozen=True)
class Thing:
    """One object of an image, with its box in pixels."""

    colour: str
    shape: str
    box_px: tuple[float, float, float, float]
    in_tower: bool

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def side(self) -> str:
        return SIDES[min(2, int(self.x // 150))]

    @property
    def x(self) -> float:
        return round((self.box_px[0] + self.box_px[2]) / 2)

    @property
    def y(self) -> float:
        # two thirds down a triangle, well inside every shape
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


def tag(thing: Thing, style: str = "", x: object = None, y: object = None, label: str = "", text: str = "") -> str:
    label = label or thing.label(style)
    x, y = thing.x if x is None else x, thing.y if y is None else y
    return (
        f'<points x1="{x:g}" y1="{y:g}" alt="{label}">{text or label}</points>'
        if isinstance(x, (int, float))
        else (f'<points x1="{x}" y1="{y}" alt="{label}">{text or label}</points>')
    )


def join(parts: list[str], last: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else "none"


def plural(name: str, n: int = 2) -> str:
    return name if n == 1 else f"{name}s"


def things_of(record: dict) -> list[Thing]:
    boxes = record.get("boxes") or []
    in_tower = all(b["label"].endswith("square") and b["bbox"][0] in (40, 190, 340) for b in boxes)
    return [Thing(*b["label"].split(), tuple(b["bbox"]), in_tower) for b in boxes]


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


def fields(scene: Scene, style: str, rng: random.Random) -> dict[str, Callable[[], str]]:
    """What each field of a template says of this scene; a field that does not apply raises IndexError or KeyError."""
    t, w, n = scene.things, scene.words, len(scene.things)
    name = w["thing"]
    tags = [tag(a, style) for a in t]
    by_side = {s: [tag(a, style) for a in t if a.side == s] for s in SIDES}
    wrong_n = rng.choice([k for k in (n - 1, n + 1) if k > 0])
    first = t[0] if t else None

    def per_side(pattern: str, empty: str) -> list[str]:
        return [(pattern if by_side[s] else empty).format(s=s, tags=join(by_side[s]), n=len(by_side[s])) for s in SIDES]

    def other_colour(a: Thing) -> str:
        return rng.choice([c for c in COLOURS if c != a.colour])

    def other_side(side: str) -> str:
        return rng.choice([s for s in SIDES if s != side])

    near = [o for o in scene.others if not t and (o.colour == w.get("colour") or o.shape == w.get("shape"))]
    kinds = sorted({plural(o.name) for o in scene.others})

    def wrong_size(a: Thing) -> str:
        size = SIZES.get(round(a.box_px[2] - a.box_px[0]))
        if size not in ("small", "large") or a.in_tower:
            raise KeyError(size)
        return f"{'large' if size == 'small' else 'small'} {a.name}"

    running = [f"{a} makes {WORDS[i]}" for i, a in enumerate(tags, 1)]
    return {
        "thing": lambda: name,
        "things": lambda: plural(name),
        "things_cap": lambda: plural(name).capitalize(),
        "things_n": lambda: plural(name, n),
        "thing2": lambda: w["thing2"],
        "things2_cap": lambda: plural(w["thing2"]).capitalize(),
        "n": lambda: str(n),
        "n_word": lambda: WORDS[n],
        "n2": lambda: str(len(scene.things2)),
        "k": lambda: w["k"],
        "k_word": lambda: w["k_word"],
        "answer": lambda: scene.answer,
        "wrong_n": lambda: str(wrong_n),
        "wrong_n_word": lambda: WORDS[wrong_n],
        "are_n": lambda: f"{'is' if n == 1 else 'are'} {WORDS[n]} {plural(name, n)}",
        "verdict_more": lambda: w["verdict_more"],
        "colour": lambda: w["colour"],
        "shape": lambda: w["shape"],
        "side": lambda: w["side"],
        "wrong_colour": lambda: rng.choice([c for c in COLOURS if c != w["colour"]]),
        "first": lambda: tags[0],
        "rest": lambda: join(tags[1:]),
        "first_side": lambda: first.side,
        "wrong_first_side": lambda: other_side(first.side),
        "x": lambda: f"{first.x:g}",
        "y": lambda: f"{first.y:g}",
        "tags": lambda: join(tags),
        "tags_und": lambda: join(tags, "und"),
        "tags_et": lambda: join(tags, "et"),
        "tags_semi": lambda: "; ".join(tags),
        "tags_comma": lambda: ", ".join(tags),
        "tags2": lambda: join([tag(a, style) for a in scene.things2]),
        "numbered": lambda: "\n".join(f"{i}. {a}" for i, a in enumerate(tags, 1)),
        "inline": lambda: ", ".join(f"({i}) {a}" for i, a in enumerate(tags, 1)),
        "bullets": lambda: "\n".join(f"- {a}" for a in tags),
        "running": lambda: join(running),
        "boxes_a": lambda: "The left box has {}, the middle one has {}, and the right one has {}.".format(
            *per_side("{tags}", "none")
        ),
        "boxes_b": lambda: "{}; {}; {}.".format(*per_side("{s}: {tags}", "{s}: nothing relevant")),
        "boxes_c": lambda: "\n".join(per_side("- {s} panel: {tags} ({n})", "- {s} panel: none (0)")),
        "boxes_d": lambda: " ".join(
            f"In the {o} section {p}"
            for o, p in zip(
                ["first", "second", "third"], per_side("there is {tags}.", f"I find no {plural(name)}."), strict=True
            )
        ),
        "sum": lambda: " + ".join(str(len(v)) for v in by_side.values()) + f" = {n}",
        "bad_sum": lambda: " + ".join(str(len(v)) for v in by_side.values()) + f" = {wrong_n}",
        "other_tag": lambda: tag(scene.others[0], style),
        "other_tags": lambda: join([tag(o, style) for o in near]),
        "other_kinds": lambda: join(kinds),
        "stack_up": lambda: join(tags),
        "stack_down": lambda: join(tags[::-1]),
        "top": lambda: tag(t[-1], style),
        "tags_bare": lambda: " ".join(tags),
        "tags_wrong_colour": lambda: join([tag(a, label=f"{other_colour(a)} {a.shape}") for a in t]),
        "tags_wrong_shape": lambda: join(
            [tag(a, label=f"{a.colour} {rng.choice([s for s in SHAPES if s != a.shape])}") for a in t]
        ),
        "tags_wrong_size": lambda: join([tag(a, label=wrong_size(a)) for a in t]),
        "tags_wrong_place": lambda: join([tag(a, label=f"{a.name} in the {other_side(a.side)} box") for a in t]),
        "tags_other_text": lambda: join([tag(a, text=f"{other_colour(a)} {a.shape}") for a in t]),
        "tags_off": lambda: join([tag(a, x=125 if a.x < 200 else 275) for a in t]),
        "tags_swapped": lambda: join([tag(a, x=a.y, y=a.x) for a in t]),
        "tags_unit": lambda: join([tag(a, x=round(a.x / WIDTH_PX, 3), y=round(a.y / HEIGHT_PX, 3)) for a in t]),
        "tags_outside": lambda: join([tag(a, x=a.x + 400, y=a.y + 100) for a in t]),
        "tags_but_last": lambda: join(tags[:-1]),
        "tags_twice_for_other": lambda: join([*tags[:-1], tag(t[0], style, x=t[0].x + 2, y=t[0].y + 1)]),
        "tags_twice": lambda: join([*tags, tag(t[0], style, x=t[0].x + 2, y=t[0].y + 1)]),
        "tags_unclosed": lambda: join(tags).removesuffix("</points>"),
        "tags_no_y": lambda: join([re.sub(r' y1="[^"]*"', "", a) for a in tags]),
        "tags_percent": lambda: join([tag(a, x=f"{a.x / 4:g}%", y=f"{a.y:g}%") for a in t]),
        "json_points": lambda: json.dumps([{"point_2d": [a.x, a.y], "label": a.name} for a in t]),
    }


def fill(text: str, values: dict[str, Callable[[], str]]) -> str:
    return re.sub(r"\{([a-z][a-z_0-9]*)\}", lambda m: values[m[1]](), text)


@dataclass(frozen=True)
class Case:
    """One trace: how it ought to end, and the list's entry that it comes from."""

    name: str
    kind: str
    is_right: bool
    scene: Scene
    response: str


def _scenes(kind: str, sources: list, rng: random.Random, is_fit: Callable[[Scene], bool]) -> Iterator[Scene]:
    order = sources[:]
    rng.shuffle(order)
    for record_id, image, things in order:
        for scene in scenes_of(kind, record_id, image, things, rng):
            if is_fit(scene):
                yield scene
                break


def cases(entries: list[dict], sources: list, per_entry: int, is_right: bool, seed: int = 0) -> Iterator[Case]:
    """`per_entry` traces for each entry of a list, each about another image."""
    for entry in entries:
        rng = random.Random(f"{seed} {entry['kind']} {entry['id']}")
        kind = entry["asks"]
        kind = "count_zero" if entry.get("zero") else "count_one" if entry.get("one") else kind
        kind = "says_exactly_more" if entry.get("more") else kind

        def is_fit(scene: Scene, entry: dict = entry) -> bool:
            return len(scene.things) >= entry.get("min", 0) and (not entry.get("other") or bool(scene.others))

        made = 0
        for scene in _scenes(kind, sources, rng, is_fit):
            values = fields(scene, entry.get("label", ""), rng)
            answer = fill("{%s}" % entry.get("answer", "answer"), values)
            try:
                raw = entry.get("raw") or "<think>" + entry["text"] + "</think>\n<answer>" + answer + "</answer>"
                response = fill(raw, values)
            except KeyError:
                continue  # sizes that the scene has not
            if entry.get("answer"):
                scene.answer = answer
            yield Case(entry["id"], entry["kind"], is_right, scene, response)
            made += 1
            if made == per_entry:
                break


def load(path: Path) -> list[dict]:
    """A list's entries. Right ones are kept by the kind of question."""
    found = yaml.safe_load(path.read_text())
    if isinstance(found, dict):
        return [{"kind": kind, "asks": kind, **entry} for kind, entries in found.items() for entry in entries]
    return found
