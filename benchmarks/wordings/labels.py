"""Makes names of shapes of many kinds: true names for all shapes of a question, or a false name for one shape."""

from collections.abc import Iterator, Sequence

from wordings.scenes import BOXES, MIN_MARGIN_PX, WORDS, DrawnShape, WordedQuestion, listed, plural, tag

EDGES = (
    (0, 1, ("leftmost {}", "{} on the far left", "left-most {}")),
    (0, -1, ("rightmost {}", "{} farthest to the right")),
    (1, 1, ("topmost {}", "highest {}", "uppermost {}")),
    (1, -1, ("lowest {}", "bottommost {}")),
)
FALSE_EDGES = (
    (0, 1, ("leftmost {}", "{} closest to the left edge", "first {} from the left", "{} (leftmost)")),
    (0, -1, ("rightmost {}", "{} on the far right")),
    (1, 1, ("topmost {}", "{} at the very top")),
    (1, -1, ("lowest {}",)),
)
FALSE_COLOURS = (
    *("{colour} {shape}", "{shape} ({colour})", "another {colour} {shape}", "{colour} {shape} next to the {true}"),
    *("isolated {colour} {shape}", "{colour} one", "two {colour} {shape}s", "{true} that is {colour}", "teal {shape}"),
)
FALSE_SHAPES = (
    *("{colour} {shape}", "{shape}", "{colour} {shape} near the {true}", "{colour} hexagon", "{colour} dog"),
    *("top {colour} {shape} of the tower", "edge of the {true}", "not a {true}", "star-shaped {colour} object"),
)
SIZES = {10.0: ("small {}", "tiny {}"), 20.0: ("medium {}", "medium-sized {}"), 30.0: ("large {}", "big {}")}
PLAIN = {
    "unknown words": ("yet another {}", "detected {}", "also a {}", "pure {}", "{} entity", "{} as well"),
    "selection": ("isolated {}", "the only {}", "{} I counted", "{} (match)", "an additional {}", "1. {}"),
    "relation": ("{} next to another shape", "{} in the box", "{} that touches something", "{} near the edge"),
    "article": ("the {}", "a {}", "this {}"),
    "ordinal": ("first {}", "1st {}", "{} 1", "{} #1", "{} no. 1", "{} (1)"),
    "other": ("another {}", "one {}", "single {}", "one of the {}s"),
    "case and quotes": ("{Title}", "{UPPER}", "'{}'", "{}."),
    "part": ("top {} of its tower", "{} at the base of the stack", "{} in its corner", "{} resting on the floor"),
    "in the image": ("{} in the image", "visible {}", "{} here"),
}


def labelled(posed: WordedQuestion) -> Iterator[tuple[str, str, str]]:
    """Yield (kind of label, its form, reasoning) for a count of coloured shapes: the shapes have true names."""
    thing, shapes = posed.entities[0], posed.shapes
    colour, _, shape_name = thing.partition(" ")
    many = len(shapes)
    if not many or shape_name in ("", "object") or many > 7:
        return
    for kind, forms in PLAIN.items():
        for form in forms:
            label = form.replace("{Title}", thing.title()).replace("{UPPER}", thing.upper()).format(thing)
            if not (many > 1 and form == "single {}"):
                yield kind, form, _found(shapes, {0: label}, thing)
    yield from _placed(shapes, thing)
    for kind, label in _other_nouns(colour, shape_name):
        yield kind, label.replace(colour, "blue"), _found(shapes, dict.fromkeys(range(many), label), thing)
    if many > 1:
        for form in ("{word} {}s", "{n} {}s", "the {word} {}s", "all {}s"):
            label = form.format(thing, word=WORDS[many], n=many)
            yield "number and plural", form, f"I find {tag(shapes, label)}. So there are {many}."
        yield "plural", "{}s", f"I find {tag(shapes, plural(thing))}. So there are {many}."
        yield "plural", "the {}s", f"I find {tag(shapes, f'the {thing}s')}. So there are {many}."
        numbered = {i: f"{thing} {i + 1}" for i in range(many)}
        yield "ordinal", "{} 1, {} 2", _found(shapes, numbered, thing)
        ordinals = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
        yield (
            "ordinal",
            "first {}, second {}",
            _found(shapes, {i: f"{ordinals[i]} {thing}" for i in range(many)}, thing),
        )


