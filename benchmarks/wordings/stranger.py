"""Questions and traces of the stranger's lists, from the gold boxes of an input's records.

The lists were written by somebody who had read the docs and no rule. A template is text with fields in braces; each
is filled from one scene: a question whose answer the gold boxes decide, and the tags of the objects that answer it.
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


def tag(thing: Thing, style: str = "", x: object = None, y: object = None, label: str = "", text: str = "") -> str:
    """A points tag on the thing, or where ``x`` and ``y`` say, with the label of a style or another one."""
    label = label or thing.label(style)
    at_x, at_y = (f"{v:g}" if isinstance(v, float | int) else v for v in (x or thing.x, y or thing.y))
    return f'<points x1="{at_x}" y1="{at_y}" alt="{label}">{text or label}</points>'


def fields(scene: StrangerScene, style: str, rng: random.Random) -> dict[str, Callable[[], str]]:
    """The text of each field of a template for a scene; a field that does not apply raises IndexError or KeyError."""
    t, w, n = scene.things, scene.words, len(scene.things)
    name = w["thing"]
    tags = [tag(a, style) for a in t]
    by_side = {s: [tag(a, style) for a in t if a.side == s] for s in SIDES}
    wrong_n = rng.choice([k for k in (n - 1, n + 1) if k > 0])

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
        "first_side": lambda: t[0].side,
        "wrong_first_side": lambda: other_side(t[0].side),
        "x": lambda: f"{t[0].x:g}",
        "y": lambda: f"{t[0].y:g}",
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
    """The text with the value of each field in braces."""
    return re.sub(r"\{([a-z][a-z_0-9]*)\}", lambda m: values[m[1]](), text)


@dataclass(frozen=True)
class TraceCase:
    """One trace: how it ought to end, and the list's entry that it comes from."""

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
    """`per_entry` traces for each entry of a list, each about another image."""
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
    """A list's entries. Right ones are kept by the kind of question."""
    found = yaml.safe_load(path.read_text())
    if isinstance(found, dict):
        return [{"kind": kind, "asks": kind, **entry} for kind, entries in found.items() for entry in entries]
    return found
