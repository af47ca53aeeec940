"""Counts the requests that a run repeats after ``kill -9``, and checks that its shards are the same.

    python benchmarks/bench_kill.py [--records 350] [--kills 10] [--seed 1] [--window 32] [--rate 640] [--samples 16]

``beam run`` over images with questions; a local server in a separate process plays every role. A first run is not
interrupted and sends about 2,000 requests. Each further run, in a new folder, is killed after the server has received a
random number of requests, and then resumed to its end. There are three variants, ``--kills`` times each: only the kill;
with a second process that writes into the same cache all the time; with a file of the cache (the database, its
write-ahead log, or the reply log) truncated at a random byte before the resume. At most the window (the requests in
flight, ``max_concurrency``) may be sent again. Exit code 1 if more were sent again, or if rows or shards differ.
"""

import argparse
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_access import PICTURE, SIDE_LIMIT_S, Item, Server, answer_of, question_of, serving

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = ROOT / "pipelines" / "grounded_cot.py"
ROLES = ("policy", "teacher", "pointer", "judge", "detector", "segmenter")
VARIANTS = ("killed", "second writer", "cut file")
WRITER_PAUSE_S = 0.002
CONFIG = """
[endpoints.server]
kind = "openai"
model = "m"
base_url = "{url}"
frame = "px"
max_concurrency = {window}
samples_per_request = {samples}

[roles]
{roles}

[difficulty]
include_high = true

[dedup]
near = false
"""


@dataclass(frozen=True)
class Whole:
    """The requests and the output of the run that was not interrupted: samples by prompt, rows by side, digests of
    shards.
    """

    asked: Counter[str]
    requests: int
    rows: dict[str, int]
    digests: dict[str, str]


@dataclass(frozen=True)
class Cycle:
    """One run that was killed and resumed. ``repeated_…`` counts the requests and samples that were sent twice."""

    killed_at: int
    repeated_requests: int
    repeated_samples: int
    rows: dict[str, int]
    same: bool
    resumed_s: float
    note: str
    lost_writes: int = 0


def write_input(folder: Path, records: int) -> None:
    """Write distinct images, each with a question that the server can answer."""
    import cv2
    import numpy as np

    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(7)
    lines = []
    for number in range(records):
        item, (width, height) = Item(f"item-{number:06d}"), PICTURE
        pixels = np.full((height, width, 3), 211, np.uint8)
        pixels[:8, :8] = rng.integers(0, 256, (8, 8, 3))
        path = f"images/{number:06d}.png"
        cv2.imwrite(str(folder / path), pixels)
        fields = {"id": item.id, "source": "rendered", "license": "CC0-1.0", "media": [path]}
        fields |= {"question": question_of(item.id), "answer": answer_of(item.id), "answer_type": "numeric"}
        lines.append(json.dumps(fields) + "\n")
    (folder / "records.jsonl").write_text("".join(lines), "utf-8")


