"""Plants faults of form: points and answer are right as far as they can be read, but the response has a wrong form."""

import json
import random
from collections.abc import Callable, Sequence

from faults.right import Plant, Right, box_of, number, opposite, tag, written, wrong_count
from groundtrace.schemas.geometry import Point

Rewrite = Callable[[Point], str]


def _wrong(right: Right, rng: random.Random) -> str:
    count = wrong_count(right, rng)
    return str(count) if count is not None else opposite(right.asked.answer) or "none of it"


def _text(form: Callable[[Right, str], str]) -> Plant:
    """Return a plant that writes the whole response with a function of the trace and a wrong answer."""
    return lambda right, rng: form(right, _wrong(right, rng))


def _one_tag(rewrite: Rewrite) -> Plant:
    """Return a plant that writes one point in another way."""

    def plant(right: Right, rng: random.Random) -> str | None:
        tags = [tag(point) for point in right.points]
        chosen = rng.randrange(len(tags))
        tags[chosen] = rewrite(right.points[chosen])
        return right.write(tags=tags)

    return plant


def _all_tags(rewrite: Rewrite) -> Plant:
    """Return a plant that writes every point in another way."""
    return lambda right, _: right.write(tags=[rewrite(point) for point in right.points])


def _words(right: Right) -> list[str]:
    return [point.label for point in right.points]


def _tags(points: Sequence[Point]) -> str:
    return ", ".join(map(tag, points))


def _xy(point: Point) -> tuple[str, str]:
    return number(point.x), number(point.y)


def _with(**attributes: str) -> Rewrite:
    """Return a function that writes a point as a tag with these attributes; X and Y are replaced by its coordinates."""

    def rewrite(point: Point) -> str:
        values = {"X": number(point.x), "Y": number(point.y)}
        filled = {name: value.replace("X", values["X"]).replace("Y", values["Y"]) for name, value in attributes.items()}
        return written(point.label, filled)

    return rewrite


def _as_json(right: Right, _rng: random.Random) -> str:
    listed = [{"point_2d": [round(point.x), round(point.y)], "label": point.label} for point in right.points]
    return right.write(tags=[f"```json\n{json.dumps(listed)}\n```"])


def _box(point: Point, right: Right, off: float = 0) -> str:
    box = box_of(right, point)
    corners = [number(value) for value in (box.x1 + off, box.y1, box.x2 + off, box.y2)]
    return f"<box>[{','.join(corners)}]</box>"


def _around(before: str = "", after: str = "") -> Plant:
    """Return a plant that puts text before or after the right response."""
    return lambda right, _: before + right.write() + after


def _cut_short(right: Right, rng: random.Random) -> str:
    text = right.write()
    return text[: rng.randrange(text.index("x1=") + 4, text.index("</think>"))]


def _answer(right: Right) -> str:
    return f"<answer>{right.asked.answer}</answer>"


def _two_thinks(right: Right, _rng: random.Random) -> str:
    return f"<think>Let me look at the image first.</think>\n{right.write()}"


def _split_thinks(right: Right, _rng: random.Random) -> str:
    pointed = f"{right.opening} {_tags(right.points)}."
    return f"<think>{pointed}</think>\n<think>{right.reason}</think>\n{_answer(right)}"


def _wrong_box(right: Right, rng: random.Random) -> str:
    off = rng.choice((-1, 1)) * rng.uniform(60, 120)
    return right.write(after=f" It lies in {_box(rng.choice(right.points), right, off)}.")


