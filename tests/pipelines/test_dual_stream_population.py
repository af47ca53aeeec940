"""A planted population: questions of known pass rates and detectors of known faults, and what a run makes of them."""

import base64
import json
import math
import re
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from groundtrace.pipelines.commands import cli
from groundtrace.rewards.scorers.boxes import score_boxes
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.ordering import unit_hash

from .dual_stream_world import GOOD, SQUARES, worded
from .far_server import serving

pytestmark = pytest.mark.slow
K = 5
RATES = (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)
EACH = 40
SHEETS = 120
FAULTS = ("right", "off", "right", "right", "off", "right", "right", "blind", "right", "right")
TRUTH = tuple(Box(label, *corners) for label, corners in SQUARES.items())


def run(source: Path, output: Path, url: str, roles: tuple[str, ...], **more: Any) -> dict[str, dict[str, dict]]:
    """The rows of a run in which the server plays these roles, by side and id."""
    far = {"kind": "openai", "model": "m", "base_url": url, "max_retries": 0, "frame": "px", "max_concurrency": 8}
    options = {f"endpoints.far.{name}": value for name, value in far.items()} | {"allow_embedded": "true"} | more
    options |= {f"roles.{role}": "far" for role in roles}
    options |= {"rl.max_same_answer": 1, "rl.max_absent": 1}  # the sheets ask for few answers
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    assert cli.main(["run", "dual_stream", "--input", str(source), "--output", str(output), *words]) == 0
    read = {side: sorted((output / side).glob("*.parquet")) for side in ("sft", "rl", "rejected")}
    rows = {side: [row for file in files for row in pq.read_table(file).to_pylist()] for side, files in read.items()}
    return {side: {row["id"]: row for row in found} for side, found in rows.items()}


def reply(texts: list[str]) -> tuple[int, dict[str, Any]]:
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for index, text in enumerate(texts)
    ]
    return 200, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}


def is_right(name: str, sample: int) -> bool:
    """Whether the planted policy gets the question right in this sample: with the rate that its name says."""
    return unit_hash(f"{name}/{sample}", 0, "policy") < float(name.split("-")[0])