@dataclass(frozen=True)
class KillBench:
    """The server, and the folder with the input, the runs and their caches."""

    folder: Path
    server: Server

    def command(self, name: str) -> list[str]:
        """Return the command of a ``beam run`` into the folder ``name``, with its own cache beside it."""
        run, cache = self.folder / name, self.cache(name).parent
        command = [sys.executable, "-m", "groundtrace", "run", PIPELINE, "--input", self.folder / "input"]
        return [*map(str, [*command, "--output", run, "--cache", cache, "--config", self.folder / "config.toml"])]

    def cache(self, name: str) -> Path:
        """Return the database of the run's cache."""
        return self.folder / f"{name}-cache" / "replies.sqlite"

    def finish(self, name: str) -> float:
        """Run to the end; returns the seconds that this takes. Raises RuntimeError if the run fails."""
        started = time.monotonic()
        done = subprocess.run(
            self.command(name), cwd=ROOT, capture_output=True, text=True, check=False, timeout=SIDE_LIMIT_S
        )
        if done.returncode:
            raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr[-2000:]}")
        return time.monotonic() - started

    def asked(self) -> Counter[str]:
        """Return the number of samples requested from the server, by prompt."""
        counts: Counter[str] = Counter()
        for asked in self.server.ask("log"):
            counts[asked["prompt"]] += asked["samples"]
        return counts

    def written(self, name: str) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number of rows of each side, and the digests of the shards of sft and rl."""
        counts = json.loads((self.folder / name / "run.json").read_text("utf-8"))["counts"]
        rejected = sum(count for reasons in counts["rejected"].values() for count in reasons.values())
        shards = sorted(path for side in ("sft", "rl") for path in (self.folder / name / side).glob("*.parquet"))
        digests = {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in shards}
        return {"sft": counts["sft"], "rl": counts["rl"], "rejected": rejected}, digests

    def whole(self) -> Whole:
        """Make the uninterrupted run, and repeat it. Raises RuntimeError if the repetition sends a request."""
        self.finish("whole")
        asked, requests = self.asked(), len(self.server.ask("log"))
        rows, digests = self.written("whole")
        self.finish("whole")
        if len(self.server.ask("log")) > requests or self.written("whole") != (rows, digests):
            raise RuntimeError("a finished run, repeated, sends requests or writes other shards")
        return Whole(asked, requests, rows, digests)

    def cycle(self, name: str, variant: str, rng: random.Random, whole: Whole) -> Cycle:
        """Kill a run at a random moment, resume it, and compare all its requests with those of the whole run."""
        self.server.ask("reset", b"")
        note = ""
        with self.second_writer(name, variant == "second writer") as wrote:
            moment = rng.randrange(1, whole.requests)
            process = subprocess.Popen(
                self.command(name), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            self.server.ask(f"reached/{moment}")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if (self.folder / name / "run.json").exists():
                raise RuntimeError(f"{name} had finished before it was killed")
            killed_at = self.server.ask("figures")["requests"]
            if variant == "cut file":
                note = cut_a_file(self.cache(name).parent, rng)
            resumed_s = self.finish(name)
        asked, log = self.asked(), self.server.ask("log")
        rows, digests = self.written(name)
        return Cycle(
            killed_at=killed_at,
            repeated_requests=len(log) - whole.requests,
            repeated_samples=sum((asked - whole.asked).values()),
            rows=rows,
            same=digests == whole.digests and set(asked) == set(whole.asked),
            resumed_s=resumed_s,
            note=note or (f"{len(wrote)} foreign replies" if wrote else ""),
            lost_writes=missing_writes(self.cache(name), wrote),
        )

    @contextmanager
    def second_writer(self, name: str, wanted: bool) -> Iterator[list[str]]:
        """Run a process that writes its own replies into the cache; after the block, the list holds their keys."""
        wrote: list[str] = []
        if not wanted:
            yield wrote
            return
        command = [sys.executable, __file__, "--writer", str(self.cache(name))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield wrote
            out, _ = process.communicate("end\n", timeout=60)
            if process.returncode:
                raise RuntimeError("the second writer failed")
            wrote += [f"{number:064x}" for number in range(int(out))]


def cut_a_file(cache: Path, rng: random.Random) -> str:
    """Truncate the database, its write-ahead log or a reply log at a random byte; returns a note on which and where."""
    files = [*cache.glob("replies.sqlite"), *cache.glob("replies.sqlite-wal"), *sorted(cache.glob("log/*"))]
    file = rng.choice([file for file in files if file.stat().st_size])
    size_bytes = file.stat().st_size
    at_bytes = rng.randrange(size_bytes)
    os.truncate(file, at_bytes)
    kind = "reply log" if file.parent.name == "log" else file.name
    return f"{kind} cut at {at_bytes} of {size_bytes}"


def missing_writes(cache: Path, keys: list[str]) -> int:
    """Return the number of the second writer's replies that are missing in the cache."""
    if not keys:
        return 0
    from groundtrace.inference.cache.shared import open_cache

    opened = open_cache(str(cache))
    found = opened.get(keys)
    opened.close()
    return len(keys) - len(found)


