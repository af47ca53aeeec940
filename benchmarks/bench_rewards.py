"""Measures the speed of scoring by rules: the box reward, compared with simple implementations, and the whole chain.

    python benchmarks/bench_rewards.py [--turns 3]

Every figure is per second of CPU time in one thread, so that other load on the machine hardly changes it. Boxes: the
bidirectional reward (iVGR Eq. 2) of groups of responses, from ``Box`` records to one number per response, compared with
plain Python over the pairs and with NumPy pair by pair, in turn over the same boxes. Chain: a response is parsed,
graded, its boxes are scored in its group, and the scores are gated (Argos Eq. 9). Exit code 1 if the sides disagree.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bench_pipeline_overhead import spread

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.responses.response import format_box, parse_response
from groundtrace.rewards.aggregate import GateSettings, gated
from groundtrace.rewards.scorers.boxes import FORMS, SAME_BOX_IOU, match_group, score_group
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Verdict

BOXES = (8, 16, 32, 64)
GROUPS = (8, 16, 32, 64)
WIDTH, HEIGHT = 1280, 960
MIN_TIMED_S = 0.05
"""Work is repeated until it has taken this CPU time, because the clock is coarse."""

QUESTIONS = (
    ("mcq", "a red car", ("a blue car", "a red car", "a van", "nothing"), ("B", "(B) a red car", "A", "a van")),
    ("numeric", "12", None, ("12", "12 apples", "13", "about a dozen")),
    ("numeric", "3.75", None, ("3.7", "3.75 m", "4.5", "15/4")),
    ("bool", "yes", None, ("Yes", "no", "Yes, it is.", "The answer is no")),
    ("text", "a traffic light", None, ("traffic light", "a lamp", "A traffic light.", "stop sign")),
    ("text", r"\frac{3}{4}", None, ("0.75", r"\frac{3}{4}", r"\frac{4}{3}", "3/4")),
)
"""Answer type, gold answer, choices, and the responses' answers."""
THOUGHT = "The picture shows a street with several vehicles; the one by the crossing is the one that is asked for. " * 6

Corners = tuple[float, float, float, float]


def draw_boxes(rng: random.Random, count: int) -> tuple[Box, ...]:
    """Return random boxes with sides of 20 to 300 pixels, anywhere in the image."""
    boxes = []
    for _ in range(count):
        width, height = rng.uniform(20, 300), rng.uniform(20, 300)
        x, y = rng.uniform(0, WIDTH - width), rng.uniform(0, HEIGHT - height)
        boxes.append(Box("car", x, y, x + width, y + height))
    return tuple(boxes)


