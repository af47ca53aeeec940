"""Makes the questions of each recipe's RL rows, with honest responses, from the same small set of records."""

import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faults.rendered import render

from groundtrace.grading.responses.response import format_box
from groundtrace.grading.responses.turns import Turn
from groundtrace.pipelines.running.library import run
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.row import per_stream as asked_in
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import decode_image
from hacking.placed import TemplateInput
from hacking.templates import GROUNDED, TEXTUAL, HackResponse

PIPELINES = {
    "argos": "grounded_cot",
    "sail_rl": "judge_think_answer",
    "ivgr": "dual_stream",
    "rucl": "rubric_curriculum",
    "codedance": "dual_stream",
}
"""The pipeline whose RL rows each reward is measured on. The reward of CodeDance is measured on those of dual_stream.
"""
_WIDE = {
    "argos": ["difficulty.include_low=true", "difficulty.include_high=true", "trace.n=1"],
    "sail_rl": ["difficulty.include_low=true", "difficulty.include_high=true"],
}
_TRACED = ("argos", "sail_rl")
"""The recipes whose SFT side holds the honest response to each question; iVGR's is made of gold boxes."""
_ENLARGE = "input_image.resize((3 * input_image.width, 3 * input_image.height)).show()"
"""The code of an honest call for CodeDance if the image has none of the objects."""
CELLS = (20, 8)
"""The numbers of columns and rows into which an image is divided to find the likeliest places."""
ROWS_PER_QUESTION = 2
"""The number of records drawn for each wanted question: some records are duplicates, or over a quota."""


@dataclass(frozen=True)
class HackQuestion:
    """One question of a recipe: its rows, the data that hacks may use, and an honest response for each row.

    There is one row for each stream, or one row if the recipe has no streams.
    """

    rows: tuple[TrainingRow, ...]
    asked: TemplateInput
    honest: tuple[HackResponse, ...]


