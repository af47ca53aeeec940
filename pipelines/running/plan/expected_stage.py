"""Defines what a run expects of its stages, from an earlier run, to estimate the time left."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ExpectedStage:
    """Holds what is expected of a stage: the records that it reads and keeps, its calls, and the seconds of one.

    ``unit_s`` are the seconds of a call, or of a record if the stage makes no calls; 0 if they are unknown. Only their
    ratio to those of other stages matters. The calls of an ``is_sample`` stage do not depend on how many records the
    other stages keep.
    """

    read: float
    kept: float
    calls: float
    unit_s: float = 0.0
    is_sample: bool = False


@dataclass(frozen=True)
class ExpectedRun:
    """Holds what is expected of each stage, in order, and the seconds in which no stage works, such as the start."""

    stages: Mapping[str, ExpectedStage]
    rest_s: float = 0.0


def unit_seconds(wall_s: float, in_flight_s: float, units: float) -> float:
    """Return the seconds of a unit of a stage, for the forecast of a larger run; 0 if the stage did nothing.

    If a processor is the limit, the wall time of a unit is independent of the number of calls in flight. If a server's
    latency is the limit, the in-flight time is. The geometric mean is wrong by little in both cases.
    """
    return math.sqrt(wall_s * in_flight_s) / units if units else 0.0