def write_replies(path: str) -> None:
    """Run as the second process: write replies into the cache until standard input has data; prints their number."""
    from groundtrace.inference.cache.replies import CacheEntry
    from groundtrace.inference.cache.shared import open_cache
    from groundtrace.inference.request import Completion

    cache = open_cache(path)
    print("open", flush=True)
    count = 0
    while not select.select([sys.stdin], [], [], WRITER_PAUSE_S)[0]:
        cache.put([CacheEntry(f"{count:064x}", "other", "other.v1", "other", 100, Completion("x" * 500))])
        count += 1
    cache.close()
    print(count)


def faults_of(cycle: Cycle, whole: Whole, window: int) -> list[str]:
    """Return the limits that the cycle violated, as messages."""
    broken = {
        f"{cycle.repeated_requests} requests sent again, the window is {window}": cycle.repeated_requests > window,
        f"rows {cycle.rows}, not {whole.rows}": cycle.rows != whole.rows,
        "other shards, or other prompts": not cycle.same,
        f"{cycle.lost_writes} replies of the second writer are lost": cycle.lost_writes > 0,
    }
    return [text for text, is_broken in broken.items() if is_broken]


def main() -> None:
    """Kill and resume, print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--records", type=int, default=350)
    parser.add_argument("--kills", type=int, default=10, help="kills of each variant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--window", type=int, default=32, help="maximum requests in flight, all of which may be sent again"
    )
    parser.add_argument("--rate", type=float, default=640.0, help="requests a second that the server answers")
    parser.add_argument(
        "--samples", type=int, default=16, help="maximum samples of a request (1: as with some servers)"
    )
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--writer", metavar="CACHE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.writer:
        write_replies(arguments.writer)
        return
    rng, cycles, wrong, window = random.Random(arguments.seed), [], [], arguments.window
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        serving("--script", "--slots", str(window), "--latency-s", str(window / arguments.rate)) as server,
    ):
        bench = KillBench(Path(name), server)
        write_input(bench.folder / "input", arguments.records)
        roles = "\n".join(f'{role} = "server"' for role in ROLES)
        config = CONFIG.format(url=server.base_url, window=window, roles=roles, samples=arguments.samples)
        (bench.folder / "config.toml").write_text(config, "utf-8")
        whole = bench.whole()
        samples = sum(whole.asked.values())
        print(f"undisturbed: {whole.requests} requests, {samples} samples, rows {whole.rows}; again: 0")
        print(f"{'variant':<14}{'killed at':>10}{'sent again':>12}{'window':>8}{'samples':>9}{'shards':>10}")
        for variant in arguments.variants:
            for number in range(arguments.kills):
                cycle = bench.cycle(f"{variant.replace(' ', '-')}-{number}", variant, rng, whole)
                cycles.append(cycle)
                wrong += faults_of(cycle, whole, window)
                shards = "the same" if cycle.same else "OTHERS"
                print(f"{variant:<14}{cycle.killed_at:>10}{cycle.repeated_requests:>12}{window:>8}"
                      f"{cycle.repeated_samples:>9}{shards:>10}  {cycle.note}", flush=True)  # fmt: skip
    print("".join(f"WRONG {problem}\n" for problem in wrong), end="")
    most = max(cycle.repeated_requests for cycle in cycles)
    line: dict[str, Any] = {"name": "kill", "ratio": round(most / window, 3), "unit": "of the window, most sent again"}
    line |= {"requests": whole.requests, "resumes": len(cycles), "window": window, "most_sent_again": most}
    print(json.dumps(line | {"same_shards": sum(cycle.same for cycle in cycles), "wrong": len(wrong)}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