def answer_with(rng: random.Random, gold: Sequence[Box], count: int) -> tuple[Box, ...]:
    """Return a response's boxes: half are near gold boxes, half are anywhere.

    None of them are near-duplicates, which the other sides would count.
    """
    near = []
    for box in rng.sample(gold, min(len(gold), count // 2)):
        dx, dy = rng.gauss(0, 10), rng.gauss(0, 10)
        near.append(Box(box.label, box.x1 + dx, box.y1 + dy, box.x2 + dx, box.y2 + dy))
    boxes = list[Box]()
    for box in near:
        if _is_apart(box, boxes):
            boxes.append(box)
    while len(boxes) < count:
        (box,) = draw_boxes(rng, 1)
        if _is_apart(box, boxes):
            boxes.append(box)
    return tuple(boxes)


def _is_apart(box: Box, others: Sequence[Box]) -> bool:
    (row,) = corners_of((box,))
    return all(_plain_iou(row, other) < SAME_BOX_IOU for other in corners_of(others))


def corners_of(boxes: Sequence[Box]) -> list[Corners]:
    """Return the boxes' corners as tuples, so that the loops look up each attribute only once per box."""
    return [(box.x1, box.y1, box.x2, box.y2) for box in boxes]


def plain_group(responses: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> list[float]:
    """Return Eq. 2 in plain Python: each pair is computed once, with an early exit for disjoint boxes."""
    rows = corners_of(gold)
    return [_averaged([[_plain_iou(box, row) for row in rows] for box in corners_of(each)]) for each in responses]


def _plain_iou(a: Corners, b: Corners) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    if width <= 0:
        return 0.0
    height = min(a[3], b[3]) - max(a[1], b[1])
    if height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def pairs_group(responses: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> list[float]:
    """Return Eq. 2 computed with NumPy, pair by pair."""
    rows = [np.array(row) for row in corners_of(gold)]
    scores = []
    for each in responses:
        boxes = [np.array(row) for row in corners_of(each)]
        scores.append(_averaged([[_pair_iou(box, row) for row in rows] for box in boxes]))
    return scores


def _pair_iou(a: Any, b: Any) -> float:
    sides = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)
    shared = sides.prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))


def _averaged(overlaps: list[list[float]]) -> float:
    precision = sum(map(max, overlaps)) / len(overlaps)
    recall = sum(map(max, zip(*overlaps, strict=True))) / len(overlaps[0])
    return (recall + precision) / 2


def our_group(responses: Sequence[tuple[Box, ...]], gold: Sequence[Box]) -> list[float]:
    """Return Eq. 2 computed by this repository's code, in the same form as the other sides."""
    return FORMS["bidirectional"](*match_group(responses, gold)).tolist()


def rate(work: Callable[[], object], count: int) -> float:
    """Return the rate of ``work``, which processes ``count`` items per call, in items per second of CPU time."""
    work()
    times, start = 0, time.process_time()
    while (spent_s := time.process_time() - start) < MIN_TIMED_S:
        work()
        times += 1
    return times * count / spent_s


def measure_boxes(turns: int) -> list[dict[str, Any]]:
    """Return one row per number of boxes and group size, with the rates of all sides in scorings per second."""
    rng = random.Random(1)
    rows = []
    for boxes in BOXES:
        for size in GROUPS:
            gold = draw_boxes(rng, boxes)
            responses = [answer_with(rng, gold, boxes) for _ in range(size)]
            # The cost of the other sides is the same for every response: two responses are enough.
            few = responses[:2]
            if not np.allclose(our_group(responses, gold)[:2], plain_group(few, gold)):
                sys.exit("the box reward differs from plain Python")
            if not np.allclose(pairs_group(few[:1], gold), plain_group(few[:1], gold)):
                sys.exit("NumPy pair by pair differs from plain Python")
            row: dict[str, Any] = {"boxes": boxes, "size": size, "plain": [], "pairs": [], "ours": [], "verdicts": []}
            for _ in range(turns):
                row["plain"].append(rate(lambda few=few, gold=gold: plain_group(few, gold), len(few)))
                row["ours"].append(rate(lambda r=responses, gold=gold: our_group(r, gold), size))
                row["verdicts"].append(rate(lambda r=responses, gold=gold: score_group(r, gold), size))
                row["pairs"].append(rate(lambda few=few, gold=gold: pairs_group(few[:1], gold), 1))
            rival = max(row["plain"], row["pairs"], key=statistics.median)
            row["ratio"] = [ours / theirs for ours, theirs in zip(row["ours"], rival, strict=True)]
            rows.append(row)
    return rows


def print_boxes(rows: list[dict[str, Any]]) -> None:
    """Print the table of the box reward."""
    print("the box reward, scorings a second of one core: median (lowest-highest)")
    print(f"{'boxes':>7} {'group':>5} {'plain':>9} {'by pairs':>9} {'ours':>9} {'verdicts':>9} {'ours/faster':>20}")
    for row in rows:
        rates = [statistics.median(row[side]) for side in ("plain", "pairs", "ours", "verdicts")]
        figures = " ".join(f"{rate:>9.0f}" for rate in rates)
        print(f"{row['boxes']:>4}x{row['boxes']:<2} {row['size']:>5} {figures} {spread(row['ratio'], 1):>20}")


def draw_groups(rng: random.Random, groups: int = 24, size: int = 8) -> list[tuple[Any, tuple[Box, ...], list[str]]]:
    """Return questions with gold boxes and response texts: some boxes after about 600 characters of thought."""
    drawn = []
    for index in range(groups):
        question = QUESTIONS[index % len(QUESTIONS)]
        gold = draw_boxes(rng, rng.randint(1, 8))
        texts = []
        for response in range(size):
            boxes = " and ".join(map(format_box, answer_with(rng, gold, rng.randint(1, 8))))
            answer = question[3][response % len(question[3])]
            texts.append(f"<think>{THOUGHT}It is at {boxes}.</think><answer>{answer}</answer>")
        drawn.append((question, gold, texts))
    return drawn


def run_chain(groups: list[tuple[Any, tuple[Box, ...], list[str]]], gate: GateSettings) -> list[float | None]:
    """Return one score per response.

    The response is parsed and graded, its boxes are scored in its group, and the scores are gated.
    """
    scores = []
    for (answer_type, gold_answer, choices, _), gold, texts in groups:
        parsed = [parse_response(text) for text in texts]
        placed = score_group([response.boxes for response in parsed], gold)
        for response, where in zip(parsed, placed, strict=True):
            grade = grade_answer(response.answer, gold_answer, answer_type, choices)
            outcome = Verdict("outcome", grade.value, grade.reason)
            scores.append(gated((outcome, Verdict("spatial", where.value, where.reason)), gate))
    return scores


def measure_chain(turns: int) -> dict[str, list[float]]:
    """Return the rates of the chain and of its parts, turn by turn, in responses per second.

    A response is one verdict.
    """
    groups, gate = draw_groups(random.Random(2)), GateSettings()
    parsed = [(question, gold, [parse_response(text) for text in texts]) for question, gold, texts in groups]
    plain = [row for row in parsed if "\\" not in row[0][1]]
    verdicts = (Verdict("outcome", 1.0, ""), Verdict("spatial", 0.5, ""), Verdict("reasoning", None, ""))
    count = sum(len(texts) for _, _, texts in groups)

    def grade(rows: list[Any]) -> None:
        for (answer_type, gold, choices, _), _, responses in rows:
            for response in responses:
                grade_answer(response.answer, gold, answer_type, choices)

    parts: dict[str, tuple[Callable[[], object], int]] = {
        "whole chain": (lambda: run_chain(groups, gate), count),
        "parse the response": (lambda: [parse_response(text) for _, _, texts in groups for text in texts], count),
        "grade, LaTeX among them": (lambda: grade(parsed), count),
        "grade, no LaTeX": (lambda: grade(plain), sum(len(responses) for _, _, responses in plain)),
        "boxes, by group": (lambda: [score_group([r.boxes for r in rows], g) for _, g, rows in parsed], count),
        "gate": (lambda: [gated(verdicts, gate) for _ in range(1000)], 1000),
    }
    rates: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(turns):
        for name, (work, done) in parts.items():
            rates[name].append(rate(work, done))
    return rates


def main() -> None:
    """Measure, print the tables and the JSON line."""
    parser = argparse.ArgumentParser(description="The cost of rule-based scoring.")
    parser.add_argument("--turns", type=int, default=3)
    turns = parser.parse_args().turns
    rows = measure_boxes(turns)
    print_boxes(rows)
    chain = measure_chain(turns)
    print("\nresponses a second of one core: median (lowest-highest)")
    for part, rates in chain.items():
        print(f"  {part:<26} {spread(rates, 0):>26}")
    line: dict[str, Any] = {"name": "rewards", "unit": "scorings/s over the faster of plain Python and NumPy by pairs"}
    for boxes in BOXES:
        own = [row for row in rows if row["boxes"] == boxes]
        line[f"ratio_{boxes}x{boxes}"] = {row["size"]: round(statistics.median(row["ratio"]), 1) for row in own}
    line["ratio"] = min(line["ratio_64x64"].values())
    line["verdicts_per_s"] = round(statistics.median(chain["whole chain"]))
    line["graded_per_s"] = round(statistics.median(chain["grade, LaTeX among them"]))
    line["gated_per_s"] = round(statistics.median(chain["gate"]))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
