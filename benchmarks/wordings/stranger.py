"""Makes questions and traces of the stranger's lists, from the gold boxes of an input's records.

The author of the lists had read the docs, but not the rules of the verifier. A template is text with fields in braces.
It is filled from one scene, which is a question whose answer the gold boxes decide, with the objects that answer it.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from wordings.stranger_questions import scenes_of
from wordings.stranger_scenes import COLOURS, SHAPES, SIDES, SIZES, WORDS, StrangerScene, Thing, join, plural

WIDTH_PX, HEIGHT_PX = 400, 100
Fields = dict[str, Callable[[], str]]
"""Maps the name of a template's field to a function that makes the field's text."""


def tag(thing: Thing, style: str = "", x: object = None, y: object = None, label: str = "", text: str = "") -> str:
    """Return a points tag on the thing, or at ``x`` and ``y``, with the label of a style or with ``label``."""
    label = label or thing.label(style)
    at_x, at_y = (f"{v:g}" if isinstance(v, float | int) else v for v in (x or thing.x, y or thing.y))
    return f'<points x1="{at_x}" y1="{at_y}" alt="{label}">{text or label}</points>'


class _Parts:
    """The parts of a scene that its fields are made of, such as ``tags`` on its things and a wrong number."""

    def __init__(self, scene: StrangerScene, style: str, rng: random.Random) -> None:
        self.scene, self.style, self.rng = scene, style, rng
        self.things, self.words, self.n = scene.things, scene.words, len(scene.things)
        self.name = scene.words["thing"]
        self.tags = [tag(a, style) for a in scene.things]
        self.by_side = {s: [tag(a, style) for a in scene.things if a.side == s] for s in SIDES}
        self.wrong_n = rng.choice([k for k in (self.n - 1, self.n + 1) if k > 0])

    def per_side(self, pattern: str, empty: str) -> list[str]:
        """Return the pattern filled for each side of the image; ``empty`` replaces it on a side without things."""
        return [(pattern if v else empty).format(s=s, tags=join(v), n=len(v)) for s, v in self.by_side.items()]

    def sum_to(self, total: int) -> str:
        """Return the numbers of things on the sides as a sum, which may be wrong."""
        return " + ".join(str(len(v)) for v in self.by_side.values()) + f" = {total}"

    def other_colour(self, a: Thing) -> str:
        """Return a colour that the thing does not have."""
        return self.rng.choice([c for c in COLOURS if c != a.colour])

    def other_side(self, side: str) -> str:
        """Another side of the image."""
        return self.rng.choice([s for s in SIDES if s != side])

    def again(self) -> str:
        """Return a second tag on the first thing, beside its first tag."""
        first = self.things[0]
        return tag(first, self.style, x=first.x + 2, y=first.y + 1)


def fields(scene: StrangerScene, style: str, rng: random.Random) -> Fields:
    """Return a function for each field of a template, which makes the field's text for a scene.

    A function raises IndexError or KeyError if its field does not apply to the scene.
    """
    parts = _Parts(scene, style, rng)
    return _words(parts) | _places(parts) | _tags(parts) | _by_side(parts) | _other_things(parts) | _wrong_tags(parts)


def _words(p: _Parts) -> Fields:
    w, n, name, wrong_n = p.words, p.n, p.name, p.wrong_n
    return {
        "thing": lambda: name,
        "things": lambda: plural(name),
        "things_cap": lambda: plural(name).capitalize(),
        "things_n": lambda: plural(name, n),
        "thing2": lambda: w["thing2"],
        "things2_cap": lambda: plural(w["thing2"]).capitalize(),
        "n": lambda: str(n),
        "n_word": lambda: WORDS[n],
        "n2": lambda: str(len(p.scene.things2)),
        "k": lambda: w["k"],
        "k_word": lambda: w["k_word"],
        "answer": lambda: p.scene.answer,
        "wrong_n": lambda: str(wrong_n),
        "wrong_n_word": lambda: WORDS[wrong_n],
        "are_n": lambda: f"{'is' if n == 1 else 'are'} {WORDS[n]} {plural(name, n)}",
        "verdict_more": lambda: w["verdict_more"],
        "colour": lambda: w["colour"],
        "shape": lambda: w["shape"],
        "side": lambda: w["side"],
        "wrong_colour": lambda: p.rng.choice([c for c in COLOURS if c != w["colour"]]),
    }


def _places(p: _Parts) -> Fields:
    t = p.things
    return {
        "first": lambda: p.tags[0],
        "rest": lambda: join(p.tags[1:]),
        "first_side": lambda: t[0].side,
        "wrong_first_side": lambda: p.other_side(t[0].side),
        "x": lambda: f"{t[0].x:g}",
        "y": lambda: f"{t[0].y:g}",
    }


def _tags(p: _Parts) -> Fields:
    tags = p.tags
    running = [f"{a} makes {WORDS[i]}" for i, a in enumerate(tags, 1)]
    return {
        "tags": lambda: join(tags),
        "tags_und": lambda: join(tags, "und"),
        "tags_et": lambda: join(tags, "et"),
        "tags_semi": lambda: "; ".join(tags),
        "tags_comma": lambda: ", ".join(tags),
        "tags2": lambda: join([tag(a, p.style) for a in p.scene.things2]),
        "numbered": lambda: "\n".join(f"{i}. {a}" for i, a in enumerate(tags, 1)),
        "inline": lambda: ", ".join(f"({i}) {a}" for i, a in enumerate(tags, 1)),
        "bullets": lambda: "\n".join(f"- {a}" for a in tags),
        "running": lambda: join(running),
    }


def _by_side(p: _Parts) -> Fields:
    left_middle_right = "The left box has {}, the middle one has {}, and the right one has {}."
    sections = ("first", "second", "third")
    return {
        "boxes_a": lambda: left_middle_right.format(*p.per_side("{tags}", "none")),
        "boxes_b": lambda: "{}; {}; {}.".format(*p.per_side("{s}: {tags}", "{s}: nothing relevant")),
        "boxes_c": lambda: "\n".join(p.per_side("- {s} panel: {tags} ({n})", "- {s} panel: none (0)")),
        "boxes_d": lambda: " ".join(
            f"In the {section} section {found}"
            for section, found in zip(
                sections, p.per_side("there is {tags}.", f"I find no {plural(p.name)}."), strict=True
            )
        ),
        "sum": lambda: p.sum_to(p.n),
        "bad_sum": lambda: p.sum_to(p.wrong_n),
    }


def _other_things(p: _Parts) -> Fields:
    others, w = p.scene.others, p.words
    near = [o for o in others if not p.things and (o.colour == w.get("colour") or o.shape == w.get("shape"))]
    kinds = sorted({plural(o.name) for o in others})
    return {
        "other_tag": lambda: tag(others[0], p.style),
        "other_tags": lambda: join([tag(o, p.style) for o in near]),
        "other_kinds": lambda: join(kinds),
        "stack_up": lambda: join(p.tags),
        "stack_down": lambda: join(p.tags[::-1]),
        "top": lambda: tag(p.things[-1], p.style),
        "tags_bare": lambda: " ".join(p.tags),
    }


def _wrong_tags(p: _Parts) -> Fields:
    t, tags, rng = p.things, p.tags, p.rng
    return {
        "tags_wrong_colour": lambda: join([tag(a, label=f"{p.other_colour(a)} {a.shape}") for a in t]),
        "tags_wrong_shape": lambda: join(
            [tag(a, label=f"{a.colour} {rng.choice([s for s in SHAPES if s != a.shape])}") for a in t]
        ),
        "tags_wrong_size": lambda: join([tag(a, label=_wrong_size(a)) for a in t]),
        "tags_wrong_place": lambda: join([tag(a, label=f"{a.name} in the {p.other_side(a.side)} box") for a in t]),
        "tags_other_text": lambda: join([tag(a, text=f"{p.other_colour(a)} {a.shape}") for a in t]),
        "tags_off": lambda: join([tag(a, x=125 if a.x < 200 else 275) for a in t]),
        "tags_swapped": lambda: join([tag(a, x=a.y, y=a.x) for a in t]),
        "tags_unit": lambda: join([tag(a, x=round(a.x / WIDTH_PX, 3), y=round(a.y / HEIGHT_PX, 3)) for a in t]),
        "tags_outside": lambda: join([tag(a, x=a.x + 400, y=a.y + 100) for a in t]),
        "tags_but_last": lambda: join(tags[:-1]),
        "tags_twice_for_other": lambda: join([*tags[:-1], p.again()]),
        "tags_twice": lambda: join([*tags, p.again()]),
        "tags_unclosed": lambda: join(tags).removesuffix("</points>"),
        "tags_no_y": lambda: join([re.sub(r' y1="[^"]*"', "", a) for a in tags]),
        "tags_percent": lambda: join([tag(a, x=f"{a.x / 4:g}%", y=f"{a.y:g}%") for a in t]),
        "json_points": lambda: json.dumps([{"point_2d": [a.x, a.y], "label": a.name} for a in t]),
    }


def _wrong_size(a: Thing) -> str:
    size = SIZES.get(round(a.box_px[2] - a.box_px[0]))
    if size not in ("small", "large") or a.in_tower:
        raise KeyError(size)
    return f"{'large' if size == 'small' else 'small'} {a.name}"


def fill(text: str, values: Fields) -> str:
    """Return the text with the value of each field in place of the braces."""
    return re.sub(r"\{([a-z][a-z_0-9]*)\}", lambda m: values[m[1]](), text)


@dataclass(frozen=True)
class TraceCase:
    """One trace: the entry of the list that it comes from, its ``kind``, its scene and the response."""

    name: str
    kind: str
    scene: StrangerScene
    response: str


def _scenes(
    kind: str, sources: list, rng: random.Random, is_fit: Callable[[StrangerScene], bool]
) -> Iterator[StrangerScene]:
    order = sources[:]
    rng.shuffle(order)
    for record_id, image, things in order:
        for scene in scenes_of(kind, record_id, image, things, rng):
            if is_fit(scene):
                yield scene
                break


def cases(entries: list[dict], sources: list, per_entry: int, seed: object = 0) -> Iterator[TraceCase]:
    """Yield ``per_entry`` traces for each entry of a list, each about another image."""
    for entry in entries:
        rng = random.Random(f"{seed} {entry['kind']} {entry['id']}")
        kind = entry["asks"]
        kind = "count_zero" if entry.get("zero") else "count_one" if entry.get("one") else kind
        kind = "says_exactly_more" if entry.get("more") else kind

        def is_fit(scene: StrangerScene, entry: dict = entry) -> bool:
            return len(scene.things) >= entry.get("min", 0) and (not entry.get("other") or bool(scene.others))

        made = 0
        for scene in _scenes(kind, sources, rng, is_fit):
            values = fields(scene, entry.get("label", ""), rng)
            answer = values[entry.get("answer", "answer")]()
            try:
                raw = entry.get("raw") or "<think>" + entry["text"] + "</think>\n<answer>" + answer + "</answer>"
                response = fill(raw, values)
            except KeyError:
                continue  # sizes that the scene has not
            if entry.get("answer"):
                scene.answer = answer
            yield TraceCase(entry["id"], entry["kind"], scene, response)
            made += 1
            if made == per_entry:
                break


def load(path: Path) -> list[dict]:
    """Return a list's entries. A list of right wordings is a mapping from the kind of question to its entries."""
    found = yaml.safe_load(path.read_text())
    if isinstance(found, dict):
        return [{"kind": kind, "asks": kind, **entry} for kind, entries in found.items() for entry in entries]
    return found
