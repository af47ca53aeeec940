"""Varies a trace so that it stays right: the content is the same, in the words of another teacher."""

import random
from collections.abc import Callable
from dataclasses import replace

from faults.prose import noun_of
from faults.right import Plant, Right, box_of, in_words, number, tag, written, wrong_count
from groundtrace.schemas.geometry import Point

_LONG = (
    "I begin at the left edge of the image and work my way to the right, so that nothing is passed over. ",
    "The shapes are flat and have one colour each, which makes it easy to tell them apart. ",
    "Some of them stand close to each other, so I take care to keep them apart. ",
    "I look at the outlines as well, since a circle and a square differ there. ",
    "The grey areas are only the ground on which the shapes lie, and are of no interest here. ",
    "Having gone through the image once, I go through it again from the right to the left. ",
    "Nothing new turns up the second time. ",
    "I also look along the upper and the lower edge, where small shapes are easily missed. ",
)


def _each(rewrite: Callable[[Point], str]) -> Plant:
    """Return a plant that writes every point in another way."""
    return lambda right, _: right.write(tags=[rewrite(point) for point in right.points])


def _label(change: Callable[[str], str]) -> Plant:
    return _each(lambda point: tag(replace(point, label=change(point.label))))


def _shown(change: Callable[[str], str]) -> Plant:
    """Return a plant in which the words inside each tag differ from its alt."""
    return _each(lambda point: tag(point).replace(f">{point.label}<", f">{change(point.label)}<"))


def _after(form: str) -> Plant:
    """Return a plant that adds a right conclusion of a counting question after the reasoning."""

    def plant(right: Right, rng: random.Random) -> str | None:
        """Return the response with the conclusion; None for other questions."""
        wrong = wrong_count(right, rng)
        if right.count is None or wrong is None:
            return None
        stated = form.format(
            n=right.count,
            word=in_words(right.count),
            noun=noun_of(right, right.count),
            is_are="is" if right.count == 1 else "are",
            sum=" + ".join(["1"] * right.count),
            wrong=wrong,
        )
        return right.write(after=" " + stated)

    return plant


def _verdict(yes: str, no: str) -> Plant:
    """Return a plant that adds a right conclusion of a yes-or-no question after the reasoning."""

    def plant(right: Right, _rng: random.Random) -> str | None:
        stated = {"yes": yes, "no": no}.get(right.asked.answer)
        return None if stated is None else right.write(after=" " + stated)

    return plant


def _either(*plants: Plant) -> Plant:
    """Return a plant that uses one of these plants, drawn at random."""

    def plant(right: Right, rng: random.Random) -> str | None:
        texts = [text for text in (each(right, rng) for each in plants) if text is not None]
        return rng.choice(texts) if texts else None

    return plant


def _again(right: Right, rng: random.Random) -> str:
    return right.write(after=f" Among them is {tag(rng.choice(right.points))}.")


def _all_again(right: Right, _rng: random.Random) -> str:
    return right.write(after=f" Once more: {'; '.join(map(tag, right.points))}.")


def _in_words_again(right: Right, rng: random.Random) -> str:
    point = rng.choice(right.points)
    side = "left" if point.x < right.asked.width / 2 else "right"
    return right.write(after=f" The {point.label} on the {side} is one of those that I have pointed at.")


def _together(right: Right, _rng: random.Random) -> str | None:
    """Write one tag for all points of a label."""
    by_label: dict[str, list[Point]] = {}
    for point in right.points:
        by_label.setdefault(point.label, []).append(point)
    if len(by_label) == len(right.points):
        return None
    tags = []
    for label, points in by_label.items():
        named = {f"{axis}{n}": number(getattr(p, axis)) for n, p in enumerate(points, 1) for axis in "xy"}
        tags.append(written(label + ("s" if len(points) > 1 else ""), named))
    return right.write(tags=tags)


