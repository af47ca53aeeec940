"""Checks that several workers keep one endpoint's quota, and measures how their speed scales with their number.

    python benchmarks/bench_scaling.py [--workers 4] [--quota-s 75] [--calls 600] [--records 12000]

A local server takes 200 ms per call, or 500 ms for the scaling. Each worker is a separate process with the ``openai``
endpoint; all share one reply cache and ask different questions. Quota: the endpoint's limits are 1,200 requests per
minute and 32 at once, and the workers could send several times as many; the server counts them. Scaling: 1, 2 and 4
workers, with 16 requests at once for each. Processor: runs of grounded_cot with the embedded engine, which uses no
server, by two worker processes and by one that is limited to one thread on one core, turn by turn. Cores that share
caches, or a host with other load, do less than twice the work of one core. To measure this ceiling, each turn ends with
a run of one worker alone and two such runs in parallel, each on its own core and a quarter as long.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench_saturation import prompt_of
from model_access import Item, Server, models_settings, own_figures, serving
from scenes import SceneKind, render_input

ROOT = Path(__file__).resolve().parents[1]
SCENES = SceneKind(400, 100, 33, ("png",))
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"}
TWO_WORKERS = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
TURNS = 2
PER_MINUTE, AT_ONCE = 1200, 32
PER_WORKER = 16
WINDOW_S = 60.0


def worker(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one worker process: it waits for a line on standard input, and makes calls until they or the time are used
    up.
    """
    from groundtrace.inference.request import Sampling
    from groundtrace.inference.runtime import runtime

    limits = {"max_concurrency": arguments.at_once, "requests_per_minute": arguments.per_minute}
    settings = models_settings(arguments.url, arguments.folder, **limits)
    models, done = runtime().models(settings), 0
    names = iter(range(arguments.first, arguments.first + arguments.calls))

    async def caller() -> None:
        nonlocal done
        for name in names:
            await models.generate("teacher", prompt_of(Item(f"item-{name:06d}")), Sampling(1, 1.0))
            done += 1

    async def work() -> None:
        async with asyncio.timeout(arguments.seconds or None):
            await asyncio.gather(*(caller() for _ in range(2 * arguments.at_once)))

    prompt_of(Item("item-0"))
    print("ready", flush=True)
    sys.stdin.readline()
    with contextlib.suppress(TimeoutError):  # the worker is out of time
        runtime().submit(work()).result()
    runtime().close(settings)
    return {"done": done}


