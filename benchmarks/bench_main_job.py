"""Measures the command that users run, from its start to its exit, beside a bare client that makes the same calls.

    python benchmarks/bench_main_job.py [--records 1000] [--turns 5] [--large 10000] [--beam COMMAND …]

The command is ``beam run grounded_cot`` over JPEG images of 60 KB, with two attempts at each question, as separate
requests. A local server has 64 slots and takes 200 ms a call. All answers are right, so that no other role is asked.
The bare client (aiohttp) reads the same images and sends the same requests, 64 at once, in a process of its own.
``bare loop`` decodes and hashes the images once. ``--large`` adds that number of records, for the time before the first
request and the peak memory. ``--beam`` names commands of other checkouts, which take turns with this one.

Times are of whole processes: *start* until the server receives the first request, *working* until its last reply, and
*tail* until the exit. CPU time is that of the process and of its children.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from bench_pipeline_overhead import ratios, spread
from model_access import Server, imports_done, own_figures, serving

SLOTS, LATENCY_S, ATTEMPTS = 64, 0.2, 2
SCRIPT = Path(__file__).resolve()
BEAM = str(Path(sys.executable).with_name("beam"))
MEMORY_EVERY_S = 0.1
QUESTION = "How many squares are there in picture {item}?"
ANSWER = "4"
CONFIG = f"""
allow_embedded = true
[endpoints.far]
kind = "openai"
model = "m"
base_url = "URL"
family = "qwen3-vl"
max_concurrency = {SLOTS}
samples_per_request = 1
[roles]
policy = "far"
[attempt]
k = {ATTEMPTS}
k_min = {ATTEMPTS}
[dedup]
near = false
"""


@dataclass(frozen=True)
class Ended:
    """A process that ended: its times in seconds on the server's clock, its CPU seconds, and its peak memory."""

    began_s: float
    ended_s: float
    cpu_s: float
    peak_mib: float
    code: int
    output: str

    @property
    def wall_s(self) -> float:
        """The seconds from its start to its exit."""
        return self.ended_s - self.began_s


def process(*command: str, cwd: Path | None = None) -> Ended:
    """Run a command to its end. The peak memory is that of the process and its children together."""
    with tempfile.TemporaryFile() as output:
        began_s = time.monotonic()
        child = psutil.Popen(command, stdin=-3, stdout=output, stderr=output, cwd=cwd)
        peak, done = [0], threading.Event()
        watcher = threading.Thread(target=_watch_memory, args=(child, peak, done))
        watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        ended_s = time.monotonic()
        done.set()
        watcher.join()
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Ended(began_s, ended_s, cpu_s, peak[0] / 2**20, os.waitstatus_to_exitcode(status), text)


def _watch_memory(child: psutil.Process, peak: list[int], done: threading.Event) -> None:
    while not done.wait(MEMORY_EVERY_S):
        try:
            tree = [child, *child.children(recursive=True)]
            peak[0] = max(peak[0], sum(each.memory_info().rss for each in tree))
        except psutil.Error:
            continue  # it ended in the meantime


@dataclass(frozen=True)
class Turn:
    """One process with the server's figures of its calls."""

    ran: Ended
    first_s: float
    last_s: float
    calls: int

    @property
    def start_s(self) -> float:
        """The seconds from the process's start to the first request."""
        return self.first_s - self.ran.began_s

    @property
    def working_s(self) -> float:
        """The seconds from the first request to the last reply."""
        return self.last_s - self.first_s

    @property
    def tail_s(self) -> float:
        """The seconds from the last reply to the exit."""
        return self.ran.ended_s - self.last_s


def with_calls(server: Server, calls: int, *command: str) -> Turn:
    """Run a command that makes ``calls`` calls. Raises RuntimeError if it fails or makes another number of calls."""
    server.ask("reset", b"{}")
    ran = process(*command)
    log = server.ask("log")
    if ran.code or len(log) != calls:
        raise RuntimeError(f"{command}: exit code {ran.code}, {len(log)} of {calls} calls\n{ran.output[-3000:]}")
    if not log:
        return Turn(ran, ran.ended_s, ran.ended_s, 0)
    return Turn(ran, log[0]["begin_s"], max(asked["end_s"] for asked in log), calls)


