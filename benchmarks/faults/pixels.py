"""Plants pixel faults: form and answer are right, but some points are in wrong places.

Whatever a rule here makes is planted only where the gold boxes say that the points are wrong.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from faults.right import Plant, Right, box_of, moved
from groundtrace.schemas.geometry import Box, Point

Points = Sequence[Point]
Move = Callable[[Right, random.Random], Points | None]
_TRIES = 60
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))
COLOURS = ("purple", "green", "orange", "pink", "brown")
SHAPES = ("hexagon", "pentagon", "diamond", "star")


def _wrong(move: Move) -> Plant:
    """Return a plant that uses the points of a move, if the gold boxes say that they are wrong."""

    def plant(right: Right, rng: random.Random) -> str | None:
        for _ in range(_TRIES):
            points = move(right, rng)
            if points is None:
                return None
            if points and not right.asked.are_right(points):
                return right.write(points)
        return None

    return plant


def _every(change: Callable[[Right, Point], tuple[float, float]]) -> Plant:
    """Return a plant that moves every point by a rule; each of them must then be off its object."""

    def move(right: Right, _rng: random.Random) -> Points | None:
        places = [change(right, point) for point in right.points]
        points = [replace(p, x=round(x, 3), y=round(y, 3)) for p, (x, y) in zip(right.points, places, strict=True)]
        return None if any(right.asked.is_on(point) for point in points) else points

    return _wrong(move)


def _one(place: Callable[[Right, Point, random.Random], tuple[float, float] | None]) -> Plant:
    """Return a plant that moves one point off all objects of its label."""

    def move(right: Right, rng: random.Random) -> Points | None:
        """Return the points with one moved; None if no place was found."""
        number = rng.randrange(len(right.points))
        for _ in range(_TRIES):
            at = place(right, right.points[number], rng)
            if at is None:
                return None
            points = moved(right, number, *at)
            if not right.asked.is_on(points[number]):
                return points
        return None

    return _wrong(move)


def _inside_image(right: Right, x: float, y: float) -> tuple[float, float] | None:
    return (x, y) if 0 <= x < right.asked.width and 0 <= y < right.asked.height else None


def _widths_off(right: Right, point: Point, rng: random.Random) -> tuple[float, float] | None:
    box = box_of(right, point)
    sides = [(dx, dy) for dx, dy in _SIDES]
    rng.shuffle(sides)
    for dx, dy in sides:
        far = rng.uniform(1.0, 2.0)
        at = _inside_image(right, point.x + dx * far * (box.x2 - box.x1), point.y + dy * far * (box.y2 - box.y1))
        if at is not None and not right.asked.is_on(replace(point, x=at[0], y=at[1])):
            return at
    return None


def _just_outside(right: Right, point: Point, rng: random.Random) -> tuple[float, float] | None:
    """Return a place three pixels outside of the outline, which is too far for a rounding error."""
    box = box_of(right, point)
    options = [(box.x1 - 3, point.y), (box.x2 + 3, point.y), (point.x, box.y1 - 3), (point.x, box.y2 + 3)]
    rng.shuffle(options)
    for x, y in options:
        if _inside_image(right, x, y) and not right.asked.is_on(replace(point, x=x, y=y)):
            return x, y
    return None


def _background(right: Right, _point: Point, rng: random.Random) -> tuple[float, float] | None:
    for _ in range(_TRIES):
        x, y = rng.uniform(4, right.asked.width - 4), rng.uniform(4, right.asked.height - 4)
        if not any(b.x1 - 4 <= x < b.x2 + 4 and b.y1 - 4 <= y < b.y2 + 4 for b in right.asked.objects):
            return x, y
    return None


def _centre(box: Box) -> tuple[float, float]:
    """Return a place on the object that is right for any shape: slightly below the middle of its box."""
    return (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2 + (box.y2 - box.y1) / 10


def _other_class(right: Right, point: Point, rng: random.Random) -> tuple[float, float] | None:
    others = [box for box in right.asked.objects if box.label != point.label]
    return _centre(rng.choice(others)) if others else None


def _lost(kept: int | None = None) -> Plant:
    """Return a plant in which counted objects have no point: one object, or all but ``kept``."""

    def move(right: Right, rng: random.Random) -> Points | None:
        if not right.count or right.count < (2 if kept is None else 3):
            return None
        return sorted(rng.sample(right.points, len(right.points) - 1 if kept is None else kept), key=lambda p: p.x)

    return _wrong(move)


def _doubled(place: Callable[[Right, Point], tuple[float, float]], others: int = 1) -> Plant:
    """Return a plant in which one object also has the points of others: the number of points is right, but objects are
    missing.
    """

    def move(right: Right, rng: random.Random) -> Points | None:
        """Return the points with some moved to one object; None for other questions and for too few objects."""
        if not right.count or right.count <= others:
            return None
        kept, *lost = rng.sample(range(len(right.points)), others + 1)
        points = list(right.points)
        for number in lost:
            x, y = place(right, points[kept])
            points[number] = replace(points[kept], x=x, y=y)
        return points

    return _wrong(move)


def _across(right: Right, point: Point) -> tuple[float, float]:
    """Return another place on the same object."""
    box = box_of(right, point)
    return point.x + (box.x2 - box.x1) * 0.2, point.y + (box.y2 - box.y1) * 0.15


def _jittered(right: Right, rng: random.Random) -> Points | None:
    """Return nine points at different places on one object, and one bad point, which they outvote."""
    bad = _background(right, right.points[0], rng)
    if bad is None:
        return None
    good = right.points[0]
    copies = [replace(good, x=good.x + dx / 2, y=good.y + dy / 2) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    return [*copies, *right.points[1:], Point(good.label, *bad)]


def _repeated(right: Right, rng: random.Random) -> Points | None:
    """Return the same point nine times, and a bad point."""
    bad = _background(right, right.points[0], rng)
    return None if bad is None else [*[right.points[0]] * 9, *right.points[1:], Point(right.points[0].label, *bad)]


def _extra(place: Callable[[Right, Point, random.Random], tuple[float, float] | None]) -> Plant:
    """Return a plant that adds a wrong point under a label that the response uses rightly elsewhere."""

    def move(right: Right, rng: random.Random) -> Points | None:
        like = rng.choice(right.points)
        at = place(right, like, rng)
        extra = None if at is None else Point(like.label, *at)
        return None if extra is None or right.asked.is_on(extra) else [*right.points, extra]

    return _wrong(move)


def _all_at_one(right: Right, rng: random.Random) -> Points | None:
    at = _background(right, right.points[0], rng)
    return None if at is None else [replace(point, x=at[0], y=at[1]) for point in right.points]


def _invented(on_object: bool) -> Plant:
    """Return a plant that adds a point with the label of a class that is not in the image."""

    def move(right: Right, rng: random.Random) -> Points | None:
        label = f"{rng.choice(COLOURS)} {rng.choice(SHAPES)}"
        objects = right.asked.objects
        at = _centre(rng.choice(objects)) if on_object else _background(right, right.points[0], rng)
        return None if at is None else [*right.points, Point(label, *at)]

    return _wrong(move)


def _besides(only_one: bool) -> Plant:
    """Return a plant with points on their objects, but on objects that the question is not about."""

    def move(right: Right, rng: random.Random) -> Points | None:
        """Return points on other objects; None if there are too few, or the question's words could mean any object."""
        asked = right.asked.question.lower()
        vague = ("object", "item", "block", "shape", "thing", "figure", "tower", "box")
        if right.asked.counted is None and any(word in asked for word in vague):
            return None
        counted = right.asked.counted or ()
        others = [b for b in right.asked.objects if not any(word in asked for word in b.label.split())]
        if right.asked.counted is not None:
            others = [b for b in right.asked.objects if b not in counted and b.label not in {c.label for c in counted}]
        wanted = 1 if only_one else max(1, len(right.points))
        if len(others) < wanted:
            return None
        return [Point(box.label, *_centre(box)) for box in rng.sample(others, wanted)]

    def plant(right: Right, rng: random.Random) -> str | None:
        points = move(right, rng)
        return None if points is None else right.write(points)

    return plant


