"""Measures what each of Beam's engines costs per record and per job, beyond the pipeline's own work.

    python benchmarks/bench_engines.py [--engines local,processes,portable,prism,flink,flink-cluster,spark]
                                       [--records 500 1500] [--turns 2]

``beam run`` of grounded_cot, each time into a new folder, with every reply in the cache. Runs of two sizes separate the
cost per record from the cost per job. Engines of scripts/ are started before the first turn; without ``--engines``, all
installed engines are compared. Exit code 1 if a run sends a request or its shards differ from those of the local run.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_kill
from bench_kill import CONFIG, PIPELINE, ROLES, ROOT, write_input
from engine_cluster import started
from model_access import SIDE_LIMIT_S, serving

SHARDS, WINDOW, SAMPLES = 4, 64, 16
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Line = dict[str, Any]


@dataclass(frozen=True)
class Engine:
    """How a run reaches an engine: Beam options, or a folder of scripts/ and the environment of its start.sh."""

    what: str
    options: tuple[str, ...] = ()
    scripts: str = ""
    environment: tuple[tuple[str, str], ...] = ()


ENGINES = {
    "local": Engine("Beam's Python runner, in the process"),
    "processes": Engine(
        "the same with two worker processes", ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    ),
    "portable": Engine(
        "the same behind Beam's Python job server",
        ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    ),
    "prism": Engine("Prism, one worker process", scripts="prism"),
    "flink": Engine("Flink in its job server", scripts="flink"),
    "flink-cluster": Engine(
        "Flink, a job manager and two task managers", scripts="flink", environment=(("FLINK", "cluster"),)
    ),
    "spark": Engine("Spark, a master and two workers", scripts="spark"),
}


@dataclass(frozen=True)
class Started:
    """A running engine: the Beam options of a run on it, the folder of its process ids, and its start-up time."""

    options: tuple[str, ...]
    state: Path | None = None
    start_s: float = 0.0

    def cpu_s(self) -> float:
        """Return the CPU seconds so far of the engine's processes and of their ended children."""
        if self.state is None:
            return 0.0
        sessions = {int(path.read_text()) for path in self.state.glob("*.pid")}
        return TICK_S * sum(ticks for session, ticks in _processes() if session in sessions)


def _processes() -> Iterator[tuple[int, int]]:
    """Yield, for each process, its session and its clock ticks, which include those of its ended children."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            yield int(fields[3]), sum(map(int, fields[11:15]))


@dataclass(frozen=True)
class Took:
    """The duration of a run, and the CPU seconds of the run and of the engine's processes."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class EngineCost:
    """The cost computed from runs of two sizes: milliseconds per record, and seconds per job without its records."""

    record_ms: float
    job_s: float

    @classmethod
    def of(cls, few: int, few_s: float, many: int, many_s: float) -> "EngineCost":
        """Return the cost from the line through both points."""
        record_s = (many_s - few_s) / (many - few)
        return cls(1000 * record_s, few_s - few * record_s)


class EnginesBench:
    """The input, the cache that holds every reply, and the rows and shards that the local runs wrote."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.written: dict[int, Any] = {}
        roles = "\n".join(f'{role} = "server"' for role in ROLES)
        config = CONFIG.format(url=url, window=WINDOW, samples=SAMPLES, roles=roles)
        (folder / "config.toml").write_text(f"{config}\n[write]\nshards = {SHARDS}\n", "utf-8")

    def fill(self, records: int, server: bench_kill.Server) -> None:
        """Run once over ``records`` records, so that the cache has their replies."""
        self.run(records, Started(()))
        server.ask("reset", b"")

    def run(self, records: int, engine: Started) -> Took:
        """Time one run. Raises RuntimeError if it fails or writes other rows than the first run of this size."""
        name = "run"
        command = [sys.executable, "-m", "groundtrace", "run", PIPELINE, "--input", self.folder / "input"]
        command += ["--output", self.folder / name, "--cache", self.folder / "cache", "--limit", records]
        command += ["--config", self.folder / "config.toml", *(["--", *engine.options] if engine.options else [])]
        used, own = engine.cpu_s(), _children_s()
        began = time.monotonic()
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False, timeout=SIDE_LIMIT_S
        )
        took = Took(time.monotonic() - began, engine.cpu_s() - used + _children_s() - own)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        written = bench_kill.KillBench(self.folder, bench_kill.Server("")).written(name)
        if written != self.written.setdefault(records, written):
            raise RuntimeError(f"{records} records: other rows or shards than those of the local run")
        shutil.rmtree(self.folder / name)
        return took


def _children_s() -> float:
    """Return the CPU seconds of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def ready(name: str, folder: Path) -> Iterator[Started]:
    """Yield the engine; an engine with scripts is started before the block and stopped after it."""
    engine = ENGINES[name]
    if not engine.scripts:
        yield Started(engine.options)
        return
    began = time.monotonic()
    with started(engine.scripts, folder / name, **dict(engine.environment)) as cluster:
        yield Started(cluster.options, cluster.state, time.monotonic() - began)


