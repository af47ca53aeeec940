"""Computes a model's figures on the held-out questions, with intervals by a bootstrap over scenes.

A figure is a ratio of sums over answers. The answers of several seeds are to the same questions; their figure is the
mean of the seeds' ratios. An interval holds the middle 95 % of the figure over draws of the scenes with replacement, of
one figure or of the difference of two over the same draws. It measures the uncertainty for scenes like these, and
not for other seeds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from groundtrace.grading.input_record import InputRecord, parse_record
from groundtrace.grading.responses.conclusions import contradiction
from groundtrace.grading.responses.response import Response, parse_response
from groundtrace.grading.responses.tag_prose import proses_of
from groundtrace.rewards.form import GROUNDED_FORM, form_fault
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Question, RawRecord

FIGURES = (
    "accuracy",
    "point F1",
    "points in gold boxes",
    "exact points",
    "malformed",
    "contradictory",
    "points an answer",
)
"""The names of the figures, in the order of the last axis but one of :func:`sums`.

Accuracy is the share of right answers, of all answers. Point F1 is the harmonic mean of precision and recall over all
answers: twice the number of gold boxes with a point of their label, divided by the number of points plus the number of
gold boxes. So a second point in the same box lowers it. Points in gold boxes are a share of all points. Exact points is
the share of answers with one point on each gold box and no other, of the answers to questions with gold boxes.
Malformed is the share of responses without the requested form, of all answers. Contradictory is the share of responses
in the requested form whose reasoning concludes something other than their answer, of all answers. Points an answer is
the number of points, right or not.
"""
COUNTED = (
    *("answers", "right", "boxes", "answers with boxes", "points", "points in boxes", "boxes found"),
    *("exact", "malformed", "contradictory"),
)
"""The counts over the answers to the questions of a scene, in the order of the last axis of :func:`counts`.

``boxes`` are the gold boxes, and ``boxes found`` those with a point of their label.
"""
RESAMPLES = 4000
Counts = np.ndarray
"""An array (scenes, counts), the counts of a model's answers by scene."""
Sums = np.ndarray
"""An array (scenes, figures, 2) over a model's answers: the sum for each figure, and the number that it is divided by.
"""
Estimate = tuple[float, float, float]
"""A figure, and the lower and upper limit of its interval."""


def read_held(folder: Path) -> dict[str, InputRecord]:
    """Return the held-out records by id."""
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    records = [parse_record(RawRecord(number, line)) for number, line in enumerate(lines, 1)]
    return {record.id: record for record in records}


def counts(responses: Path, held: Mapping[str, InputRecord]) -> Counts:
    """Return the counts of each scene, in the order of the records, over the answers in a file of ``trainer eval``."""
    scenes = {media: number for number, media in enumerate(dict.fromkeys(r.media for r in held.values()))}
    found = np.zeros((len(scenes), len(COUNTED)), dtype=np.int64)
    for line in responses.read_text("utf-8").splitlines():
        answer = json.loads(line)
        record = held[answer["id"]]
        found[scenes[record.media]] += _counted(answer["text"], answer["verdicts"]["outcome"]["value"], record)
    return found[found[:, 0] > 0]


def sums_of(counted: Counts) -> Sums:
    """Return the sums of each scene for each figure."""
    found = dict(zip(COUNTED, counted.T, strict=True))
    pairs = (
        (found["right"], found["answers"]),
        (2 * found["boxes found"], found["points"] + found["boxes"]),
        (found["points in boxes"], found["points"]),
        (found["exact"], found["answers with boxes"]),
        (found["malformed"], found["answers"]),
        (found["contradictory"], found["answers"]),
        (found["points"], found["answers"]),
    )
    return np.stack([np.stack(pair, axis=-1) for pair in pairs], axis=1).astype(float)


def sums(responses: Path, held: Mapping[str, InputRecord]) -> Sums:
    """Return the sums of each scene for each figure, over the answers in a file of ``trainer eval``."""
    return sums_of(counts(responses, held))


def estimate(models: Sequence[Sums]) -> dict[str, Estimate]:
    """Return each figure of one model, or of the models of several seeds, with its interval."""
    return _estimates(_ratios(models), _resampled(models))


def difference(models: Sequence[Sums], others: Sequence[Sums]) -> dict[str, Estimate]:
    """Return how much higher each figure is than that of the other models, with its interval."""
    return _estimates(_ratios(models) - _ratios(others), _resampled(models) - _resampled(others))


def _estimates(values: np.ndarray, draws: np.ndarray) -> dict[str, Estimate]:
    """Return the figures by name; a figure for which nothing is counted is left out."""
    known = np.flatnonzero(~np.isnan(values))
    low, high = np.nanpercentile(draws[:, known], [2.5, 97.5], axis=0)
    ends = zip(known, low, high, strict=True)
    return {FIGURES[i]: (float(values[i]), float(below), float(above)) for i, below, above in ends}


def _ratios(models: Sequence[Sums]) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.mean([np.divide(*np.moveaxis(model.sum(0), -1, 0)) for model in models], axis=0)


def _resampled(models: Sequence[Sums]) -> np.ndarray:
    """Return the figures over draws of the scenes, as (resamples, figures).

    The same number of scenes gives the same draws.
    """
    scenes = len(models[0])
    rng = np.random.default_rng(0)
    times = rng.multinomial(scenes, np.full(scenes, 1 / scenes), RESAMPLES)
    with np.errstate(invalid="ignore"):
        parts = [np.tensordot(times, model, 1) for model in models]
        return np.mean([part[..., 0] / part[..., 1] for part in parts], axis=0)


def _counted(text: str, outcome: float | None, record: InputRecord) -> np.ndarray:
    """Return the counts of one answer, in the order of :data:`COUNTED`."""
    response = parse_response(text)
    gold, points = record.boxes or (), response.points
    hits = [hit for point in points if (hit := _hit(point, gold)) is not None]
    exact = bool(gold) and len(points) == len(gold) == len(set(hits))
    malformed, contradictory = _form(text, response, record)
    form = (exact, malformed, contradictory)
    return np.array(
        (1, outcome == 1.0, len(gold), bool(gold), len(points), len(hits), len(set(hits)), *form), dtype=int
    )


def _hit(point: Point, gold: Sequence[Box]) -> int | None:
    """Return the index of the gold box of the point's label that contains it; at most one does."""
    held = (box.label == point.label and box.x1 <= point.x <= box.x2 and box.y1 <= point.y <= box.y2 for box in gold)
    return next((number for number, holds in enumerate(held) if holds), None)


def _form(text: str, response: Response, record: InputRecord) -> tuple[bool, bool]:
    """Return whether the response is malformed, and, if it is not, whether its reasoning contradicts its answer."""
    asked = Question(
        record.id, record.source, record.license, (), record.question, record.answer, record.answer_type, record.choices
    )
    own = replace(asked, answer=response.answer or record.answer)
    if contradiction(proses_of(response.think or "")[0], own) is not None and response.has_format:
        return False, True
    return form_fault(text, response, own, GROUNDED_FORM) is not None, False