def _off_centre(right: Right, rng: random.Random) -> str:
    """Move each point, but keep it well inside the outline of any shape: a triangle is broad below its middle."""
    points = []
    for point in right.points:
        box = box_of(right, point)
        width, height = box.x2 - box.x1, box.y2 - box.y1
        x, y = (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2
        dx, dy = (0.2, rng.uniform(0.1, 0.25)) if "triangle" in point.label else (0.25, rng.uniform(-0.2, 0.2))
        points.append(replace(point, x=x + rng.choice((-1, 1)) * dx * width, y=y + dy * height))
    return right.write(points)


def _decimals(right: Right, rng: random.Random) -> str:
    tags = [
        written(p.label, {"x1": f"{p.x + rng.uniform(-0.4, 0.4):.3f}", "y1": f"{p.y + rng.uniform(-0.4, 0.4):.3f}"})
        for p in right.points
    ]
    return right.write(tags=tags)


def _markdown(right: Right, _rng: random.Random) -> str:
    listed = "\n".join(f"* {tag(point)}" for point in right.points)
    return right.write(tags=[], reason=f"I find these:\n\n{listed}\n\n**Looking closer**\n\n{right.reason}")


def _numbered(right: Right, _rng: random.Random) -> str:
    listed = "\n".join(f"{place}. {tag(point)}" for place, point in enumerate(right.points, 1))
    return right.write(tags=[], reason=f"I find:\n{listed}\n\n{right.reason}")


def _long(right: Right, rng: random.Random) -> str:
    return right.write(before="".join(rng.sample(_LONG, len(_LONG))), after=" " + "".join(rng.sample(_LONG, 4)).strip())


def _by_region(right: Right, _rng: random.Random) -> str | None:
    """Add the counts of the thirds of the image, and their sum."""
    if not right.count:
        return None
    third = right.asked.width / 3
    parts = [sum(i * third <= p.x < (i + 1) * third for p in right.points) for i in range(3)]
    stated = f"{parts[0]} in the left third, {parts[1]} in the middle and {parts[2]} in the right third"
    return right.write(after=f" That is {stated}, {right.count} in total.")


def _by_class(right: Right, _rng: random.Random) -> str | None:
    """Add the counts of the counted classes; a question about a colour or a shape has several."""
    labels = sorted({point.label for point in right.points})
    if not right.count or len(labels) < 2:
        return None
    counts = {label: sum(point.label == label for point in right.points) for label in labels}
    parts = [f"{n} {label}{'' if n == 1 else 's'}" for label, n in counts.items()]
    return right.write(after=f" There are {', '.join(parts[:-1])} and {parts[-1]}, which makes {right.count}.")


def _one_by_one(right: Right, _rng: random.Random) -> str:
    first, *others = (tag(point) for point in right.points)
    listed = "".join(f" There is another one: {other}." for other in others)
    return right.write(tags=[], reason=f"There is one here: {first}.{listed} {right.reason}")


def _running(right: Right, _rng: random.Random) -> str | None:
    """Write every point with the number of points so far."""
    if not right.count:
        return None
    listed = [f"{tag(point)}, that makes {number}." for number, point in enumerate(right.points, 1)]
    return right.write(tags=[], reason=f"{' '.join(listed)} {right.reason}")


def _half(right: Right, _rng: random.Random) -> str | None:
    """Add a true count of the left half, without the count of the right half."""
    if not right.count:
        return None
    left = sum(point.x < right.asked.width / 2 for point in right.points)
    if not 0 < left < right.count:
        return None
    stated = f"{in_words(left)} of them {'is' if left == 1 else 'are'} in the left half of the image"
    return right.write(before=f"I see that {stated}, and go on. ")


def _out_of_all(right: Right, _rng: random.Random) -> str | None:
    if not right.count:
        return None
    every = len(right.asked.objects)
    return right.write(
        after=f" Of {every} objects in the image, {right.count} {'is' if right.count == 1 else 'are'} meant."
    )


def _others(right: Right, rng: random.Random) -> str | None:
    """Add a true count of a class that the question does not ask for."""
    others = [label for label in right.asked.labels if label not in {point.label for point in right.points}]
    if not right.count or not others:
        return None
    label = rng.choice(others)
    n = sum(box.label == label for box in right.asked.objects)
    stated = (
        f"There {'is' if n == 1 else 'are'} also {n} {label}{'' if n == 1 else 's'}, which {'is' if n == 1 else 'are'}"
    )
    return right.write(after=f" {stated} not asked for.")


def _further(right: Right, rng: random.Random) -> str | None:
    """Add a point on an uncounted object, under its own name: a true point on another thing is not a fault."""
    others = [box for box in right.asked.objects if box not in (right.asked.counted or ())]
    if not right.count or not others:
        return None
    box = rng.choice(others)
    x, y = (box.x1 + box.x2) / 2, box.y1 + 0.6 * (box.y2 - box.y1)
    return right.write([*right.points, Point(box.label, x, y)])


def _corrected(right: Right, rng: random.Random) -> str | None:
    """Add a wrong thought, and take it back explicitly before the right one."""
    wrong = wrong_count(right, rng)
    if wrong is None:
        return None
    before = f"At first glance there are {wrong}. Wait, let me look again, one by one. "
    return right.write(before=before, after=f" So there are {right.count}, not {wrong}.")


def _corrected_verdict(right: Right, _rng: random.Random) -> str | None:
    wrong = {"yes": "false", "no": "true"}.get(right.asked.answer)
    if wrong is None:
        return None
    return right.write(before=f"At first the statement looks {wrong}. Wait, let me check that again. ")


def _shuffled(right: Right, rng: random.Random) -> str | None:
    points = rng.sample(right.points, len(right.points))
    return right.write(points) if points != list(right.points) else None


KINDS: dict[str, Plant] = {
    "a point mentioned again": _again,
    "all points mentioned again": _all_again,
    "an object mentioned again in words": _in_words_again,
    "plural label": _label(lambda label: label + "s"),
    "label with its article": _label(lambda label: "the " + label),
    "label with an indefinite article": _label(lambda label: ("an " if label[0] in "aeiou" else "a ") + label),
    "label in capitals": _label(str.upper),
    "label with a capital": _label(str.capitalize),
    "other words in the tag": _shown(lambda label: f"this {label}"),
    "alt only": _shown(lambda _: ""),
    "single-point tags": _each(
        lambda p: f'<point x="{number(p.x)}" y="{number(p.y)}" alt="{p.label}">{p.label}</point>'
    ),
    "tags that close themselves": _each(lambda p: tag(p).split(">")[0] + " />"),
    "single quotes": _each(lambda p: tag(p).replace('"', "'")),
    "several points in a tag": _together,
    "another order": _shuffled,
    "off-centre": _off_centre,
    "decimals": _decimals,
    "whole pixels": _each(lambda p: tag(replace(p, x=float(int(p.x)), y=float(int(p.y))))),
    "long prose": _long,
    "markdown and blank lines": _markdown,
    "numbered list": _numbered,
    "blanks around everything": lambda right, _: (
        f"\n\n<think>\n\n{right.thought()}\n\n</think>\n\n\n<answer>\n{right.asked.answer}\n</answer>\n\n"
    ),
    "conclusion: so there are N": _after("So there {is_are} {n} {noun}."),
    "conclusion: in total": _after("In total that makes {n}."),
    "conclusion: the answer": _either(
        _after("The answer is {n}."), _verdict("So the answer is yes.", "So the answer is no.")
    ),
    "conclusion: spelled out": _after("I count {word} {noun}."),
    "conclusion: a sum": _after("{sum} = {n}."),
    "conclusion: the statement": _verdict("It is therefore true.", "It is therefore not true."),
    "conclusion: negated": _verdict("It is not false, it is true.", "It is not true, it is false."),
    "another number ruled out": _after("There are not {wrong} {noun}, there {is_are} {n}."),
    "another number supposed": _after("Had there been {wrong}, the answer would have been {wrong}."),
    "counts of parts with their sum": _by_region,
    "counts of classes with their sum": _by_class,
    "count of another class": _others,
    "a further object that was not asked for": _further,
    "counted one by one": _one_by_one,
    "running count": _running,
    "a count of half of them": _half,
    "out of all objects": _out_of_all,
    "no others": lambda right, _: right.write(after=" There are no others, and none of the rest matters."),
    "ordinals": lambda right, _: right.write(before="First I look for shapes, second at their colours. "),
    "numbers of other things": lambda right, _: right.write(
        after=f" The image is {right.asked.width} pixels wide and has two sides, left and right."
    ),
    "the question repeated": lambda right, _: right.write(before=f"The question is: {right.asked.question} "),
    "a verdict supposed": _verdict(
        "If it did not hold, the answer would be no.", "If it held, the answer would be yes."
    ),
    "a verdict ruled out": _verdict(
        "One might think that the statement is false, but it is true.",
        "One might think that the statement is true, but it is false.",
    ),
    "self-correction of a count": _corrected,
    "self-correction of a verdict": _corrected_verdict,
}