def mislabelled(posed: WordedQuestion) -> Iterator[tuple[str, str, str]]:
    """Yield (kind of fault, its form, reasoning) for a count of coloured shapes: one shape has a false name."""
    thing, shapes = posed.entities[0], posed.shapes
    colour, _, shape_name = thing.partition(" ")
    if not shapes or shape_name in ("", "object") or len(shapes) > 7:
        return
    other = "yellow" if colour == "black" else "black"
    kind = "circle" if shape_name != "circle" else "triangle"
    for form in FALSE_COLOURS:
        label = form.format(colour=other, shape=shape_name, true=thing)
        yield "another colour", form, _found(shapes, {0: label}, thing)
    for form in FALSE_SHAPES:
        yield "another shape", form, _found(shapes, {0: form.format(colour=colour, shape=kind, true=thing)}, thing)
    for axis, sign, forms in FALSE_EDGES:
        order = sorted(range(len(shapes)), key=lambda i: sign * shapes[i].at_px[axis])
        if len(order) > 1 and abs(shapes[order[0]].at_px[axis] - shapes[order[-1]].at_px[axis]) >= MIN_MARGIN_PX:
            for form in forms:
                yield "another place", form, _found(shapes, {order[-1]: form.format(thing)}, thing)
    at = [shape.at_px[0] for shape in shapes]
    wrong = next(name for name, left, right in BOXES if not left <= at[0] <= right)
    for form in ("{} in the {}", "{} ({})", "{}, {}", "another {} contained in the {}"):
        yield "another box", form, _found(shapes, {0: form.format(thing, wrong)}, thing)


def _placed(shapes: Sequence[DrawnShape], thing: str) -> Iterator[tuple[str, str, str]]:
    for axis, sign, forms in EDGES:
        order = sorted(range(len(shapes)), key=lambda i: sign * shapes[i].at_px[axis])
        if len(order) > 1 and abs(shapes[order[0]].at_px[axis] - shapes[order[1]].at_px[axis]) >= MIN_MARGIN_PX:
            for form in forms:
                yield "leftmost, topmost", form, _found(shapes, {order[0]: form.format(thing)}, thing)
    inside = {i: _box(shape) for i, shape in enumerate(shapes)}
    for form in ("{} in the {}", "{} of the {}", "{} inside the {}"):
        yield "in the left box", form, _found(shapes, {i: form.format(thing, box) for i, box in inside.items()}, thing)
    sizes = [round(shape.box_px[2] - shape.box_px[0], -1) for shape in shapes]
    for number in (0, 1):
        names = {i: SIZES[size][number].format(thing) for i, size in enumerate(sizes) if size in SIZES}
        yield "size", str(number), _found(shapes, names, thing)


def _box(shape: DrawnShape) -> str:
    return next(name for name, left, right in BOXES if left <= shape.at_px[0] <= right)


def _other_nouns(colour: str, shape_name: str) -> Iterator[tuple[str, str]]:
    yield "X shape", f"{colour} shape"
    yield "X shape", f"{colour} {shape_name} shape"
    yield "X object", f"{colour} object"
    yield "X object", f"{colour} item"
    yield "X object", f"{colour} figure"
    yield "colour behind", f"{shape_name} ({colour})"
    yield "colour behind", f"{colour}-colored {shape_name}"
    yield "colour behind", f"{shape_name} that is {colour}"
    if shape_name == "square":
        for noun in ("block", "tile", "box"):
            yield f"X {noun}", f"{colour} {noun}"
        yield "X block", f"{colour} square block"
    if shape_name == "circle":
        for noun in ("dot", "disc", "ball"):
            yield f"X {noun}", f"{colour} {noun}"


def _found(shapes: Sequence[DrawnShape], labels: dict[int, str], thing: str) -> str:
    tags = [tag([shape], labels.get(i, thing)) for i, shape in enumerate(shapes)]
    return f"I find {listed(tags)}. So there {'is' if len(shapes) == 1 else 'are'} {len(shapes)}."
