"""Drawn sheets with a planned end each, and a server that plays teacher, policy and judge on them by the plan."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.grading.question_text import BOXES
from groundtrace.stages.assign_stream import ColdStartSettings, form_of
from groundtrace.stages.split_by_media_group import SplitSettings, split_side
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.media import MediaStore

COLD_START = ColdStartSettings(grounded=2, textual=1)
SPLIT = SplitSettings(sft_ratio=0.5)
RED, BLUE, BLACK = ([8 + 24 * n, 30, 28 + 24 * n, 50] for n in range(3))
SQUARES = {"red square": RED, "blue square": BLUE, "black square": BLACK}
OPTIONS = {
    "split.sft_ratio": SPLIT.sft_ratio,
    "cold_start.grounded": COLD_START.grounded,
    "cold_start.textual": COLD_START.textual,
    "trace.n": 2,
    "allow_embedded": "true",
}


@dataclass(frozen=True)
class Sheet:
    """One record: where it is to end, the stream of its SFT side, and what teacher and policy say of it.

    ``gold`` marks all squares; None leaves the field out. ``traces`` are the teacher's, ``targets`` what it names,
    ``right`` how many of the policy's five attempts are right.
    """

    name: str
    side: str
    form: str
    end: str
    gold: tuple[str, ...] | None = None
    targets: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    right: int = 0


def boxed(*labels: str, at: Sequence[Sequence[int]] | None = None) -> str:
    """A grounded trace that boxes the squares of these labels, or what is given in their place."""
    places = [SQUARES[label] for label in labels] if at is None else at
    named = ", ".join(f'<box alt="{label}">{place}</box>' for label, place in zip(labels, places, strict=True))
    return f"<think>I see {named}. So there are 3 squares.</think><answer>3</answer>"


def worded(text: str = "One is red, one blue, one black.") -> str:
    return f"<think>{text} So there are 3 squares.</think><answer>3</answer>"


ALL = tuple(SQUARES)
GOOD = boxed(*ALL)
INEXACT = boxed(*ALL, at=[[9, 31, 28, 50], [33, 29, 52, 50], [56, 30, 77, 51]])
WHOLE = boxed("square", at=[[0, 0, 160, 80]])
SHIFTED = boxed(*ALL, at=[[x1 + 10, y1, x2 + 10, y2] for x1, y1, x2, y2 in SQUARES.values()])
SWAPPED = boxed(*ALL, at=[BLUE, BLACK, RED])
COPIED = boxed("square", "square", "square", at=[RED, RED, RED])
UNNAMED = GOOD.replace("I see", 'Behind <box alt="grey sky">[100, 5, 150, 25]</box> I see')
"""What a teacher may write of a sheet: right, nearly so, and in five ways wrong where the answer is right."""


def name_for(stem: str, form: str) -> str:
    """The first id with this stem whose hash gives it the form."""
    return next(name for n in itertools.count() if form_of(name := f"{stem}-{n}", COLD_START) == form)


def draw(folder: Path, sheet: Sheet, number: int, write_scene: Callable[..., Path]) -> dict[str, Any]:
    """The record of a sheet, with an image of its own that falls to the sheet's side."""
    store = MediaStore(str(folder), str(folder))
    for width in itertools.count(160 + 40 * number):
        write_scene(folder / f"{sheet.name}.png", width=width)
        medium = check_medium(f"input:{sheet.name}.png", store).ref
        if medium is not None and split_side(medium.pixel_sha256, SPLIT) == sheet.side:
            break
    record: dict[str, Any] = {"id": name_for(sheet.name, sheet.form), "media": f"{sheet.name}.png", "answer": "3"}
    record["question"] = f"How many squares are there on the sheet {sheet.name}?"
    if sheet.gold is not None:
        record["boxes"] = [{"label": label, "bbox": SQUARES[label]} for label in sheet.gold]
    return record


def playing(sheets: Sequence[Sheet]) -> Callable[[int, dict[str, Any]], tuple[int, dict[str, Any]]]:
    """What the server answers: each prompt is about one sheet, whose name stands in the question."""

    def answer(_number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = json.dumps(body["messages"])
        sheet = next(sheet for sheet in sheets if f"sheet {sheet.name}?" in text)
        count = body.get("n", 1)
        if "told an object detector" in text or "tell an object detector" in text:
            said = [json.dumps({"targets": sheet.targets})]
        elif "Does the reasoning lead to" in text:
            said = [json.dumps({"reason": "it counts them", "supports": "yes"})]
        elif "explain how a question" in text:
            assert ("behind its name" in text) == (sheet.form == BOXES), "asked in the other stream"
            said = [(*sheet.traces, *sheet.traces)[index] for index in range(count)]
        else:
            said = [f"<answer>{3 if index < sheet.right else 4}</answer>" for index in range(count)]
        choices = [
            {"index": index, "message": {"role": "assistant", "content": each}, "finish_reason": "stop"}
            for index, each in enumerate(said)
        ]
        return 200, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}

    return answer
