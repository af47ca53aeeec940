"""Held-out figures: what counts as what, and intervals over scenes."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning.held import FIGURES, difference, estimate, read_held, sums

POINT = '<points x1="{x}" y1="30.5" alt="red square">red square</points>'
COUNT = (
    "<think>I find {points}. Looking over the whole picture, there are {said} red squares.</think>\n"
    "<answer>{answer}</answer>"
)
RECORDS = [
    {
        "id": f"{scene}-{number}",
        "source": "scenes",
        "license": "CC0-1.0",
        "media": [f"images/{scene}.png"],
        "question": "How many red squares are there in the image?",
        "answer": "2",
        "answer_type": "numeric",
        "boxes": [
            {"label": "red square", "bbox": [10, 10, 50, 50]},
            {"label": "red square", "bbox": [80, 10, 120, 50]},
        ],
    }
    for scene in range(2)
    for number in range(2)
]


def said(xs: tuple[int, ...], stated: int, answer: int) -> str:
    return COUNT.format(points=", ".join(POINT.format(x=x) for x in xs), said=stated, answer=answer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS), "utf-8")
    return tmp_path


def answered(folder: Path, texts: list[str], outcomes: list[float]) -> np.ndarray:
    lines = [
        {"id": record["id"], "text": text, "verdicts": {"outcome": {"value": outcome, "reason": ""}}}
        for record, text, outcome in zip(RECORDS, texts, outcomes, strict=True)
    ]
    (folder / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return sums(folder / "responses.jsonl", read_held(folder))


def test_each_figure_counts_what_it_says(folder: Path) -> None:
    texts = [said((30, 100), 2, 2), said((30, 31), 2, 2), said((30,), 1, 2), "2 squares"]
    found = answered(folder, texts, [1.0, 1.0, 1.0, 0.0]).sum(0)
    assert dict(zip(FIGURES, found.tolist(), strict=True)) == {
        "accuracy": [3, 4],
        "point F1": [8, 13],
        "points in gold boxes": [5, 5],
        "exact points": [1, 4],
        "malformed": [1, 4],
        "contradictory": [1, 4],
        "points an answer": [5, 4],
    }


@pytest.mark.parametrize(
    ("text", "outcome", "malformed", "contradictory"),
    [
        (said((30,), 1, 1), 0.0, 0, 0),
        (said((30,), 1, 2), 1.0, 0, 1),
        (said((30, 100), 2, 2).replace("</think>", ""), 1.0, 1, 0),
        ("<answer>2</answer>", 1.0, 1, 0),
        (said((30, 100), 2, 2).replace('y1="30.5"', 'y1="'), 1.0, 1, 0),
    ],
)
def test_a_wrong_answer_may_be_well_formed(
    folder: Path, text: str, outcome: float, malformed: int, contradictory: int
) -> None:
    found = answered(folder, [text] * 4, [outcome] * 4).sum(0)[:, 0].tolist()
    assert found[FIGURES.index("malformed")] == 4 * malformed
    assert found[FIGURES.index("contradictory")] == 4 * contradictory


def of(right: list[int]) -> np.ndarray:
    """A model with so many right answers of 3 in each scene, and nothing else."""
    found = np.zeros((len(right), len(FIGURES), 2))
    found[:, 0, 0], found[:, 0, 1] = right, 3
    return found


def test_the_interval_is_that_of_a_mean_over_scenes() -> None:
    right = np.random.default_rng(1).integers(0, 4, 250)
    value, low, high = estimate([of(right.tolist())])["accuracy"]
    error = np.std(right / 3) / np.sqrt(250)
    assert value == pytest.approx(right.mean() / 3)
    assert (low, high) == (
        pytest.approx(value - 1.96 * error, abs=0.003),
        pytest.approx(value + 1.96 * error, abs=0.003),
    )
    assert set(estimate([of(right.tolist())])) == {"accuracy"}


def test_a_difference_is_over_the_same_scenes() -> None:
    right = [0, 1, 2, 1] * 60
    better = difference([of([n + 1 for n in right])], [of(right)])["accuracy"]
    assert better == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert difference([of(right), of([3] * 240)], [of(right), of([0] * 240)])["accuracy"] == pytest.approx((0.5,) * 3)
