"""Curves as SVG paths: bounded in size, with gaps, constants and values that are no numbers."""

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.trainer.watching.curves import (
    HEIGHT,
    LEFT,
    MAX_CHARTS,
    MAX_DOTS,
    MAX_POINTS,
    WIDTH,
    charts,
    short,
    smoothed,
    thinned,
    ticks,
    zeros,
)


def steps(count: int, **values: Any) -> list[dict[str, Any]]:
    return [{"step": step} | {name: value(step) for name, value in values.items()} for step in range(1, count + 1)]


def test_a_chart_has_training_validation_and_the_constant_of_each() -> None:
    metrics = steps(10, reward=lambda step: step / 10, blind_reward=lambda _: 0.2)
    validations = [{"step": step, "reward": step / 20, "blind_reward": 0.4} for step in (0, 5, 10)]
    [reward], more = charts(metrics, validations, best=10)
    assert (reward.title, more) == ("reward", [])
    last = {"blind_training": 0.2, "blind_validation": 0.4, "training": 1.0, "validation": 0.5}
    assert {line.kind: line.last for line in reward.lines} == last
    assert reward.figures == "held out 0.5 (never looks 0.4) · training 1 (never looks 0.2)"
    assert [text for *_, text in reward.lines[-1].dots] == ["step 0: 0", "step 5: 0.25", "step 10: 0.5"]
    assert reward.best_x == reward.lines[-1].dots[-1][0] == WIDTH - 8


@pytest.mark.parametrize("has_validation", [False, True])
def test_without_a_constant_of_its_own_a_curve_has_none(has_validation: bool) -> None:
    metrics = steps(2, reward=lambda _: 0.5, blind_reward=lambda _: 0.2)
    [reward], _ = charts(metrics, [{"step": 2, "reward": 0.25}] if has_validation else [])
    text = "training 0.5 (never looks 0.2)"
    assert reward.figures == (f"held out 0.25 · {text}" if has_validation else text)


def test_a_validation_before_the_first_step() -> None:
    [accuracy], _ = charts([], [{"step": 0, "accuracy": 0.5}])
    assert accuracy.lines[0].dots == ((float(LEFT), pytest.approx(81.0), "step 0: 0.5"),)


@pytest.mark.parametrize(("count", "dots"), [(1, ["step 1: 0.5"]), (2, [])])
def test_a_single_step_is_a_dot(count: int, dots: list[str]) -> None:
    [loss], _ = charts(steps(count, loss=lambda _: 0.5), [])
    assert [text for *_, text in loss.lines[0].dots] == dots


def test_metrics_of_a_recipe_come_after_the_others_and_zeros_have_no_chart() -> None:
    first, more = charts(steps(3, loss=lambda _: 1.0, kl=lambda _: 0.0, hard_weight=float, unscored=lambda _: 0.0), [])
    assert [each.title for each in first] == ["loss"]
    assert [each.title for each in more] == ["hard_weight"]


def test_zeros_are_named_by_their_titles() -> None:
    metrics = steps(
        3, loss=lambda _: 1.0, kl=lambda _: 0.0, unscored=lambda _: 0.0, hard=lambda _: None, idle_steps=lambda _: 0
    )
    validations = [{"step": 3, "accuracy": 0.0, "accuracy_low": 0.0, "accuracy_high": 0.4, "iou": 0.0}]
    assert zeros(metrics, validations) == ["accuracy", "IoU of boxes", "KL to the reference", "unscored"]


def test_the_interval_of_an_accuracy_is_a_stroke() -> None:
    """Bounds have no charts of their own, and a validation of an earlier version has none."""
    bounded = {"accuracy": 0.5, "accuracy_low": 0.2, "accuracy_high": 0.8}
    [accuracy], more = charts([], [{"step": step} | bounded for step in (0, 10)])
    [line] = accuracy.lines
    assert more == [] and [x for x, *_ in line.whiskers] == [x for x, *_ in line.dots]
    for (_, high, low), (_, y, _) in zip(line.whiskers, line.dots, strict=True):
        assert 0 < high < y < low < HEIGHT
    [earlier], _ = charts([], [{"step": 0, "accuracy": 0.4}, {"step": 10} | bounded])
    assert earlier.lines[0].whiskers == ()


@pytest.mark.parametrize("values", [[], [None], [math.nan, None], ["text"]])
def test_nothing_to_draw(values: list[Any]) -> None:
    assert charts([{"step": step, "loss": value} for step, value in enumerate(values, 1)], []) == ([], [])


def test_the_size_is_bounded() -> None:
    names = [f"metric {number}" for number in range(2 * MAX_CHARTS)]
    line = dict.fromkeys(names, 1.5) | {"reward": 0.5}
    metrics = [{"step": step} | line for step in range(1, 3001)]
    [reward], more = charts(metrics, [{"step": step, "reward": 0.5} for step in range(3000)])
    assert len(more) == MAX_CHARTS
    training, validation = reward.lines
    assert training.raw.count(" ") < 2 * MAX_POINTS and len(validation.dots) <= MAX_DOTS


@given(st.lists(st.floats(-1e30, 1e30) | st.none(), min_size=1, max_size=40))
def test_all_is_inside_the_picture(values: list[float | None]) -> None:
    found, _ = charts([{"step": step, "loss": value} for step, value in enumerate(values, 1)], [])
    for chart in found:
        for line in chart.lines:
            for x, y in re.findall(r"[ML]([\d.]+) ([-\d.]+)", f"{line.raw} {line.smooth}"):
                assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT
        assert all(0 <= place <= WIDTH for place, _ in chart.x_ticks)
        assert all(0 <= place <= HEIGHT for place, _ in chart.y_ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_and_between_the_bounds(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert len(found) <= 7 and all(low - span * 1e-6 <= value <= low + span * (1 + 1e-6) for value in found)


def test_thinned_points_are_means() -> None:
    points = [(float(x), float(x)) for x in range(1, 11)]
    assert thinned(points, 5) == [(2.0, 1.5), (4.0, 3.5), (6.0, 5.5), (8.0, 7.5), (10.0, 9.5)]
    assert thinned(points, 4) == [(3.0, 2.0), (6.0, 5.0), (9.0, 8.0), (10.0, 10.0)]
    assert thinned([], 5) == []


def test_smoothed_points() -> None:
    assert smoothed([(0.0, 1.0), (1.0, 3.0)]) == [(0.0, 1.0), (1.0, 3.0)]
    points = [(float(x), float(x % 2)) for x in range(80)]
    assert all(0.3 < y < 0.7 for _, y in smoothed(points))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.61234, "0.612"),
        (1234.5, "1,234"),
        (1e-5, "1e-05"),
        (2.5e-7, "2.5e-07"),
        (-0.5, "-0.5"),
        (3e7, "3e+07"),
    ],
)
def test_numbers_in_short(value: float, text: str) -> None:
    assert short(value) == text
