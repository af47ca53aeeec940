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
from groundtrace.rewards.form import GROUNDED_FORM, form_fault, prose_of
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Question, RawRecord

FIGURES = ("accuracy", "points in gold boxes", "exact points", "malformed", "contradictory", "points an answer")
"""The names of the figures, in the order of the last axis but one of :func:`sums`.

Accuracy is the share of right answers, of all answers. Points in gold boxes are a share of all points. Exact points is
the share of answers with one point on each gold box and no other, of the answers to questions with gold boxes.
Malformed is the share of responses without the requested form, of all answers. Contradictory is the share of responses
in the requested form whose reasoning concludes something other than their answer, of all answers. Points an answer is
the number of points, right or not.
"""
RESAMPLES = 4000
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


def sums(responses: Path, held: Mapping[str, InputRecord]) -> Sums:
    """Return the sums for each scene, in the order of the records, over the answers that ``trainer eval`` wrote to a
    file.
    """
    scenes = {media: number for number, media in enumerate(dict.fromkeys(r.media for r in held.values()))}
    found = np.zeros((len(scenes), len(FIGURES), 2))
    for line in responses.read_text("utf-8").splitlines():
        answer = json.loads(line)
        record = held[answer["id"]]
        found[scenes[record.media]] += _counted(answer["text"], answer["verdicts"]["outcome"]["value"], record)
    return found


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
    response = parse_response(text)
    gold, points = record.boxes or (), response.points
    hits = [_hit(point, gold) for point in points]
    exact = len(points) == len(gold) and set(hits) == set(range(len(gold)))
    malformed, contradictory = _form(text, response, record)
    return np.array(
        [
            (outcome == 1.0, 1),
            (sum(hit is not None for hit in hits), len(hits)),
            (bool(gold) and exact, bool(gold)),
            (malformed, 1),
            (contradictory, 1),
            (len(points), 1),
        ],
        dtype=float,
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
    if contradiction(prose_of(response.think or ""), own) is not None and response.has_format:
        return False, True
    return form_fault(text, response, own, GROUNDED_FORM) is not None, False
