"""Questions about one image that its gold boxes decide, one function for each kind of question."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordings.stranger_scenes import COLOURS, SHAPES, SIDES, WORDS, StrangerScene, Thing, plural

MAX_NAMED = 5
"""A question is only asked about a name if at most this many objects have the name."""


@dataclass(frozen=True)
class _Image:
    """An image: its objects in reading order, and its names and boxes in random order."""

    kind: str
    record_id: str
    path: Path
    things: list[Thing]
    names: list[str]
    sides: list[str]
    rng: random.Random

    def asked(
        self,
        question: str,
        answer: str,
        answer_type: str,
        chosen: list[Thing],
        entities: list[str],
        words: dict[str, str],
        second: Sequence[Thing] = (),
    ) -> StrangerScene:
        """Return the scene of a question. The objects ``chosen`` decide its answer, together with ``second`` in a
        comparison.
        """
        others = [thing for thing in self.things if thing not in chosen and thing not in second]
        return StrangerScene(
            self.record_id,
            self.path,
            self.kind,
            question,
            answer,
            answer_type,
            entities,
            chosen,
            others,
            words,
            [*second],
        )

    def named(self) -> Iterator[tuple[str, list[Thing]]]:
        """Yield each name with its objects, if at most :data:`MAX_NAMED` objects have it."""
        for name in self.names:
            chosen = matching(self.things, name)
            if len(chosen) <= MAX_NAMED:
                yield name, chosen

    def at(self, side: str) -> list[Thing]:
        """Return the objects in a box."""
        return [thing for thing in self.things if thing.side == side]


def matching(things: list[Thing], name: str) -> list[Thing]:
    """Return the objects that have this name: "blue square", "blue object" or "square"."""
    colour, shape = name.split() if " " in name else ("", name)
    return [t for t in things if (not colour or t.colour == colour) and (shape in ("object", t.shape))]


def scenes_of(
    kind: str, record_id: str, image: Path, things: list[Thing], rng: random.Random
) -> Iterator[StrangerScene]:
    """Return questions of a kind about one image, in random order."""
    names = [f"{c} {s}" for c in COLOURS for s in SHAPES] + [f"{c} object" for c in COLOURS] + SHAPES
    sides = SIDES[:]
    rng.shuffle(names)
    rng.shuffle(sides)
    ordered = sorted(things, key=lambda t: (SIDES.index(t.side), t.x, -t.y))
    return KINDS[kind](_Image(kind, record_id, image, ordered, names, sides, rng))


def _statement(text: str) -> str:
    return f'Is the following statement about the image true? "{text}" Answer yes or no.'


def _is_exact(name: str) -> bool:
    """Whether a name has a colour and a shape."""
    return " " in name and "object" not in name


def _counts(image: _Image) -> Iterator[StrangerScene]:
    is_asked = {"count": lambda n: n > 0, "count_zero": lambda n: n == 0, "count_one": lambda n: n == 1}[image.kind]
    for name, chosen in image.named():
        if is_asked(len(chosen)):
            question = f"How many {plural(name)} are there in the image?"
            yield image.asked(question, str(len(chosen)), "numeric", chosen, [name], {"thing": name})


def _box_counts(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        for side in image.sides:
            here = [thing for thing in chosen if thing.side == side]
            if here:
                question = f"How many {plural(name)} are there in the {side} box?"
                yield image.asked(question, str(len(here)), "numeric", here, [name], {"thing": name, "side": side})


def _exists(image: _Image) -> Iterator[StrangerScene]:
    is_there = image.kind == "exists_yes"
    for name, chosen in image.named():
        if not _is_exact(name) or bool(chosen) != is_there:
            continue
        colour, shape = name.split()
        near = [thing for thing in image.things if thing.colour == colour or thing.shape == shape]
        if is_there or 0 < len(near) <= MAX_NAMED:
            question, answer = f"Is there a {name} in the image? Answer yes or no.", "yes" if is_there else "no"
            entities = [name] if is_there else []
            yield image.asked(
                question, answer, "bool", chosen, entities, {"thing": name, "colour": colour, "shape": shape}
            )


def _says_exactly(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        n = k = len(chosen)
        if not n:
            continue
        if not image.kind.endswith("true"):
            k = image.rng.choice([k for k in (n - 1, n + 1, n + 2) if k > 0])
        if image.kind.endswith("more"):
            k = n + image.rng.choice([1, 2])
        text = f"There {'is' if k == 1 else 'are'} exactly {WORDS[k]} {plural(name, k)}."
        yield _says(image, text, k == n, name, chosen, k=str(k), k_word=WORDS[k])


def _says_least(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        n = len(chosen)
        if n:
            k = image.rng.randint(1, n) if image.kind.endswith("true") else n + image.rng.choice([1, 2])
            text = f"There are at least {WORDS[k]} {plural(name, k)}."
            yield _says(image, text, k <= n, name, chosen, k=str(k), k_word=WORDS[k])


def _says_box(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        if chosen:
            side = chosen[0].side
            yield _says(image, f"There is a {name} in the {side} box.", True, name, chosen, side=side)


def _says(image: _Image, text: str, is_true: bool, name: str, chosen: list[Thing], **words: str) -> StrangerScene:
    answer = "yes" if is_true else "no"
    return image.asked(_statement(text), answer, "bool", chosen, [name], {"thing": name, **words})


def _compares(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        for other in image.names if chosen and " " in name else ():
            second = matching(image.things, other)
            if not (_is_exact(other) and "object" not in name and other != name and 0 < len(second) <= MAX_NAMED):
                continue
            more = len(chosen) > len(second)
            question = f"Are there more {plural(name)} than {plural(other)} in the image? Answer yes or no."
            verdict = f"there are {'more' if more else 'not more'} {plural(name)} than {plural(other)}"
            words = {"thing": name, "thing2": other, "verdict_more": verdict}
            yield image.asked(question, "yes" if more else "no", "bool", chosen, [name, other], words, second)


def _which_box(image: _Image) -> Iterator[StrangerScene]:
    for name, chosen in image.named():
        if chosen and " " in name and len({thing.side for thing in chosen}) == 1:
            side = chosen[0].side
            question = f"Which box contains a {name}: the left, the middle or the right one?"
            yield image.asked(question, side, "text", chosen, [name], {"thing": name, "side": side})


def _colours(image: _Image) -> Iterator[StrangerScene]:
    for side in image.sides:
        for shape in SHAPES:
            only = matching(image.at(side), shape)
            if len(only) == 1:
                words = {"thing": shape, "side": side, "shape": shape, "colour": only[0].colour}
                question = f"What colour is the {shape} in the {side} box?"
                yield image.asked(question, only[0].colour, "text", only, [shape], words)


def _shapes(image: _Image) -> Iterator[StrangerScene]:
    for side in image.sides:
        for colour in COLOURS:
            name = f"{colour} object"
            only = matching(image.at(side), name)
            if len(only) == 1:
                words = {"thing": name, "side": side, "shape": only[0].shape, "colour": colour}
                question = f"What shape is the {name} in the {side} box?"
                yield image.asked(question, only[0].shape, "text", only, [name], words)


def _towers(image: _Image) -> Iterator[StrangerScene]:
    for side, up in _tower_of(image):
        question = f"How many blocks high is the {side} tower?"
        yield image.asked(question, str(len(up)), "numeric", up, ["block"], {"thing": "block", "side": side})


def _top_colours(image: _Image) -> Iterator[StrangerScene]:
    for side, up in _tower_of(image):
        question, colour = f"What colour is the topmost block of the {side} tower?", up[-1].colour
        yield image.asked(question, colour, "text", up, ["block"], {"thing": "block", "side": side, "colour": colour})


def _tower_of(image: _Image) -> Iterator[tuple[str, list[Thing]]]:
    """Yield each box that holds a tower, with its blocks from bottom to top."""
    for side in image.sides:
        here = image.at(side)
        if here and here[0].in_tower:
            yield side, sorted(here, key=lambda thing: -thing.y)


KINDS: dict[str, Callable[[_Image], Iterator[StrangerScene]]] = {
    "count": _counts,
    "count_zero": _counts,
    "count_one": _counts,
    "box_count": _box_counts,
    "exists_yes": _exists,
    "exists_no": _exists,
    "says_exactly_true": _says_exactly,
    "says_exactly_false": _says_exactly,
    "says_exactly_more": _says_exactly,
    "says_least_true": _says_least,
    "says_least_false": _says_least,
    "says_box": _says_box,
    "compare": _compares,
    "which_box": _which_box,
    "colour": _colours,
    "shape": _shapes,
    "tower": _towers,
    "top_colour": _top_colours,
}