def run_workers(server: Server, folder: Path, count: int, **fields: object) -> list[dict[str, Any]]:
    """Run ``count`` workers, which start together and ask different questions; returns the figures of each."""
    command = [sys.executable, __file__, "--side", "worker", "--url", server.base_url, "--folder", str(folder)]
    command += [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    processes = [
        subprocess.Popen([*command, "--first", str(number * 10**5)], stdin=-1, stdout=-1, text=True)
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a worker did not start")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a worker failed")
    return [json.loads(each.splitlines()[-1]) for each in outputs]


def busiest_minute(begun_s: Sequence[float]) -> int:
    """Return the largest number of requests that began within any window of one minute."""
    most, first = 0, 0
    for last, begin_s in enumerate(begun_s):
        while begin_s - begun_s[first] >= WINDOW_S:
            first += 1
        most = max(most, last - first + 1)
    return most


def quota(folder: Path, workers: int, seconds: float) -> dict[str, Any]:
    """Measure the server's requests in the busiest minute, and its most requests at once."""
    with serving("--slots", "1000") as server:
        limits = {"at_once": AT_ONCE, "per_minute": PER_MINUTE, "calls": 10**5 - 1, "seconds": seconds}
        by_worker = run_workers(server, folder, workers, **limits)
        begun_s = [asked["begin_s"] for asked in server.ask("log")]
        most_inside = server.ask("figures")["most_inside"]
    busiest = busiest_minute(begun_s)
    print(f"quota: {workers} workers, {PER_MINUTE} requests a minute, {AT_ONCE} at once")
    print(f"  busiest minute at the server {busiest} ({busiest / PER_MINUTE:.3f} of the quota)")
    print(f"  most at once {most_inside}; by worker {[each['done'] for each in by_worker]}")
    return {"quota_ratio": round(busiest / PER_MINUTE, 4), "most_at_once": most_inside, "at_once_limit": AT_ONCE}


def rate(folder: Path, workers: int, calls: int) -> tuple[float, float, int]:
    """Return the calls per second of all workers, their CPU seconds per 1,000 calls, and the most requests at once."""
    with serving("--slots", "1000", "--latency-s", "0.5") as server:
        limits = {"at_once": PER_WORKER * workers, "per_minute": 0, "calls": calls, "seconds": 0}
        by_worker = run_workers(server, folder, workers, **limits)
        figures = server.ask("figures")
    if figures["answered"] != calls * workers or figures["most_inside"] > PER_WORKER * workers:
        raise RuntimeError(f"{calls * workers} calls: {figures}")
    cpu_s = 1000 * sum(each["cpu_s"] for each in by_worker) / (calls * workers)
    return figures["answered"] / figures["wall_s"], cpu_s, figures["most_inside"]


def scaling(folder: Path, calls: int) -> dict[str, Any]:
    """Measure the share of linear scaling that several workers reach, in calls per second."""
    print(f"\nscaling: {calls} calls of 0.5 s for each worker, {PER_WORKER} at once for each")
    line: dict[str, Any] = {}
    alone = 0.0
    for workers in (1, 2, 4):
        per_s, cpu_s, most = rate(folder / str(workers), workers, calls)
        alone = alone or per_s
        line[f"linear_{workers}"] = linear = round(per_s / (workers * alone), 3)
        print(
            f"  {workers} workers {per_s:8.1f} calls/s  {linear:.3f} of linear  {cpu_s:.2f} CPU s/1,000  "
            f"at once {most} of {PER_WORKER * workers}"
        )
    return line


def run_s(folder: Path, name: str, options: Sequence[str], cores: set[int]) -> float:
    """Return the seconds of a whole ``beam run`` on these cores. Raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "groundtrace", "run", "grounded_cot", "--input", folder / "input"]
    command += ["--output", folder / name / "run", "--set", "dedup.near=false", *options]
    began_s = time.monotonic()
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env=os.environ | ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.monotonic() - began_s


def ceiling(folder: Path, name: str, cores: Sequence[int]) -> float:
    """Return the throughput of two independent parallel runs, each on its own core, divided by that of one run."""
    alone_s = run_s(folder, f"alone-{name}", (), {cores[0]})
    with ThreadPoolExecutor(2) as pool:
        beside_s = list(pool.map(lambda core: run_s(folder, f"beside-{name}-{core}", (), {core}), cores[:2]))
    return 2 * alone_s / max(beside_s)


def processor(folder: Path, records: int) -> dict[str, Any]:
    """Measure the speed-up of two worker processes over one that has one thread on one core, and its ceiling."""
    render_input(folder / "input", SCENES, records)
    render_input(folder / "short" / "input", SCENES, records // 4)
    cores = sorted(os.sched_getaffinity(0))
    turns, ceilings = [], []
    for turn in range(TURNS):
        one_s = run_s(folder, f"one-{turn}", (), set(cores[:1]))
        two_s = run_s(folder, f"two-{turn}", TWO_WORKERS, set(cores))
        turns.append((one_s, two_s))
        ceilings.append(ceiling(folder / "short", str(turn), cores))
    shares = [one_s / two_s for one_s, two_s in turns]
    one_s, two_s = (statistics.median(side) for side in zip(*turns, strict=True))
    share, most = statistics.median(shares), statistics.median(ceilings)
    print(f"\nprocessor: {records} records, embedded engine, whole runs, {TURNS} turns")
    print(f"  one worker {one_s:.1f} s, two {two_s:.1f} s: {share:.2f} times ({min(shares):.2f}-{max(shares):.2f})")
    print(f"  two runs at the same time: {most:.2f} times one ({min(ceilings):.2f}-{max(ceilings):.2f})", end="")
    print(f", of which the workers reach {share / most:.2f}")
    return {"processor_2": round(share, 3), "processor_ceiling": round(most, 3)}


def main() -> None:
    """Measure, print the results and the JSON line; with ``--side``, run one of the workers instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--quota-s", type=float, default=75.0, help="seconds of the quota measurement (0: none)")
    parser.add_argument(
        "--calls", type=int, default=600, help="calls of each worker in the scaling measurement (0: none)"
    )
    parser.add_argument("--records", type=int, default=12000, help="records of the processor measurement (0: none)")
    parser.add_argument("--side", choices=("worker",), help=argparse.SUPPRESS)
    hidden = (("url", str), ("folder", Path), ("first", int), ("at-once", int), ("per-minute", int), ("seconds", float))
    for name, kind in hidden:
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(worker(arguments) | own_figures()))
        return
    line: dict[str, Any] = {"name": "scaling", "ratio": None, "unit": "calls/s of 4 workers over 4 times those of one"}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        if arguments.quota_s:
            line |= quota(Path(name) / "quota", arguments.workers, arguments.quota_s)
        if arguments.calls:
            line |= scaling(Path(name) / "scaling", arguments.calls)
            line["ratio"] = line["linear_4"]
        if arguments.records:
            line |= processor(Path(name) / "processor", arguments.records)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
