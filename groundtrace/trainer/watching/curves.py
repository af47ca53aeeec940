"""Computes the curves of a training's metrics as SVG paths. The HTML template of the page train.html draws them.

A curve has at most ``MAX_POINTS`` points, even if the training has more steps. Each point is the mean over several
steps. So the page is small, and it needs no script.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 340, 176
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 22
"""The width of the empty border around the drawing area, in SVG units."""
MAX_POINTS, MAX_DOTS, MAX_CHARTS = 240, 60, 48
LEAST = 1e-30
"""A value is drawn as 0 if its absolute value is smaller than this."""
SMOOTHED_OVER = 20
"""The smoothed line of a metric of N points is its running mean over N / SMOOTHED_OVER points."""
Point = tuple[float, float]
"""A step of the training, and the value of a metric at this step."""
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Metric:
    """Describes one chart: its title, and the names of the metrics that it draws.

    ``training`` is a metric's name in the records of the training, and ``validation`` is its name in the records of the
    validation. ``blind`` is the name of a constant that is drawn for comparison: the value that a model could reach
    without seeing the images. The records of the training hold this constant for the questions of the training, and
    those of the validation hold it for the questions of the validation. A name is "" if the chart has no such curve.
    ``bounds`` holds the names of the lower and the upper bound of the validation's value; it is empty without them.
    """

    title: str
    training: str = ""
    validation: str = ""
    blind: str = ""
    bounds: tuple[str, ...] = ()


METRICS = (
    Metric("reward", "reward", "reward", "blind_reward"),
    Metric("accuracy", "outcome", "accuracy", "blind_accuracy", ("accuracy_low", "accuracy_high")),
    Metric("point F1", "", "point_f1"),
    Metric("IoU of boxes", "", "iou"),
    Metric("loss", "loss", "loss"),
    Metric("entropy", "entropy", "entropy"),
    Metric("tokens of a response", "response_tokens", "response_tokens"),
    Metric("truncated responses", "truncated", "truncated"),
    Metric("log-probability gap to the sampler", "logprob_gap", "logprob_gap"),
    Metric("truncated importance weights", "weights_capped", "weights_capped"),
    Metric("norm of the gradient", "grad_norm"),
    Metric("learning rate", "lr"),
    Metric("KL to the reference", "kl"),
    Metric("tokens per second", "tokens_per_s"),
)
"""The charts that the page shows first. Every other metric has its own chart after them."""
HIDDEN = (
    *("step", "idle_steps", "wall_s", "rollout_s", "questions", "groups_sampled"),
    *("accuracy_low", "accuracy_high"),
)
"""Fields of the records that have no chart."""


@dataclass(frozen=True)
class Line:
    """Holds one curve of a chart.

    Attributes:
        kind: ``training`` or ``validation``. A constant for comparison (:class:`Metric`) has the kind
            ``blind_training`` or ``blind_validation``, by the questions to which it belongs.
        raw: an SVG path. For ``training``, it is the line through all points. For a constant, it is a horizontal line.
            For ``validation``, it is "".
        smooth: an SVG path. For ``training``, it is the line of the running mean. For ``validation``, it is the line
            through all points. For a constant, it is "".
        dots: points that are drawn as dots, as (x, y, text), with x and y in SVG units. For ``validation``, these are
            all points. For ``training``, it is the only point, because a line through one point is invisible; it is
            empty if there are several points. For a constant, it is empty.
        last: the last value of the curve.
        whiskers: for ``validation``, the intervals of the points, as (x, y of the upper bound, y of the lower bound) in
            SVG units. It is empty if the intervals are unknown.
    """

    kind: str
    raw: str
    smooth: str
    dots: tuple[tuple[float, float, str], ...]
    last: float
    whiskers: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Chart:
    """Holds one chart of the page train.html: its title, its curves, and the ticks of its axes.

    ``x_ticks`` and ``y_ticks`` hold the ticks as (position in SVG units, text). ``best_x`` is the horizontal position
    of the best validation; None if the chart does not mark it.
    """

    title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    best_x: float | None = None

    @property
    def figures(self) -> str:
        """Return the last value of each curve as text, with the value that is possible without seeing the images.

        An example is ``held out 0.11 (never looks 0.358) · training 0.172 (never looks 0.208)``. In this text, "held
        out" is the validation. The part in parentheses is left out if its value is unknown.
        """
        last = {line.kind: short(line.last) for line in self.lines}
        found = []
        for kind, title in (("validation", "held out"), ("training", "training")):
            own, blind = last.get(kind), last.get(f"blind_{kind}")
            texts = [title, own, blind and f"(never looks {blind})"]
            if own or blind:
                found.append(" ".join(text for text in texts if text))
        return " · ".join(found)


def charts(metrics: Records, validations: Records, best: int | None = None) -> tuple[list[Chart], list[Chart]]:
    """Return two lists of charts: those of the main metrics (:data:`METRICS`), and those of all other metrics.

    ``metrics`` holds one record for each step of the training, and ``validations`` holds one for each validation. A
    record maps the names of metrics to values, and the key ``step`` to the number of finished steps. ``best`` is the
    step of the best validation, which the charts mark; None if there is none. The second list has at most
    ``MAX_CHARTS`` charts. A metric without values, or with the value 0 at all steps, has no chart.
    """
    steps = max([1, *(line["step"] for line in (*metrics, *validations))])
    first = [_chart(metric, metrics, validations, steps, best) for metric in METRICS]
    more = [_chart(metric, metrics, validations, steps, best) for metric in _others(metrics, validations)]
    return [each for each in first if each is not None], [each for each in more if each is not None]


def zeros(metrics: Records, validations: Records) -> list[str]:
    """Return the titles of the metrics that have no chart because their value is 0 at all steps.

    ``metrics`` holds one record for each step of the training, and ``validations`` one for each validation
    (:func:`charts`).
    """
    found = []
    for metric in (*METRICS, *_others(metrics, validations)):
        points = [*_points(metrics, metric.training), *_points(validations, metric.validation)]
        points += [*_points(metrics, metric.blind), *_points(validations, metric.blind)] if points else []
        if points and not any(y for _, y in points):
            found.append(metric.title)
    return found


def _others(metrics: Records, validations: Records) -> list[Metric]:
    """Return the other metrics in the records, at most :data:`MAX_CHARTS`.

    These are the metrics that are in neither :data:`METRICS` nor :data:`HIDDEN`.
    """
    named = {name for metric in METRICS for name in (metric.training, metric.validation, metric.blind)}
    names = dict.fromkeys(name for record in (*metrics, *validations) for name in record)
    return [Metric(name, name, name) for name in names if name not in named and name not in HIDDEN][:MAX_CHARTS]


def _chart(metric: Metric, metrics: Records, validations: Records, steps: int, best: int | None) -> Chart | None:
    trained = thinned(_points(metrics, metric.training))
    validated = thinned(_points(validations, metric.validation), MAX_DOTS)
    levels = {
        kind: [(x, found[-1][1]) for x in (0.0, float(steps))]
        for kind, records in (("blind_training", metrics), ("blind_validation", validations))
        if (found := _points(records, metric.blind))
    }
    values = [y for _, y in (*trained, *validated, *itertools.chain(*levels.values()))]
    if not any(values):
        return None
    bounds = [thinned(_points(validations, name), MAX_DOTS) for name in metric.bounds]
    low, high = _range([*values, *(y for points in bounds for _, y in points)])
    scale = Scale(float(steps), low, high)
    lines = [
        *(Line(kind, scale.path(level), "", (), level[-1][1]) for kind, level in levels.items()),
        _training_line(scale, trained) if trained else None,
        _validation_line(scale, validated, bounds) if validated else None,
    ]
    y_ticks = tuple((scale.y(value), short(value)) for value in ticks(low, high))
    x_ticks = tuple((scale.x(value), f"{value:,.0f}") for value in ticks(0.0, float(steps)) if value == int(value))
    marked = best is not None and validated and metric.validation
    return Chart(
        metric.title,
        tuple(line for line in lines if line),
        x_ticks,
        y_ticks,
        scale.x(float(best or 0)) if marked else None,
    )


def _training_line(scale: "Scale", points: Sequence[Point]) -> Line:
    dots = scale.dots(points) if len(points) == 1 else ()
    return Line("training", scale.path(points), scale.path(smoothed(points)), dots, points[-1][1])


def _validation_line(scale: "Scale", points: Sequence[Point], bounds: Sequence[Sequence[Point]]) -> Line:
    """Return the line of the validations. ``bounds`` is empty, or holds the lower and the upper bounds of the points.

    The line has no intervals if a point has none, because an earlier version of the trainer recorded it.
    """
    steps = [x for x, _ in points]
    is_bounded = bool(bounds) and all([x for x, _ in each] == steps for each in bounds)
    pairs = zip(*bounds, strict=True) if is_bounded else ()
    whiskers = tuple((scale.x(x), scale.y(high), scale.y(low)) for (x, low), (_, high) in pairs)
    return Line("validation", "", scale.path(points), scale.dots(points), points[-1][1], whiskers)


@dataclass(frozen=True)
class Scale:
    """Converts steps and values of a chart to positions in SVG units.

    The horizontal axis has the steps from 0 to ``steps``. The vertical axis has the values from ``low`` to ``high``.
    """

    steps: float
    low: float
    high: float

    def x(self, step: float) -> float:
        """Return the horizontal position of a step, in SVG units."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * step / max(self.steps, 1.0), 1)

    def y(self, value: float) -> float:
        """Return the vertical position of a value, in SVG units."""
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / (self.high - self.low), 1)

    def path(self, points: Iterable[Point]) -> str:
        """Return the SVG path (the attribute ``d``) of a line through the points, each given as (step, value)."""
        return " ".join(f"{'L' if number else 'M'}{self.x(x)} {self.y(y)}" for number, (x, y) in enumerate(points))

    def dots(self, points: Iterable[Point]) -> tuple[tuple[float, float, str], ...]:
        """Return each point as (x, y, text), with x and y in SVG units. The text names the step and the value."""
        return tuple((self.x(x), self.y(y), f"step {x:,.0f}: {short(y)}") for x, y in points)


