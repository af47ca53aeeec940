"""Makes questions about images of coloured shapes with known boxes, and the texts that fill the {slots} of wordings."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
BOXES = (("left box", 0, 100), ("middle box", 150, 250), ("right box", 300, 400))
MIN_MARGIN_PX = 5.0


@dataclass(frozen=True)
class DrawnShape:
    """A shape: its name ("blue square") and the corners of its box in pixels."""

    name: str
    box_px: tuple[float, float, float, float]

    @property
    def at_px(self) -> tuple[float, float]:
        """The centre of the shape's box, in pixels."""
        left, top, right, bottom = self.box_px
        return round((left + right) / 2, 1), round((top + bottom) / 2, 1)


@dataclass(frozen=True)
class WordedQuestion:
    """A question with its gold answer, the things that it names, and the texts for the slots of the wordings."""

    family: str
    image: Path
    question: str
    answer: str
    answer_type: str
    entities: tuple[str, ...]
    slots: dict[str, str] = field(hash=False)
    shapes: tuple[DrawnShape, ...] = ()

    def trace(self, wording: str) -> str:
        """Return the response in this wording. Raises KeyError if the question has no text for one of its slots."""
        return f"<think>{wording.format_map(self.slots)}</think><answer>{self.answer}</answer>"


def plural(thing: str, number: int = 2) -> str:
    """Return the thing's name in the form that follows the number."""
    return thing if number == 1 else f"{thing}s"


def tag(shapes: Sequence[DrawnShape], label: str) -> str:
    """Return one points tag with the centres of the shapes."""
    places = " ".join(f'x{i}="{shape.at_px[0]}" y{i}="{shape.at_px[1]}"' for i, shape in enumerate(shapes, 1))
    return f'<points {places} alt="{label}">{label}</points>'


