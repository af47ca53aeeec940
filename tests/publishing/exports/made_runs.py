"""Run folders made of rows, without a pipeline: what an export has to take, at its edges."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from groundtrace.grading.question_text import CODE, INSTRUCTIONS
from groundtrace.grading.responses.turns import Turn, as_tags, conversation
from groundtrace.publishing.exports.export import ExportArguments, ExportResult, export_run
from groundtrace.schemas.arrow import REJECTED_SCHEMA, rl_schema, sft_schema
from groundtrace.schemas.columns import Column
from groundtrace.schemas.run_summary import Counts, RunSummary
from tests.added import ADDED

ROOT = Path(__file__).resolve().parents[3]
POINT = '<points x1="{x}" y1="{y}" alt="cup">cup</points>'
ASKED = "How many cups are there?\nPoint as <points>. Answer with a number alone."

CLIP = "A clip:\nFrame 1 (0.00 s): <image>\nFrame 2 (0.50 s): <image>\nWhat happens? Answer as <points>."
FRAMES = [{"media_index": 0, "frame": number, "t_s": number / 2 - 0.5} for number in (1, 2)]
"""What a clip of two frames is asked, and what its column ``frames`` holds."""

ASKED_FOR_CODE = f"<image>How many cups are there?\n{INSTRUCTIONS[CODE]} Answer with a number alone."
TURNS = (
    Turn("<think>I count.</think>", "print(count(input_image))", "error", "NameError: name 'count' is not defined"),
    Turn(
        f"<think>I look at {POINT.format(x=100, y=50)}.</think>",
        "left = input_image.crop((0, 0, 90, 90))\nprint(left.size)\ndisplay(left)\ndisplay(left.rotate(9))",
        "ok",
        "(90, 90)",
        2,
    ),
    Turn("<think>It shows one cup.</think>\n<answer>1</answer>"),
)
"""A trajectory: a call that fails, one that prints and shows two images, and the answer."""


def picture(width: int = 200, height: int = 100, kind: str = "PNG", seed: int = 0, **options: Any) -> bytes:
    """The bytes of an image of noise."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def trace(*points: tuple[float, float], answer: str = "1") -> str:
    """A trace that points there."""
    said = ", ".join(POINT.format(x=x, y=y) for x, y in points)
    return f"<think>I see {said}.</think>\n<answer>{answer}</answer>"


def row(id: str = "q", images: Sequence[bytes] = (picture(),), **fields: Any) -> dict[str, Any]:
    """The columns of either side; ``fields`` add to them."""
    return {
        "id": id,
        "source": "made",
        "recipe": "grounded_cot",
        "question": "How many cups are there?",
        "answer": "1",
        "answer_type": "numeric",
        "images": [{"bytes": data, "path": f"{number}.png"} for number, data in enumerate(images)],
    } | fields


def sft(id: str = "q", text: str = "", images: Sequence[bytes] = (picture(),), asked: str = "", **fields: Any) -> dict:
    """An SFT row; its trace points at the middle of a 200x100 image."""
    user = asked or "<image>" * len(images) + ASKED
    turns = [{"role": "user", "content": user}, {"role": "assistant", "content": text or trace((100, 50))}]
    return row(id, images, messages=turns, scores={"outcome": 1.0, "final": 1.0}, **fields)


def rl(id: str = "q", images: Sequence[bytes] = (picture(),), asked: str = "", **fields: Any) -> dict:
    """An RL row."""
    user = asked or "<image>" * len(images) + ASKED
    return row(id, images, prompt=[{"role": "user", "content": user}], problem=user, data_source="made", **fields)


def trajectory(id: str = "code", turns: Sequence[Turn] = TURNS) -> dict:
    """An SFT row whose response is a trajectory; its images have the seeds 0, 1, …"""
    shown = [picture(seed=0), *(picture(90, 90, seed=1 + n) for n in range(sum(turn.images for turn in turns)))]
    return sft(id, images=shown) | {"messages": conversation(ASKED_FOR_CODE, as_tags(turns))}


def coded_run(folder: Path) -> Path:
    """A run with a trajectory, a question that is answered directly, and an RL row."""
    direct = sft("direct", "<answer>1</answer>", asked=ASKED_FOR_CODE)
    run = make_run(folder, [trajectory(), direct], [rl("asked", asked=ASKED_FOR_CODE)])
    (run / "config.toml").write_text("[sandbox]\ncall_timeout_s = 15.0\nsessions = 8\n", "utf-8")
    return run


def other(text: str, outcome: float | None = 1.0, score: float | None = 1.0) -> dict[str, Any]:
    """A trace that was not chosen."""
    verdict = {"name": "outcome", "value": outcome, "failed": False, "reason": ""}
    return {"text": text, "answer": "1", "score": score, "verdicts": [verdict]}


def make_run(
    folder: Path,
    sft: Sequence[Mapping] = (),
    rl: Sequence[Mapping] = (),
    counts: tuple[int, int] | None = None,
    shards: int = 1,
    other_traces: bool = False,
    added: Sequence[Column[Any]] = (),
) -> Path:
    """A run folder of these rows; ``counts`` are those of its ``run.json`` where they are to differ, and ``added`` are
    columns of stages of a user."""
    rows: list[tuple[str, Sequence[Mapping], pa.Schema]] = [
        ("sft", sft, sft_schema((*ADDED, *added), other_traces)),
        ("rl", rl, rl_schema((*ADDED, *added))),
        ("rejected", (), REJECTED_SCHEMA),
    ]
    for side, held, schema in rows:
        (folder / side).mkdir(parents=True)
        for number in range(shards):
            table = pa.Table.from_pylist([dict(each) for each in held[number::shards]], schema)
            pq.write_table(table, folder / side / f"train-{number:05d}-of-{shards:05d}.parquet")
    told = counts or (len(sft), len(rl))
    facts = dict.fromkeys(("recipe", "input", "finished", "revision", "config_sha256"), "x")
    nothing: dict[str, Any] = {name: {} for name in ("stages", "ledger", "roles", "prompts")}
    summary = RunSummary(**facts, **nothing, counts=Counts(sum(told), *told, {}), wall_s=1.0, self_judged=False)
    (folder / "run.json").write_text(json.dumps(summary.to_fields()), "utf-8")
    return folder


def exported(run: Path, form: str, output: Path, family: str = "qwen3-vl", **options: Any) -> ExportResult:
    """The run in that format."""
    return export_run(ExportArguments(run, form, output, family, **options))


def lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def table(file: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file."""
    return pq.read_table(file).to_pylist()