def write_input(folder: Path, count: int) -> None:
    """Write an input of ``count`` records with an image each."""
    import cv2
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(7)
    noise = rng.integers(0, 256, (230, 320, 3), np.uint8)
    with (folder / "records.jsonl").open("w", encoding="utf-8") as lines:
        for number in range(count):
            item = f"item-{number:06d}"
            pixels = noise.copy()
            pixels[:16, :16] = rng.integers(0, 256, 3)
            pixels = np.roll(pixels, int(rng.integers(0, 320)), axis=1)
            (folder / f"{item}.jpg").write_bytes(cv2.imencode(".jpg", pixels)[1].tobytes())
            record = {"id": item, "question": QUESTION.format(item=item), "answer": ANSWER, "media": [f"{item}.jpg"]}
            lines.write(json.dumps(record | {"source": "bench", "license": "CC0-1.0"}) + "\n")


def bare_side(url: str, data: Path) -> dict[str, Any]:
    """Make the calls of the job with aiohttp alone; returns the figures of the imports."""
    import asyncio
    import base64

    import aiohttp

    imported = imports_done()
    lines = (data / "records.jsonl").read_text("utf-8").splitlines()
    work = iter([json.loads(line) for line in lines for _ in range(ATTEMPTS)])

    async def send_all() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def worker() -> None:
                for record in work:
                    image = base64.b64encode((data / record["media"][0]).read_bytes()).decode()
                    url_part = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{image}"}}
                    content = [url_part, {"type": "text", "text": record["question"]}]
                    body = {"model": "m", "n": 1, "messages": [{"role": "user", "content": content}]}
                    async with session.post(f"{url}/chat/completions", json=body) as response:
                        assert (await response.json())["choices"][0]["message"]["content"]

            await asyncio.gather(*(worker() for _ in range(SLOTS)))

    asyncio.run(send_all())
    return imported


def loop_side(_: str, data: Path) -> dict[str, Any]:
    """Decode and hash each image once; returns the figures of the imports."""
    import hashlib

    import cv2
    import numpy as np

    imported = imports_done()
    for line in (data / "records.jsonl").read_text("utf-8").splitlines():
        content = (data / json.loads(line)["media"][0]).read_bytes()
        hashlib.sha256(content).hexdigest()
        assert cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) is not None
    return imported


SIDES: dict[str, Callable[[str, Path], dict[str, Any]]] = {"bare": bare_side, "loop": loop_side}


@dataclass(frozen=True)
class Job:
    """The job over one input, run against the server."""

    server: Server
    data: Path
    records: int
    config: Path

    def bare(self) -> Turn:
        """Run the bare client."""
        return with_calls(self.server, self.records * ATTEMPTS, *self._side("bare"))

    def loop(self) -> Turn:
        """Run the loop that decodes and hashes."""
        return with_calls(self.server, 0, *self._side("loop"))

    def _side(self, name: str) -> list[str]:
        return [sys.executable, str(SCRIPT), "--side", name, "--url", self.server.base_url, "--data", str(self.data)]

    def run(self, beam: str, output: Path, *options: str, sends: bool = True) -> Turn:
        """Run the command of a checkout into a folder; ``sends`` is False if all replies are in its cache."""
        command = [beam, "run", "grounded_cot", "--input", str(self.data), "--output", str(output)]
        calls = self.records * ATTEMPTS if sends else 0
        return with_calls(self.server, calls, *command, "--config", str(self.config), *options)


def measure(job: Job, beams: Sequence[str], turns: int, folder: Path) -> dict[str, list[Turn]]:
    """Run all sides turn by turn; returns the turns of each side."""
    found: dict[str, list[Turn]] = {}

    def add(name: str, turn: Turn) -> None:
        found.setdefault(name, []).append(turn)

    for number in range(turns):
        add("bare", job.bare())
        add("bare loop", job.loop())
        for place, beam in enumerate(beams):
            output = folder / f"{job.records}-{place}-{number}" / "run"  # a run takes replies of runs beside it
            add(f"run {place}", job.run(beam, output))
            add(f"cached {place}", job.run(beam, output, "--replace", sends=False))
            if place == 0:
                workers = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
                add("cached, two workers", job.run(beam, output, "--replace", *workers, sends=False))
    return found