def _points(records: Records, name: str) -> list[Point]:
    """Return the points of the metric ``name``, each as (number of finished steps, value)."""
    found = [(float(record["step"]), record.get(name)) for record in records if name]
    known = [(x, float(y)) for x, y in found if isinstance(y, int | float) and math.isfinite(y)]
    return [(x, y if abs(y) >= LEAST else 0.0) for x, y in known]


def thinned(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """Reduce the number of points to at most ``most``, and return the new points.

    Each new point replaces the same number of consecutive points: it has their mean value, and the step of the last of
    them. The last new point may replace fewer points.
    """
    size = math.ceil(len(points) / most) or 1
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in parts]


def smoothed(points: Sequence[Point]) -> list[Point]:
    """Return the points with each value replaced by the running mean at this point.

    The mean of N points is over about N / ``SMOOTHED_OVER`` points: the point itself, and as many points before it as
    after it. Near both ends, the mean is over fewer points.
    """
    half = len(points) // (2 * SMOOTHED_OVER)
    parts = (points[max(place - half, 0) : place + half + 1] for place in range(len(points)))
    return [(x, sum(y for _, y in part) / len(part)) for (x, _), part in zip(points, parts, strict=True)]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of the vertical axis, with some space below and above the values.

    The lower bound is below 0 only if a value is negative.
    """
    low, high = min(values), max(values)
    is_flat = high - low <= 1e-9 * max(abs(low), abs(high))
    space = (abs(low) / 2 or 1.0) if is_flat else (high - low) * 0.06
    return (max(low - space, 0.0) if low >= 0 else low - space), high + space


def ticks(low: float, high: float) -> list[float]:
    """Return three to six round values between ``low`` and ``high``, at which an axis is labelled."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough)
    first = math.ceil(low / step)
    digits = 2 - math.floor(math.log10(step))
    values = [round((first + number) * step, digits) for number in range(7)]
    return [value + 0.0 for value in values if low <= value <= high]


def short(value: float) -> str:
    """Return a number as a short text, such as ``0.612``, ``1,230`` or ``1e-05``."""
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.1e}".replace(".0e", "e")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
