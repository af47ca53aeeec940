"""The best validation, and a reward that rises while the accuracy falls."""

import math
from typing import Any

import pytest

from groundtrace.trainer.validation.best import best_of, overfitting


def lines(**metrics: list[float | None]) -> list[dict[str, Any]]:
    """Validations every ten steps."""
    rows = zip(*metrics.values(), strict=True)
    return [{"step": 10 * place} | dict(zip(metrics, row, strict=True)) for place, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("metric", "values", "step"),
    [
        ("accuracy", [0.1, 0.3, 0.2], 10),
        ("accuracy", [0.1, 0.3, 0.3], 10),
        ("accuracy", [None, None, 0.0], 20),
        ("accuracy", [None], None),
        ("accuracy", [], None),
        ("loss", [3.0, 1.0, 2.0], 10),
        ("loss", [1.0, 1.0], 0),
        ("loss", [math.nan, 2.0], 10),
    ],
)
def test_the_best_is_the_first_of_the_highest_or_of_the_lowest_loss(
    metric: str, values: list[float | None], step: int | None
) -> None:
    assert best_of(lines(**{metric: values}), metric) == step


@pytest.mark.parametrize(
    ("accuracy", "loss", "step"),
    [
        ([0.0, 0.0, 0.0], [3.0, 1.0, 2.0], 10),
        ([0.0, 0.2, 0.2], [1.0, 3.0, 2.0], 20),
        ([0.0, 0.0, 0.0], [3.0, 1.0, 1.0], 10),
        ([0.0, 0.0, 0.0], [None, math.nan, 2.0], 20),
        ([0.0, 0.0, 0.0], [None, None, None], 0),
    ],
)
def test_the_best_of_equal_ones_has_the_lowest_loss(
    accuracy: list[float | None], loss: list[float | None], step: int
) -> None:
    assert best_of(lines(accuracy=accuracy, loss=loss), "accuracy") == step


@pytest.mark.parametrize(
    ("reward", "accuracy", "count", "is_found"),
    [
        ([0.1, 0.2, 0.3], [0.5, 0.4, 0.3], 2, True),
        ([0.1, 0.2, 0.3], [0.5, 0.4, 0.3], 3, False),
        ([0.1, 0.2, 0.3], [0.5, 0.4, 0.3], 0, False),
        ([0.1, 0.2, 0.3], [0.5, 0.4, 0.4], 2, False),
        ([0.1, 0.2, 0.2], [0.5, 0.4, 0.3], 2, False),
        ([0.1, 0.2, 0.3, 0.2], [0.5, 0.4, 0.3, 0.2], 2, False),
        ([0.9, 0.1, 0.2, 0.3], [0.1, 0.5, 0.4, 0.3], 2, True),
        ([0.1, None, 0.2, 0.3], [0.5, 0.9, 0.4, 0.3], 2, True),
        ([], [], 1, False),
    ],
)
def test_a_reward_that_rises_while_the_accuracy_falls(
    reward: list[float | None], accuracy: list[float | None], count: int, is_found: bool
) -> None:
    assert (overfitting(lines(reward=reward, accuracy=accuracy), count) is not None) == is_found


def test_the_sentence_has_the_figures() -> None:
    said = overfitting(lines(reward=[0.1, 0.2, 0.31], accuracy=[0.5, 0.4, 0.3]), 2)
    assert said == (
        "the reward rose and the accuracy fell in 2 validations in a row: from step 0 to 20, the reward rose from "
        "0.100 to 0.310, and the accuracy fell from 0.500 to 0.300"
    )
