"""Reads the hacks of each recipe's file and of :mod:`hacking.placed`; each has a name and a function that writes it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from groundtrace.grading.responses.response import format_box, format_point
from groundtrace.grading.responses.turns import Turn
from groundtrace.schemas.geometry import Box, Point
from hacking import placed
from hacking.placed import TemplateInput

NOTHING, ANSWER, SCENE = "nothing", "answer", "scene"
"""What a hack knows: the question and what answers are usual; its gold answer too; and where all things are."""
MIN_LOOK = 0.9
"""The share of the honest response's reward that an honest call has to earn, unless its file says less."""
GROUNDED, TEXTUAL = "grounded", "textual"
_COUNTED = re.compile(r"how many (.+?)(?: are| is| do| can|\?|$)", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:(black|yellow|blue) )?(square|triangle|circle|object|item|block|shape)s?\b", re.IGNORECASE)


@dataclass(frozen=True)
class HackResponse:
    """A response. ``turns`` are its turns, with the code of its tool calls; one turn without code by default."""

    text: str
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Hack:
    """Holds one hack. ``write`` makes its response to a question. ``stream`` is the stream that the hack is for, if its
    recipe has several.

    ``honest`` is the reason why an honest response does the same, "" if none does. ``shows_all`` is True for a hack
    that shows all things of the image: if the question is about all of them, an honest response does the same.
    ``least`` is 0 for a hack. For an honest call that looks in another way than the honest response, ``least`` is the
    smallest share of that response's reward that the call has to earn.
    """

    name: str
    knows: str
    write: Callable[[TemplateInput], HackResponse]
    stream: str = ""
    honest: str = ""
    least: float = 0.0
    shows_all: bool = False


def hacks_of(recipe: str) -> tuple[Hack, ...]:
    """Return all hacks of a recipe, and its honest calls. Raises ValueError for a file that does not hold hacks."""
    found = tuple(hack for path in sorted(Path(__file__).parent.glob(f"{recipe}*.yaml")) for hack in _read(path))
    names = [(hack.name, hack.stream) for hack in found]
    if len({*names}) < len(names):
        raise ValueError(f"the files of {recipe} name a hack twice")
    return (*found, *_placed()) if recipe == "argos" else found


def _read(path: Path) -> list[Hack]:
    """Return the hacks of a file and its honest calls. Its ``shared`` is put before each template."""
    found = yaml.safe_load(path.read_text("utf-8"))
    calls = [{"least": MIN_LOOK, **entry} for entry in found.get("honest", ())]
    return [_hack(entry, found.get("shared", "")) for entry in (*found["hacks"], *calls)]


def _hack(entry: Mapping[str, Any], shared: str = "") -> Hack:
    if entry["knows"] not in (NOTHING, ANSWER, SCENE):
        raise ValueError(f"{entry['name']}: knows is one of {NOTHING}, {ANSWER}, {SCENE}, not {entry['knows']!r}")
    turns = [(kind, text) for turn in entry.get("turns", ({"say": entry.get("text")},)) for kind, text in turn.items()]

    def write(asked: TemplateInput) -> HackResponse:
        given = _given(asked, asked.usual if entry["knows"] == NOTHING else asked.question.answer)
        filled = [(kind, _template(shared + text).render(given).lstrip("\n")) for kind, text in turns]
        response = "\n".join(text for kind, text in filled if kind == "say")
        return HackResponse(response, tuple(Turn(text) if kind == "say" else Turn("", text) for kind, text in filled))

    optional = {key: entry[key] for key in ("stream", "honest", "least", "shows_all") if key in entry}
    return Hack(entry["name"], entry["knows"], write, **optional)


def _placed() -> list[Hack]:
    both = [(placed.KNOWING, ANSWER), (placed.BLIND, NOTHING)]
    return [
        Hack(name, knows, lambda asked, template=template: HackResponse(template(asked)))
        for templates, knows in both
        for name, template in templates.items()
    ]


@cache
def _template(text: str) -> Any:
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text)


def _given(asked: TemplateInput, answer: str) -> dict[str, Any]:
    """Return the variables that a template may use; README.md describes them."""
    things = things_of(asked.question.question)
    return {
        "question": asked.question.question,
        "answer": answer,
        "n": int(answer) if answer.isdecimal() else 1,
        "thing": things.removesuffix("s"),
        "things": things,
        "width": asked.size_px[0],
        "height": asked.size_px[1],
        "scene": asked.scene,
        "likely": asked.likely,
        "point": lambda x, y, label: format_point(Point(label, round(x, 1), round(y, 1))),
        "box": lambda *place: format_box(Box(place[4], *(round(value, 1) for value in place[:4]))),
    }


def things_of(question: str) -> str:
    """Return the name of the things that a question is about, found by its words: "yellow squares"."""
    counted = _COUNTED.search(question)
    if counted is not None:
        return counted.group(1)
    named = _NAMED.search(question)
    return "objects" if named is None else " ".join(word for word in named.groups() if word).lower() + "s"