KINDS: dict[str, Plant] = {
    "wrong answer": _text(lambda r, w: r.write(answer=w)),
    "answer of another type": lambda r, _: r.write(answer="purple" if r.count is None else "yes"),
    "refusal for an answer": lambda r, _: r.write(answer="I cannot tell from this image"),
    "empty answer": lambda r, _: r.write(answer=""),
    "two answers in one": _text(lambda r, w: r.write(answer=f"{r.asked.answer} or {w}")),
    "two answers in one, wrong first": _text(lambda r, w: r.write(answer=f"{w} or {r.asked.answer}")),
    "wrong answer before the right one": _text(lambda r, w: f"{r.write(answer=w)}\n{_answer(r)}"),
    "wrong answer before the reasoning": _text(lambda r, w: f"<answer>{w}</answer>\n{r.write()}"),
    "wrong answer after the right one": _text(lambda r, w: f"{r.write()}\n<answer>{w}</answer>"),
    "wrong answer tag in the reasoning": _text(lambda r, w: r.write(after=f" <answer>{w}</answer>")),
    "wrong box in the reasoning": _text(lambda r, w: r.write(after=f" So \\boxed{{{w}}}.")),
    "wrong box in the answer": _text(lambda r, w: r.write(answer=f"{r.asked.answer} \\boxed{{{w}}}")),
    "wrong box before the answer": _text(lambda r, w: r.write().replace("</think>", f"</think>\n\\boxed{{{w}}}", 1)),
    "wrong box after the answer": _text(lambda r, w: f"{r.write()}\n\\boxed{{{w}}}"),
    "wrong answer line after the answer": _text(lambda r, w: f"{r.write()}\nFinal answer: {w}"),
    "wrong box of another model in the reasoning": _text(
        lambda r, w: r.write(after=f" <|begin_of_box|>{w}<|end_of_box|>")
    ),
    "no reasoning section": lambda r, _: f"{r.thought()}\n{_answer(r)}",
    "reasoning never closed": lambda r, _: r.write().replace("</think>", ""),
    "reasoning closed twice": lambda r, _: r.write().replace("</think>", "</think></think>"),
    "empty reasoning": lambda r, _: f"<think></think>\n{_answer(r)}",
    "empty reasoning, points before it": lambda r, _: f"{_tags(r.points)}\n<think></think>\n{_answer(r)}",
    "reasoning of tags only": lambda r, _: f"<think>{_tags(r.points)}</think>\n{_answer(r)}",
    "two reasoning sections": _two_thinks,
    "reasoning split into two sections": _split_thinks,
    "reasoning within reasoning": lambda r, _: r.write(before="<think>", after="</think>"),
    "reasoning after the answer": lambda r, _: f"{_answer(r)}\n<think>{r.thought()}</think>",
    "answer in the reasoning only": lambda r, _: f"<think>{r.thought()} {_answer(r)}</think>",
    "answer in prose only": lambda r, _: f"<think>{r.thought()}</think>\nThe answer is {r.asked.answer}.",
    "answer never closed": lambda r, _: r.write().replace("</answer>", ""),
    "answer that explains itself": lambda r, _: r.write(answer=f"{r.asked.answer}, because {r.reason}"),
    "text before the reasoning": _around(before="Sure! Here is my reasoning:\n"),
    "text after the answer": _around(after="\nI hope this helps. Let me know if you have other questions!"),
    "fence around it all": _around("```\n", "\n```"),
    "JSON around it all": lambda r, _: json.dumps({"think": r.thought(), "answer": r.asked.answer}),
    "cut short": _cut_short,
    "another turn after the answer": _text(lambda r, w: f"{r.write()}\nUser: Are you sure?\nAssistant: {w}"),
    "points in the answer": lambda r, _: r.write(tags=_words(r), answer=f"{r.asked.answer} {_tags(r.points)}"),
    "points after the answer": lambda r, _: f"{r.write(tags=_words(r))}\n{_tags(r.points)}",
    "points before the reasoning": lambda r, _: f"{_tags(r.points)}\n{r.write(tags=_words(r))}",
    "points between reasoning and answer": lambda r, _: r.write(tags=_words(r)).replace(
        "</think>", f"</think>\n{_tags(r.points)}"
    ),
    "tag without coordinates": _one_tag(lambda p: written(p.label, {}).replace("  ", " ")),
    "tag with x only": _one_tag(_with(x1="X")),
    "tag with y only": _one_tag(_with(y1="Y")),
    "tag with words for numbers": _one_tag(_with(x1="left", y1="middle")),
    "tag with nothing for numbers": _one_tag(_with(x1="", y1="")),
    "tag with NaN or infinity": _one_tag(_with(x1="NaN", y1="inf")),
    "tag with the placeholders of the prompt": _one_tag(lambda p: written(p.label, {"x1": "X", "y1": "Y"})),
    "tag with unpaired numbers": _one_tag(_with(x1="X", y2="Y")),
    "tag with both numbers in one": _one_tag(_with(x1="X, Y")),
    "tag of another name": _one_tag(lambda p: tag(p).replace("points", "location")),
    "tag cut off": _one_tag(lambda p: tag(p).split(" alt=")[0]),
    "tag escaped": _one_tag(lambda p: tag(p).replace("<", "&lt;").replace(">", "&gt;")),
    "coordinates as JSON": _as_json,
    "coordinates in brackets": _all_tags(lambda p: f"{p.label} [{', '.join(_xy(p))}]"),
    "coordinates in parentheses": _all_tags(lambda p: f"{p.label} ({', '.join(_xy(p))})"),
    "coordinates in words": _all_tags(lambda p: f"{p.label} at x = {_xy(p)[0]}, y = {_xy(p)[1]}"),
    "wrong coordinates in brackets too": lambda r, g: r.write(
        after=f" The last one is at [{g.randint(1, 99)}, {g.randint(1, 99)}]."
    ),
    "wrong coordinates in parentheses too": lambda r, g: r.write(
        after=f" There is another one at ({g.randint(1, 99)}, {g.randint(1, 99)})."
    ),
    "boxes in place of points": lambda r, _: r.write(tags=[f"{p.label} {_box(p, r)}" for p in r.points]),
    "a wrong box too": _wrong_box,
}