@pytest.fixture(scope="module")
def attempted(tmp_path_factory: pytest.TempPathFactory, write_scene, write_records) -> dict[str, dict[str, dict]]:
    """General questions, all on the RL side, of a policy with a known pass rate on each."""
    folder = tmp_path_factory.mktemp("rates")
    write_scene(folder / "data/a.png")
    names = [f"{rate}-{number}" for rate in RATES for number in range(EACH)]
    ask = "How many squares are there? Sheet {}."
    records = [{"id": name, "media": "a.png", "question": ask.format(name), "boxes": []} for name in names]
    write_records(folder / "data", records)

    def answer(_number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = json.dumps(body["messages"])
        [name] = set(re.findall(r"Sheet ([\d.]+-\d+)", text))
        return reply([f"<answer>{3 if is_right(name, sample) else 4}</answer>" for sample in range(body.get("n", 1))])

    with serving(answer) as server:
        return run(folder / "data", folder / "run", server.url, ("policy",), **{"split.sft_ratio": 0})


def test_the_band_keeps_exactly_one_or_two_right_of_five(attempted: dict[str, dict[str, dict]]) -> None:
    right = {f"{rate}-{n}": sum(is_right(f"{rate}-{n}", s) for s in range(K)) for rate in RATES for n in range(EACH)}
    assert attempted["rl"].keys() == {name for name, count in right.items() if count in (1, 2)}
    found = attempted["rl"] | attempted["rejected"]
    assert {name: row["pass_rate"] for name, row in found.items()} == {name: c / K for name, c in right.items()}
    assert {row["reason"] for row in attempted["rejected"].values()} == {"too_easy", "too_hard"}
    assert {tuple(row["streams"]) for row in attempted["rl"].values()} == {("textual",)}


def test_pass_rates_lie_within_their_intervals(attempted: dict[str, dict[str, dict]]) -> None:
    found = attempted["rl"] | attempted["rejected"]
    inside = 0
    for name, row in found.items():
        low, high = wilson(round(row["pass_rate"] * K), K)
        inside += low - 1e-9 <= float(name.split("-")[0]) <= high + 1e-9
    assert inside / len(found) >= 0.9, "a 95 % interval of each question's rate holds the planted one"
    for rate in RATES:
        of_rate = [row["pass_rate"] for name, row in found.items() if name.startswith(f"{rate}-")]
        low, high = wilson(round(sum(of_rate) * K), EACH * K, confidence=0.99)
        assert low - 1e-9 <= rate <= high + 1e-9


def test_the_share_kept_is_that_of_the_binomial(attempted: dict[str, dict[str, dict]]) -> None:
    kept = Counter(name.split("-")[0] for name in attempted["rl"])
    for rate in RATES:
        chance = sum(math.comb(K, c) * rate**c * (1 - rate) ** (K - c) for c in (1, 2))
        assert abs(kept[str(rate)] - EACH * chance) <= 3 * math.sqrt(EACH * chance * (1 - chance)) + 1e-9


def fault_of(number: int) -> str:
    """What the planted detector does on a sheet: right on 7 of 10, off by half a width on 2, blind on 1."""
    return FAULTS[number % len(FAULTS)]


@pytest.fixture(scope="module")
def located(tmp_path_factory: pytest.TempPathFactory, write_scene, write_records) -> dict[str, dict[str, dict]]:
    """Sheets that say nothing of boxes, with a teacher who boxes well and a detector with planted faults."""
    folder = tmp_path_factory.mktemp("faults")
    records = []
    for number in range(SHEETS):
        write_scene(folder / f"data/{number}.png", width=200 + number)
        ask = f"How many squares are there? Sheet {number}."
        records.append({"id": f"{fault_of(number)}-{number}", "media": f"{number}.png", "question": ask})
    write_records(folder / "data", records)

    def answer(_number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text, count = json.dumps(body["messages"]), body.get("n", 1)
        if "Locate every" in text:
            [url] = [part["image_url"]["url"] for part in body["messages"][-1]["content"] if "image_url" in part]
            with Image.open(BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
                fault = fault_of(image.width - 200)
            shift = {"right": 0, "off": 10, "blind": 0}[fault]
            label = next(label for label in SQUARES if label in text)
            x1, y1, x2, y2 = SQUARES[label]
            return reply([json.dumps({"boxes": [] if fault == "blind" else [[x1 + shift, y1, x2 + shift, y2]]})])
        if "object detector" in text:
            return reply([json.dumps({"targets": list(SQUARES)})])
        return reply([GOOD if "behind its name" in text else worded()] * count)

    with serving(answer) as server:
        more = {"roles.segmenter": "", "split.sft_ratio": 0.5}
        return run(folder / "data", folder / "run", server.url, ("teacher", "detector"), **more)


def quality(row: dict) -> float:
    """iVGR Eq. 2 of a row's pseudo-boxes against the squares that were drawn."""
    return score_boxes(tuple(Box(**box) for box in row["gold_boxes"]), TRUTH).value or 0.0


def test_a_detector_that_is_off_costs_rows_and_passes_no_trace(
    located: dict[str, dict[str, dict]],
) -> None:
    grounded = {name: row for name, row in located["sft"].items() if row["boxes"]}
    assert {name.split("-")[0] for name in grounded} == {"right"}
    reasons = {(name.split("-")[0], row["reason"]) for name, row in located["rejected"].items() if row["traces"]}
    assert ("off", "low_grounding") in reasons
    assert not any(fault == "right" and reason == "low_grounding" for fault, reason in reasons)


def test_the_quality_of_pseudo_boxes_is_the_planted_one(located: dict[str, dict[str, dict]]) -> None:
    boxed = {name: row for name, row in located["rl"].items() if row["boxes_source"] == "detector"}
    assert all(row["boxes_source"] is None for name, row in located["rl"].items() if name.startswith("blind"))
    exact = {name for name, row in boxed.items() if quality(row) > 0.99}
    assert exact == {name for name in boxed if name.startswith("right")}
    assert all(quality(row) == pytest.approx(1 / 3, abs=0.01) for name, row in boxed.items() if name not in exact)
    low, high = wilson(len(exact), len(boxed))
    assert low <= 7 / 9 <= high
    kept = sum(bool(row["boxes"]) for row in located["sft"].values())
    refused = sum(row["reason"] == "low_grounding" for row in located["rejected"].values())
    low, high = wilson(kept, kept + refused)
    assert low <= 7 / 9 <= high, "the share of grounded traces that the detector agrees with"
