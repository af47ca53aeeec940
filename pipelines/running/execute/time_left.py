"""Estimates the time that a run still needs, from its progress and from an earlier run with the same settings.

The work of each stage (step of the pipeline) is counted in units. A unit is one call of a model, or one record if the
stage makes no calls. The time left of a stage is the number of its units left, multiplied by the seconds for one unit.
The estimate is the sum of these times over all stages, plus the seconds in which no stage will work. These values are
computed as follows:

* Units of a stage: the number of records that it will get, multiplied by its units for each record. The number of
  records is that of the earlier run, scaled to the input of this run. It is corrected if the stages before keep a
  larger or smaller share of their records than in the earlier run. The units for each record are measured in this run
  when the stage has finished at least :data:`MIN_UNITS` records. Before that, the values of the earlier run are used.
  There is one exception: if a stage reads only a sample of the records, its units in the earlier run are scaled, and
  nothing is corrected.
* Measured seconds for one unit: the wall time of the stage divided by its units. Only the second half of the stage's
  wall time until now counts. So a slow start, or a start from the cache, soon has no effect.
* Expected seconds for one unit: those of the earlier run, multiplied by a factor, which is the same for all stages. The
  factor is the time for the units that this run has finished, divided by the time that the earlier run would need for
  as many units. For example, 100 calls at 3 s in this run and at 1.5 s in the earlier run give the factor
  300 s / 150 s = 2. The times are computed from the seconds for one unit; for this run, these are the measured seconds.
  Only stages that have made at least :data:`MIN_UNITS` calls in the second half of their wall time are included.
* Seconds for one unit: the weighted mean of the measured and the expected seconds. The weight of the expected seconds
  is :data:`PRIOR_UNITS`. The weight of the measured seconds is the number of measured units. There is one exception: if
  fewer than :data:`PRIOR_UNITS` units were measured, only the expected seconds count.
* Seconds in which no stage works, for example at the start: as many as in the earlier run.

The rate of the run's calls alone would be misleading, for several reasons. The first stage may make few slow calls, and
a later stage many fast calls. The workers need time to start. A resumed run begins with replies from the cache. A stage
may get fewer records than in the earlier run.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun, ExpectedStage
from groundtrace.stages.plumbing.metrics import StageProgress

MIN_UNITS = 5
"""The minimum number of units (calls or records) of a stage before its measurements in this run are used.

Two measurements need this minimum:

- The seconds that the stage needs for one call show how fast this run is compared to the earlier run. Only the calls in
  the second half of the stage's wall time count.
- The share of records that the stage keeps is measured together with its units for each record. All records that the
  stage has finished count.
"""
PRIOR_UNITS = 20
"""The weight of the expected seconds for one unit (call or record), and the minimum number of measured units.

