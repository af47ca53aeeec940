"""Defines the expected counts and speed of a run's stages, taken from an earlier run, to estimate the time left."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ExpectedStage:
    """Holds the expected values of a stage: the records that it reads and keeps, its calls, and its speed.

    ``unit_s`` is the number of seconds for one call, or for one record if the stage makes no calls; 0 if it is unknown.
    Only the ratio between the values of ``unit_s`` of different stages is used. If ``is_sample`` is True, the stage
    reads a sample of the records. The number of its calls is then independent of the records that other stages keep.
    """

    read: float
    kept: float
    calls: float
    unit_s: float = 0.0
    is_sample: bool = False


@dataclass(frozen=True)
class ExpectedRun:
    """Holds the expected counts and speed of each stage, in order, and the seconds ``rest_s`` in which no stage works.

    For example, no stage works while the workers start.
    """

    stages: Mapping[str, ExpectedStage]
    rest_s: float = 0.0


def unit_seconds(wall_s: float, in_flight_s: float, units: float) -> float:
    """Return the seconds for one of the ``units`` (calls or records) of a stage; 0 if the stage did nothing.

    The value is for the forecast of a larger run, which may have more calls in flight. If the processor is the limit,
    the wall time per unit stays the same in the larger run. If the latency of a server is the limit, the in-flight time
    per unit stays the same. The result is the geometric mean of both times, whose error is small in both cases.
    """
    return math.sqrt(wall_s * in_flight_s) / units if units else 0.0
