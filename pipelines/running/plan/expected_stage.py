"""Defines the expected counts and speed of a run's stages (steps), from which the time left is estimated. They are
taken from an earlier run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ExpectedStage:
    """Holds the expected counts and speed of one stage (step of the pipeline) in a run.

    Attributes:
        read: The number of records that the stage reads.
        kept: The number of records that it keeps.
        calls: The number of its calls of models.
        unit_s: The seconds for one call, or for one record if the stage makes no calls; 0 if it is unknown. Before use,
            the values of all stages are multiplied by the same factor, so that they fit the speed of the present run.
            So only the ratios between the stages matter.
        is_sample: Whether the stage reads only a sample of the records. The number of its calls is then independent of
            the records that other stages keep.
    """

    read: float
    kept: float
    calls: float
    unit_s: float = 0.0
    is_sample: bool = False


@dataclass(frozen=True)
class ExpectedRun:
    """Holds the expected counts and speed of each stage (step of the pipeline) of a run.

    ``stages`` maps the name of each stage to these values, in the order of the stages. ``rest_s`` is the number of
    seconds in which no stage works, for example while the workers start.
    """

    stages: Mapping[str, ExpectedStage]
    rest_s: float = 0.0


def unit_seconds(wall_s: float, in_flight_s: float, units: float) -> float:
    """Return the seconds for one call or record of a stage (step of the pipeline), to forecast a larger run.

    ``wall_s`` is the part of the run's wall time that is counted for this stage. ``in_flight_s`` is the sum of the
    durations of its calls. ``units`` is the number of its calls, or of its records if it makes no calls. A larger run
    may have more calls at the same time. If the processor is the limit, the wall time per unit stays the same in the
    larger run. If the latency of a server is the limit, the in-flight time per unit stays the same. The result is the
    geometric mean of these two times per unit, because the error of this mean is small in both cases. The result is 0
    if the stage did nothing.
    """
    return math.sqrt(wall_s * in_flight_s) / units if units else 0.0