def measure(
    names: list[str], sizes: tuple[int, int], turns: int, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return, by engine, the runs of each turn by size, and the started engines."""
    runs: dict[str, list[dict[int, Took]]] = {name: [] for name in names}
    with serving("--script", "--latency-s", "0", "--slots", "1000") as server, contextlib.ExitStack() as stack:
        write_input(folder / "input", max(sizes))
        bench = EnginesBench(folder, server.base_url)
        for records in sizes:
            bench.fill(records, server)
        engines = {name: stack.enter_context(ready(name, folder)) for name in names}
        for turn in range(turns):
            for name, engine in engines.items():
                runs[name].append({records: bench.run(records, engine) for records in sizes})
                shown = ", ".join(
                    f"{records}: {took.wall_s:.1f} s, {took.cpu_s:.1f} CPU s"
                    for records, took in runs[name][-1].items()
                )
                print(f"turn {turn + 1}, {name}: {shown}; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        if sent := server.ask("figures")["requests"]:
            raise RuntimeError(f"{sent} requests were sent, although the cache holds every reply")
    return runs, engines


def cost(turns: list[dict[int, Took]], sizes: tuple[int, int], what: str) -> EngineCost:
    """Return the cost of an engine in ``wall_s`` or ``cpu_s``, from each size's fastest turn, which is the least
    disturbed.
    """
    few_s, many_s = (min(getattr(turn[size], what) for turn in turns) for size in sizes)
    return EngineCost.of(sizes[0], few_s, sizes[1], many_s)


def set_up() -> list[str]:
    """Return the engines that need no setup, and those whose parts setup.sh has downloaded."""
    parts = Path(os.environ.get("ENGINE_PARTS", ROOT / ".engines"))
    return [name for name, engine in ENGINES.items() if not engine.scripts or (parts / engine.scripts).is_dir()]


def ratios(runs: Mapping[str, list[dict[int, Took]]], sizes: tuple[int, int], what: str) -> dict[str, float]:
    """Return, by engine, its cost per record divided by that of the local runner."""
    local = cost(runs["local"], sizes, what).record_ms
    return {name: round(cost(turns, sizes, what).record_ms / local, 2) for name, turns in runs.items()}


def main() -> None:
    """Measure, print the table, and end with the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--engines", help=f"some of {','.join(ENGINES)}, comma-separated; local is always among them")
    parser.add_argument("--records", type=int, nargs=2, default=(500, 1500), metavar=("FEW", "MANY"))
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    names = arguments.engines.split(",") if arguments.engines else set_up()
    if unknown := sorted(set(names) - set(ENGINES)):
        parser.error(f"unknown engines: {', '.join(unknown)}")
    few, many = sizes = tuple(arguments.records)
    if not 0 < few < many:
        parser.error("--records: FEW must be less than MANY")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # otherwise the engines would keep running
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        try:
            runs, engines = measure(
                ["local", *(n for n in names if n != "local")], sizes, arguments.turns, Path(folder)
            )
        except RuntimeError as error:
            raise SystemExit(f"bench_engines: {error}") from error
    load = os.getloadavg()[0]
    print(f"{few} and {many} records, {arguments.turns} turns, {os.cpu_count()} cores, load {load:.1f} at the end")
    print(json.dumps(print_table(runs, engines, sizes) | {"records": many, "load": round(load, 1)}))


def print_table(
    runs: Mapping[str, list[dict[int, Took]]], engines: Mapping[str, Started], sizes: tuple[int, int]
) -> Line:
    """Print the table; returns the JSON line."""
    wall, cpu = ratios(runs, sizes, "wall_s"), ratios(runs, sizes, "cpu_s")
    line: Line = {"name": "engines", "ratio": max(cpu.values()), "unit": "times local's CPU s a record, the costliest"}
    print(
        f"{'':<14}{'ms a record':>12}{'of local':>9}{'CPU ms':>8}{'of local':>9}{'job s':>7}{'CPU s':>7}{'start s':>8}"
    )
    for name, turns in runs.items():
        took, used = cost(turns, sizes, "wall_s"), cost(turns, sizes, "cpu_s")
        print(
            f"{name:<14}{took.record_ms:>12.1f}{wall[name]:>9.2f}{used.record_ms:>8.1f}{cpu[name]:>9.2f}"
            f"{took.job_s:>7.1f}{used.job_s:>7.1f}{engines[name].start_s:>8.1f}  {ENGINES[name].what}"
        )
        line |= {f"{name}_ratio": wall[name], f"{name}_cpu_ratio": cpu[name], f"{name}_job_s": round(took.job_s, 1)}
        line |= {f"{name}_ms": round(took.record_ms, 1), f"{name}_cpu_ms": round(used.record_ms, 1)}
        line |= {f"{name}_job_cpu_s": round(used.job_s, 1)}
    return line


if __name__ == "__main__":
    main()