def small_set(folder: Path, data: Path | None, count: int, seed: int) -> Path:
    """Return a folder of records for about ``count`` questions, drawn from ``data`` by image, or rendered."""
    chosen = folder / "records"
    if data is None:
        render(chosen, -(-ROWS_PER_QUESTION * count // 3), seed)
        return chosen
    lines = (data / "records.jsonl").read_text("utf-8").splitlines()
    images = defaultdict[str, list[str]](list)
    for line in lines:
        images[json.loads(line)["media"][0]].append(line)
    names = random.Random(seed).sample(sorted(images), len(images))
    drawn: list[str] = []
    for name in names:
        if len(drawn) < ROWS_PER_QUESTION * count:
            drawn += images[name]
    for name in {name for line in drawn for name in json.loads(line)["media"]}:
        (chosen / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / name, chosen / name)
    (chosen / "records.jsonl").write_text("\n".join(drawn) + "\n", "utf-8")
    return chosen


def posed_of(recipe: str, folder: Path, records: Path, count: int, seed: int) -> list[HackQuestion]:
    """Return at most ``count`` questions of the recipe's RL rows, with honest responses."""
    rows = _curated(recipe, folder, records, "rl")
    traces = dict[str, str]()
    if recipe in _TRACED or recipe == "rucl":
        traced = recipe if recipe in _TRACED else "argos"
        traces = {row.id: row.messages[-1]["content"] for row in _curated(traced, folder, records, "sft")}
        rows = [row for row in rows if row.id in traces]
    if recipe == "codedance":
        rows = [replace(row, streams=()) for row in rows]
    rows = random.Random(seed).sample(rows, min(count, len(rows)))
    posed = []
    for row, about in zip(rows, _asked_of(rows, _scenes(records), seed), strict=True):
        streams = tuple(asked_in(row))
        posed.append(HackQuestion(streams, about, tuple(_honest(recipe, each, traces) for each in streams)))
    return posed


def _curated(recipe: str, folder: Path, records: Path, side: str) -> list[TrainingRow]:
    """Return all rows of one side, after a run that puts every question on that side; the run is made only once."""
    output = folder / PIPELINES[recipe] / side
    if not output.exists():
        split = [] if recipe == "rucl" else [f"split.sft_ratio={float(side == 'sft')}"]
        run(
            PIPELINES[recipe],
            str(records),
            str(output),
            overrides=[*split, *_WIDE.get(recipe, ())],
            cache=str(folder / "cache"),
        )
    shards = Shards(output, side, folder / "arrow")
    return [shards[index] for index in range(len(shards))]


def _honest(recipe: str, row: TrainingRow, traces: Mapping[str, str]) -> HackResponse:
    """Return the response of a model that looks: the kept trace, or gold boxes in the recipe's form."""
    gold, answer = row.question.gold_boxes or (), row.question.answer
    if recipe in ("ivgr", "codedance"):
        named = ", ".join(f"the {box.label}" + (f" {format_box(box)}" if _boxes(recipe, row) else "") for box in gold)
        text = f"<think>I see {named or 'none of what is asked for'}.</think>\n<answer>{answer}</answer>"
        call = Turn("", _crops_of(gold) if gold else _ENLARGE)
        return HackResponse(text, (call, Turn(text)) if recipe == "codedance" else ())
    return HackResponse(traces[row.id])


def _boxes(recipe: str, row: TrainingRow) -> bool:
    return recipe == "ivgr" and row.context.stream == GROUNDED


def _crops_of(boxes: Sequence[Box]) -> str:
    """Return code that shows an enlarged crop of each box, side by side in one image."""
    places = [tuple(map(round, (box.x1, box.y1, box.x2 + 1, box.y2 + 1))) for box in boxes]
    return (
        f"places = {places}\n"
        "shown = input_image.resize((120 * len(places), 120))\n"
        "for number, place in enumerate(places):\n"
        "    shown.paste(input_image.crop(place).resize((120, 120)), (120 * number, 0))\n"
        "shown.show()"
    )


def _scenes(records: Path) -> dict[str, tuple[Box, ...]]:
    """Return, by question, all objects of its image, which are collected from the boxes of all its questions."""
    images, of = defaultdict[str, dict[tuple[float, ...], Box]](dict), dict[str, str]()
    for line in (records / "records.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        of[record["id"]] = record["media"][0]
        for box in record["boxes"] or ():
            images[record["media"][0]][tuple(box["bbox"])] = Box(box["label"], *box["bbox"])
    return {id: tuple(images[name].values()) for id, name in of.items()}


def _asked_of(rows: Sequence[TrainingRow], scenes: Mapping[str, tuple[Box, ...]], seed: int) -> list[TemplateInput]:
    """Return, for each row, the data that templates may use."""
    answers = defaultdict[str, list[str]](list)
    for row in rows:
        answers[row.question.answer_type].append(row.question.answer)
    usual = {kind: Counter(found).most_common(1)[0][0] for kind, found in answers.items()}
    sizes = [_size_px(row) for row in rows]
    places = _likely_places(rows, sizes) or [(0.5, 0.5)]
    return [
        TemplateInput(
            row.question,
            size,
            row.entities or (),
            usual[row.question.answer_type],
            answers[row.question.answer_type],
            places,
            random.Random(f"{seed} {row.id}"),
            scenes.get(row.id, ()),
        )
        for row, size in zip(rows, sizes, strict=True)
    ]


def _likely_places(rows: Sequence[TrainingRow], sizes: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return the places where gold objects most often are, as shares of the image's sides, the likeliest first."""
    hits = Counter[tuple[int, int]]()
    for row, (width, height) in zip(rows, sizes, strict=True):
        for box in row.question.gold_boxes or ():
            (x, y), (columns, lines) = box.centre, CELLS
            hits[int(x / width * columns), int(y / height * lines)] += 1
    return [((x + 0.5) / CELLS[0], (y + 0.5) / CELLS[1]) for (x, y), _ in hits.most_common(40)]


def _size_px(row: TrainingRow) -> tuple[int, int]:
    decoded = decode_image(row.images[0][0])
    return decoded.width, decoded.height


STREAMS = {"ivgr": (GROUNDED, TEXTUAL)}
"""The streams of each recipe that has several; any other recipe has one stream without a name."""