def print_table(found: dict[str, list[Turn]], beams: Sequence[str]) -> None:
    """Print the times of each side: median (lowest-highest) of the turns."""
    for place, beam in enumerate(beams):
        print(f"run {place}: {beam}")
    print(f"{'':<21}{'whole s':>18}{'start s':>17}{'working s':>18}{'tail s':>17}{'CPU s':>18}{'MiB':>6}")
    for name, turns in found.items():
        cells = [[turn.ran.wall_s for turn in turns], [turn.start_s for turn in turns]]
        cells += [[turn.working_s for turn in turns], [turn.tail_s for turn in turns], [t.ran.cpu_s for t in turns]]
        widths = (18, 17, 18, 17, 18)
        row = "".join(f"{spread(cell, 2):>{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"{name:<21}{row}{max(turn.ran.peak_mib for turn in turns):>6.0f}")


def figures(found: dict[str, list[Turn]], place: int) -> dict[str, float]:
    """Return the ratios of one checkout's command to the bare sides, as medians over the turns."""
    bare, loop, run, cached = (found[name] for name in ("bare", "bare loop", f"run {place}", f"cached {place}"))

    def of(value: Callable[[Turn], float], turns: Sequence[Turn], limits: Sequence[Turn]) -> float:
        return round(statistics.median(ratios([value(t) for t in turns], [value(t) for t in limits])), 3)

    return {
        "whole_rate": round(1 / of(lambda turn: turn.ran.wall_s, run, bare), 3),
        "working_rate": round(1 / of(lambda turn: turn.working_s, run, bare), 3),
        "cpu": of(lambda turn: turn.ran.cpu_s, run, bare),
        "cached_cpu": of(lambda turn: turn.ran.cpu_s, cached, loop),
        "tail_share": round(statistics.median(turn.tail_s / turn.ran.wall_s for turn in run), 3),
        "start_s": round(statistics.median(turn.start_s for turn in run), 2),
        "peak_mib": round(max(turn.ran.peak_mib for turn in run)),
    }


def mistakes(beam: str, folder: Path, turns: int) -> dict[str, float]:
    """Return the CPU time of a command that a user's mistake ends, and its ratio to that of ``--help``."""
    command = (beam, "run", "grounded_cot", "--input", str(folder / "absent"), "--output", str(folder / "none"))
    pairs = [(process(*command), process(beam, "--help")) for _ in range(turns)]
    if any(mistake.code != 2 or shown.code for mistake, shown in pairs):
        raise RuntimeError(f"exit codes {[(mistake.code, shown.code) for mistake, shown in pairs]}")
    ratio = statistics.median(mistake.cpu_s / shown.cpu_s for mistake, shown in pairs)
    return {"mistake_cpu_s": round(statistics.median(m.cpu_s for m, _ in pairs), 2), "mistake_cpu": round(ratio, 2)}


def main() -> None:
    """Measure, print the table and the JSON line; with ``--side``, run one of the bare sides instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--large", type=int, default=0, help="also one run with this number of records")
    parser.add_argument("--beam", nargs="*", default=[], help="commands of other checkouts")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments.url, arguments.data) | own_figures()))
        return
    beams = [BEAM, *arguments.beam]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        serving("--slots", str(SLOTS), "--latency-s", str(LATENCY_S)) as server,
    ):
        folder = Path(name)
        config = folder / "config.toml"
        config.write_text(CONFIG.replace("URL", server.base_url), "utf-8")
        write_input(folder / "input", arguments.records)
        found = measure(Job(server, folder / "input", arguments.records, config), beams, arguments.turns, folder)
        print_table(found, beams)
        line: dict[str, Any] = {"name": "main_job", "unit": "ratios to a bare client, or to a bare loop"}
        line |= {f"run_{place}": figures(found, place) for place in range(len(beams))}
        two = [turn.ran.cpu_s for turn in found["cached, two workers"]]
        one = [turn.ran.cpu_s for turn in found["cached 0"]]
        line["two_workers_cpu"] = round(statistics.median(ratios(two, one)), 2)
        line |= mistakes(BEAM, folder, arguments.turns)
        if arguments.large:
            write_input(folder / "large", arguments.large)
            turn = Job(server, folder / "large", arguments.large, config).run(BEAM, folder / "large-run" / "run")
            print(f"{arguments.large} records: start {turn.start_s:.1f} s, {turn.ran.peak_mib:.0f} MiB")
            line["large"] = {"records": arguments.large, "start_s": turn.start_s, "peak_mib": turn.ran.peak_mib}
    line["ratio"] = line["run_0"]["whole_rate"]
    print(json.dumps(line | {"records": arguments.records, "turns": arguments.turns}))


if __name__ == "__main__":
    main()