def listed(parts: Sequence[str]) -> str:
    """Return the parts as a list in a sentence."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def scenes(sample: Path) -> dict[str, tuple[DrawnShape, ...]]:
    """Return the shapes of each image whose shapes are all known, from the records of statements."""
    found = {}
    for record in _records(sample):
        if record["id"].endswith("-s"):
            found[record["media"][0]] = _shapes(record)
    return found


def posed(sample: Path, rng: random.Random) -> dict[str, list[WordedQuestion]]:
    """Return the questions of each family, in the order of the sample; ``rng`` draws the texts of their slots."""
    families: dict[str, list[WordedQuestion]] = {}
    for record in _records(sample):
        asked = _statement(sample, record, rng) if record["answer_type"] == "bool" else _count(sample, record, rng)
        families.setdefault(asked.family, []).append(asked)
    for image, shapes in scenes(sample).items():
        for asked in _made(sample / image, shapes, rng):
            families.setdefault(asked.family, []).append(asked)
    return families


def _records(sample: Path) -> list[dict]:
    return [json.loads(line) for line in (sample / "records.jsonl").read_text("utf-8").splitlines()]


def _shapes(record: dict) -> tuple[DrawnShape, ...]:
    shapes = []
    for box in record["boxes"] or ():
        left, top, right, bottom = map(float, box["bbox"])
        shapes.append(DrawnShape(box["label"], (left, top, right, bottom)))
    return tuple(sorted(shapes, key=lambda shape: (shape.at_px[0], shape.at_px[1])))


def _count(sample: Path, record: dict, rng: random.Random) -> WordedQuestion:
    shapes = _shapes(record)
    thing = re.findall(r"How many (.*)s are", record["question"])[0]
    slots = {"all_n": str(len(shapes) + rng.randint(2, 5)), **_slots(shapes, thing, rng)}
    known = scenes(sample).get(record["media"][0])
    if known:
        slots |= {"all_n": str(len(known)), "rest": str(len(known) - len(shapes))}
    else:
        del slots["all_n"]
    family = "count" if shapes else "count of none"
    image = sample / record["media"][0]
    return WordedQuestion(family, image, record["question"], record["answer"], "numeric", (thing,), slots, shapes)


def _statement(sample: Path, record: dict, rng: random.Random) -> WordedQuestion:
    statement, shapes = record["question"].split('"')[1], _shapes(record)
    colours = [colour for colour in ("black", "blue", "yellow") if colour in statement.lower()]
    named = [shape for shape in shapes if not colours or shape.name.split()[0] in colours] or list(shapes)
    things = tuple(dict.fromkeys(shape.name for shape in named))
    slots = {"each": _each(named, things[0], rng, specific=True)}
    family = f"statement {record['answer']}"
    image = sample / record["media"][0]
    return WordedQuestion(family, image, record["question"], record["answer"], "bool", things, slots, tuple(named))


def _made(image: Path, shapes: Sequence[DrawnShape], rng: random.Random) -> Iterator[WordedQuestion]:
    names = [
        f"{colour} {shape}" for colour in ("black", "blue", "yellow") for shape in ("square", "circle", "triangle")
    ]
    groups = {name: [shape for shape in shapes if shape.name == name] for name in names}
    there = [name for name in names if groups[name]]
    for name in names:
        slots = _slots(groups[name], name, rng) | {"others": _each(shapes, name, rng, specific=True)}
        answer = "yes" if groups[name] else "no"
        question = f"Is there {'an' if name[0] in 'aeio' else 'a'} {name} in the image? Answer yes or no."
        seen = (name,) if groups[name] else ()
        yield WordedQuestion(f"exists {answer}", image, question, answer, "bool", seen, slots, tuple(groups[name]))
    for name in there:
        number = len(groups[name])
        for claimed, answer in ((number, "yes"), (number + rng.choice((1, 2)), "no")):
            slots = _slots(groups[name], name, rng) | {"claimed": str(claimed)}
            verb, many = "is" if claimed == 1 else "are", WORDS[claimed]
            statement = f"There {verb} exactly {many} {plural(name, claimed)}."
            question = f'Is the following statement about the image true? "{statement}" Answer yes or no.'
            yield WordedQuestion(
                f"exactly {answer}", image, question, answer, "bool", (name,), slots, tuple(groups[name])
            )
    for a in there:
        for b in there:
            if a != b:
                yield from _compared(image, a, b, groups, rng)
    yield from _edges(image, shapes)


def _compared(
    image: Path, a: str, b: str, groups: dict[str, list[DrawnShape]], rng: random.Random
) -> Iterator[WordedQuestion]:
    first, second = groups[a], groups[b]
    slots = {f"a_{name}": value for name, value in _slots(first, a, rng).items()}
    slots |= {f"b_{name}": value for name, value in _slots(second, b, rng).items()}
    slots |= {"a_pl": plural(a), "b_pl": plural(b)}
    answer = "yes" if len(first) > len(second) else "no"
    both = (*first, *second)
    question = f"Are there more {plural(a)} than {plural(b)} in the image? Answer yes or no."
    yield WordedQuestion(f"more {answer}", image, question, answer, "bool", (a, b), slots, both)
    if len(first) != len(second):
        more = plural(a if len(first) > len(second) else b)
        question = f"Are there more {plural(a)} or more {plural(b)} in the image?"
        yield WordedQuestion("which", image, question, more, "text", (a, b), slots | {"more": more}, both)


def _edges(image: Path, shapes: Sequence[DrawnShape]) -> Iterator[WordedQuestion]:
    for edge, side, axis, sign in (("leftmost", "far left", 0, 1), ("rightmost", "far right", 0, -1)):
        inwards = sorted(shapes, key=lambda shape: sign * shape.at_px[axis])
        if len(inwards) > 1 and abs(inwards[0].at_px[axis] - inwards[1].at_px[axis]) >= MIN_MARGIN_PX:
            shape = inwards[0]
            colour = shape.name.split()[0]
            slots = {"first": tag([shape], shape.name), "edge": edge, "side": side, "colour": colour}
            question = f"What is the color of the {edge} object in the image?"
            yield WordedQuestion("colour", image, question, colour, "text", (f"{edge} object",), slots, (shape,))


def _each(shapes: Sequence[DrawnShape], thing: str, rng: random.Random, specific: bool = False) -> str:
    own = specific or rng.random() < 0.5
    return listed([tag([shape], shape.name if own else thing) for shape in shapes])


def _slots(shapes: Sequence[DrawnShape], thing: str, rng: random.Random) -> dict[str, str]:
    n = len(shapes)
    slots = {"n": str(n), "word": WORDS[n], "Word": WORDS[n].capitalize(), "thing": thing, "things_pl": plural(thing)}
    slots |= {"things": plural(thing, n), "are": "is" if n == 1 else "are"}
    if not n:
        return slots
    wrong = rng.choice([number for number in (n - 1, n + 1, n + 2) if number > 1])
    own = rng.random() < 0.5
    tags = [tag([shape], shape.name if own else thing) for shape in shapes]
    slots |= {"each": listed(tags), "first": tags[0], "one": tag(shapes, plural(thing, n))}
    slots |= {"wrong": str(wrong), "wrong_word": WORDS[wrong], "Wrong_word": WORDS[wrong].capitalize()}
    slots |= {"wrong_things": plural(thing, wrong), "low": str(max(n - 1, 0)), "high": str(n + 2)}
    slots |= {"numbered": "\n".join(f"{i}. {each}" for i, each in enumerate(tags, 1))}
    slots |= {"dashed": "\n".join(f"{i} - {each}" for i, each in enumerate(tags, 1))}
    slots |= {"words_first": " ".join(f"{WORDS[i].capitalize()}: {each}." for i, each in enumerate(tags, 1))}
    starts = ["First I notice"] + ["Then there is"] * (n - 1)
    slots |= {"story": " ".join(f"{start} {each}." for start, each in zip(starts, tags, strict=True))}
    counted = [f"{each} {'is one' if i == 1 else f'makes {WORDS[i]}'}" for i, each in enumerate(tags, 1)]
    slots |= {"running": f"{', '.join(counted)}."} | _by_box(shapes, tags)
    slots |= {"loop_count": f"So there {slots['are']} {n}. " * 20, "loop_again": "I count again. " * 25}
    slots |= {"loop_word": "the " * 60, "loop_each": f"{listed(tags)}. " + f"{thing}, " * 40}
    slots |= {
        "loop_check": "Let me check once more. Yes. " * 15,
        "loop_sentence": "I look at the image and I see. " * 12,
    }
    return slots


def _by_box(shapes: Sequence[DrawnShape], tags: Sequence[str]) -> dict[str, str]:
    parts, numbers = [], []
    for name, left, right in BOXES:
        inside = [each for shape, each in zip(shapes, tags, strict=True) if left <= shape.at_px[0] <= right]
        parts.append(f"{name}: {listed(inside) if inside else 'none'}")
        numbers.append(str(len(inside)))
    return {"by_box": "; ".join(parts), "sum": " + ".join(numbers)}