def _no_points(right: Right, _rng: random.Random) -> str | None:
    return right.write(tags=[point.label for point in right.points]) if right.count != 0 else None


def _swapped_pair(right: Right, rng: random.Random) -> Points | None:
    labels = sorted({point.label for point in right.points})
    if len(labels) < 2:
        return None
    one, other = (rng.choice([p for p in right.points if p.label == name]) for name in rng.sample(labels, 2))
    labelled = {one: replace(one, label=other.label), other: replace(other, label=one.label)}
    return [labelled.get(point, point) for point in right.points]


def _w(right: Right) -> float:
    return float(right.asked.width)


def _h(right: Right) -> float:
    return float(right.asked.height)


KINDS: dict[str, Plant] = {
    "one to two widths off": _one(_widths_off),
    "just outside the object": _one(_just_outside),
    "on an object of another class": _one(_other_class),
    "on the background": _one(_background),
    "out of the image, to the right": _one(lambda r, p, g: (_w(r) + g.uniform(10, 90), p.y)),
    "out of the image, below": _one(lambda r, p, g: (p.x, _h(r) + g.uniform(10, 90))),
    "one negative": _one(lambda _, p, __: (-p.x - 5, p.y)),
    "one huge": _one(lambda _, p, g: (p.x * 10 ** g.randint(3, 6), p.y * 1000)),
    "one at the origin": _one(lambda *_: (0.0, 0.0)),
    "x and y swapped in one": _one(lambda _, p, __: (p.y, p.x)),
    "x and y swapped in all": _every(lambda _, p: (p.y, p.x)),
    "mirrored left to right": _every(lambda r, p: (_w(r) - p.x, p.y)),
    "mirrored top to bottom": _every(lambda r, p: (p.x, _h(r) - p.y)),
    "scaled to 0-1": _every(lambda r, p: (p.x / _w(r), p.y / _h(r))),
    "scaled to 0-100": _every(lambda r, p: (100 * p.x / _w(r), 100 * p.y / _h(r))),
    "scaled to 0-1000": _every(lambda r, p: (1000 * p.x / _w(r), 1000 * p.y / _h(r))),
    "pixels of half the image": _every(lambda _, p: (p.x / 2, p.y / 2)),
    "all off by one step": _every(lambda _, p: (p.x + 31, p.y - 17)),
    "all negative": _every(lambda _, p: (-p.x, -p.y)),
    "all in the middle of the image": _every(lambda r, _: (_w(r) / 2, _h(r) / 2)),
    "all at one place on the background": _wrong(_all_at_one),
    "all random": _wrong(lambda r, g: [replace(p, x=g.uniform(0, _w(r)), y=g.uniform(0, _h(r))) for p in r.points]),
    "jittered copies outvote a bad one": _wrong(_jittered),
    "repeats outvote a bad one": _wrong(_repeated),
    "an object counted has no point": _lost(),
    "only one of several has a point": _lost(kept=1),
    "an object twice in place of another": _doubled(lambda _, p: (p.x + 1, p.y)),
    "an object twice, at another place on it": _doubled(_across),
    "the same point twice in place of another": _doubled(lambda _, p: (p.x, p.y)),
    "one object in place of three": _doubled(lambda _, p: (p.x, p.y), others=2),
    "a further point on nothing": _extra(_background),
    "a further point on another class": _extra(_other_class),
    "a hallucinated object on nothing": _invented(on_object=False),
    "a hallucinated object on another": _invented(on_object=True),
    "labels swapped": _wrong(_swapped_pair),
    "only objects not spoken of": _besides(only_one=False),
    "one object not spoken of": _besides(only_one=True),
    "no points at all": _no_points,
}
