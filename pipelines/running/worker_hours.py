"""The worker time of a run, in hours of one core, from our benchmarks.

| constant | command | date |
|---|---|---|
| ``RECORD_S`` | ``benchmarks/bench_pipeline_overhead.py --flat --profile``, steady | 2026-11-22 |
| ``CALL_S`` | ``benchmarks/bench_saturation.py`` | 2026-11-21 |
| ``START_S`` | a job of 20 records on a worker that installs the staged wheels (docs/workers.md) | 2026-11-23 |

All on one core of an AMD EPYC, a shared virtual machine.
"""

RECORD_S = (1 / 104.9, 1 / 11.2)
"""Seconds of a core for a record, its replies in the cache: drawings of 400×100 px, camera pictures of 1280×960 px."""
CALL_S = (1.1e-3, 2.2e-3)
"""Seconds of a core for a call: text, and with an image of 60 KB."""
START_S = 64.0
"""Seconds until a worker that has to install our requirements begins to work; a custom image saves them."""


def worker_hours(records: float, calls: float) -> tuple[float, float]:
    """The fewest and the most hours of one core for so many records and calls, without waiting for servers."""
    least, most = (records * of_record + calls * of_call for of_record, of_call in zip(RECORD_S, CALL_S, strict=True))
    return least / 3600, most / 3600


def workers_text(records: float, calls: float) -> str:
    """The line of a forecast on workers."""
    least, most = worker_hours(records, calls)
    return (
        f"  workers: {least:.2f} to {most:.2f} hours of one core (small drawings, 1.2-megapixel pictures), "
        f"{START_S:.0f} s more for each worker without a custom image; the time of waiting for servers is not included"
    )