The time left of a stage is computed from a weighted mean of the expected and the measured seconds for one unit. The
expected seconds are derived from an earlier run, and their weight is this number. The weight of the measured seconds is
the number of measured units. If fewer units than this number were measured, only the expected seconds count, because
the first calls may have waited for a process or a connection.
"""
_NOT_BEGUN = StageProgress()


@dataclass
class _Watched:
    """Holds the progress of one stage (step of the pipeline): its wall time, in-flight time and units.

    A unit is one model call, or one record if the stage makes no calls. The in-flight time is the sum of the durations
    of the calls. ``points`` holds earlier values of the pair (wall time, units).
    """

    wall_s: float = 0.0
    in_flight_s: float = 0.0
    units: int = 0
    points: deque[tuple[float, int]] = field(default_factory=lambda: deque([(0.0, 0)]))

    def latter_half(self) -> tuple[float, int]:
        """Return the seconds and the number of units (calls or records) in the second half of a stage's wall time.

        A stage is a step of the pipeline. Only the time until now counts.
        """
        while len(self.points) > 2 and self.points[1][0] <= self.wall_s / 2:
            self.points.popleft()
        since_s, before = self.points[0]
        return self.wall_s - since_s, self.units - before


class TimeLeft:
    """Follows the stages (steps of the pipeline) of a run, and estimates the time that the run still needs.

    ``expected`` holds the expected calls and seconds of each stage; None if they are unknown. ``before`` maps the name
    of a stage to the stage whose kept records are its input. A stage with another input is not in ``before``.
    """

    def __init__(self, expected: ExpectedRun | None = None, before: Mapping[str, str] | None = None) -> None:
        self._expected, self._before = expected, before or {}
        self._watched: dict[str, _Watched] = {}
        self._now_s: float | None = None
        self._rest_s = 0.0

    def watch(self, now_s: float, stages: Mapping[str, StageProgress]) -> None:
        """Record how many calls and records each stage (step of the pipeline) has finished by now. :meth:`left_s` and
        :meth:`seconds` use these numbers.

        ``now_s`` is the present time of ``time.monotonic()``. ``stages`` holds the counts of each stage that has begun.
        The time since the last call of this method is divided among the stages that have made progress or wait for
        replies.
        """
        passed_s = 0.0 if self._now_s is None else now_s - self._now_s
        self._now_s = now_s
        shares = {name: each.in_flight + _units(each) - self._of(name).units for name, each in stages.items()}
        if any(each.in_flight for each in stages.values()):  # the others only pass records on
            shares = {name: share for name, share in shares.items() if stages[name].in_flight or stages[name].calls}
        total = sum(share for share in shares.values() if share > 0)
        if not total:
            self._rest_s += passed_s
        for name, each in stages.items():
            watched, share = self._of(name), max(0, shares.get(name, 0))
            if share:
                watched.wall_s += passed_s * share / total
                watched.in_flight_s += passed_s * max(each.in_flight, 1)
            watched.units = _units(each)
            if share:
                watched.points.append((watched.wall_s, watched.units))

    def seconds(self) -> dict[str, tuple[float, float]]:
        """Return two times in seconds for each stage (step of the pipeline), by its name. A later run is estimated from
        them.

        The first is the part of the run's wall time that is counted for this stage. The second is the sum of the
        durations of the stage's calls (in-flight time).
        """
        return {name: (watched.wall_s, watched.in_flight_s) for name, watched in self._watched.items()}

    def left_s(self, stages: Mapping[str, StageProgress]) -> float | None:
        """Return the number of seconds that the run still needs; None if it is unknown, or if no work is left.

        ``stages`` holds the counts of each stage (step of the pipeline) that has begun.
        """
        scale = self._scale()
        if self._expected is None or scale is None:
            return None
        seconds = max(0.0, self._expected.rest_s - self._rest_s)
        for name, units in self._units_left(stages).items():
            passed_s, made = self._of(name).latter_half()
            usual_s = scale * (self._expected.stages[name].unit_s or self._fallback_s)
            if made < PRIOR_UNITS:  # the first calls may have waited for a process or a connection
                passed_s, made = 0.0, 0
            seconds += units * (passed_s + PRIOR_UNITS * usual_s) / (made + PRIOR_UNITS)
        return seconds or None

    @property
    def _fallback_s(self) -> float:
        """Return the expected seconds for one unit (a call, or a record) of a stage whose seconds per unit are unknown.

        The result is the mean over all units of those stages (pipeline steps) whose seconds per unit are known from an
        earlier run. It is 1 if there are no such stages.
        """
        known = [each for each in (self._expected.stages.values() if self._expected else ()) if each.unit_s]
        units = sum(_expected_units(each) for each in known)
        return sum(each.unit_s * _expected_units(each) for each in known) / units if units else 1.0

    def _scale(self) -> float | None:
        """Return the ratio of this run's time to the expected time for the same work, e.g. 2.0 if this run needs twice
        as long.

        The times are summed over the stages (pipeline steps) that have made at least :data:`MIN_UNITS` calls of models
        in the second half of the stage's wall time until now. The result is None if there is no such stage yet.
        """
        expected, took_s, usual_s = self._expected.stages if self._expected else {}, 0.0, 0.0
        for name, watched in self._watched.items():
            passed_s, made = watched.latter_half()
            if made >= MIN_UNITS and name in expected and expected[name].calls:
                took_s += watched.units * passed_s / made
                usual_s += watched.units * (expected[name].unit_s or self._fallback_s)
        return took_s / usual_s if usual_s else None

    def _units_left(self, stages: Mapping[str, StageProgress]) -> dict[str, float]:
        """Return, for each expected stage by name, the number of units (calls, or records) that it still has to do.

        A stage is a step of the pipeline. ``stages`` holds the counts of each stage that has begun.
        """
        left, reach, ended = dict[str, float](), 1.0, True
        for name, expected in (self._expected.stages if self._expected else {}).items():
            live = stages.get(name, _NOT_BEGUN)
            done, units = live.kept + live.rejected, _expected_units(expected)
            if not expected.is_sample:
                before = stages.get(self._before.get(name, ""))
                reads = before.kept if before is not None and ended else expected.read * reach
                ended = ended and live.seen >= round(reads) and done >= live.seen
                units = units / expected.read * reads if expected.read else 0.0
                if done >= MIN_UNITS:
                    units = _units(live) / done * max(reads, live.seen)
                    reach = max(reads, live.seen) * live.kept / done / (expected.kept or 1.0)
                elif expected.read:
                    reach = reads / expected.read
                units = _units(live) if ended else units
            left[name] = max(0.0, units - _units(live))
        return left

    def _of(self, name: str) -> _Watched:
        return self._watched.setdefault(name, _Watched())


def _units(stage: StageProgress) -> int:
    """Return the work that a stage (pipeline step) has done: its model calls, or its records if it makes no calls."""
    return stage.calls or stage.kept + stage.rejected


def _expected_units(stage: ExpectedStage) -> float:
    return stage.calls or stage.read
