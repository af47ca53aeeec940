"""Measures how long ``beam view`` takes with many rows: to start, and for a page, the counts, a search and a thumbnail.

    python benchmarks/bench_view.py [--rows 100000] [--turns 20] [--records 600]

The run has rows of rendered scenes with a camera-like grain (JPEG of some 75 KB), with the embedded engine in all
roles. Its rows are then repeated with new ids until there are ``--rows`` of them. The benchmark starts the command on
this folder, and asks for what its page asks for, one request after the other:

    first page      the first page of rows and all counts, in a new server
    page            a page of rows with all counts: of another filter, another sort order or further down, each time
    search          the same for a text that is searched for in all questions and traces
    record          a record with its traces and its neighbours
    thumbnail       a small copy of an image that has not been shown before

The limits are 1 s for the first page, and 0.3 s for the 95th percentile of the others. ``ratio`` is the largest share
of its limit that a measured time takes. Exit code 1 if it is above 1.
"""

import argparse
import http.cookiejar
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from scenes import SceneKind, render_input

BEAM = str(Path(sys.executable).with_name("beam"))
SCENE = SceneKind(400, 300, 60, ("jpg",), noise=6.0)
SHARD_ROWS, GROUP_ROWS = 5000, 1000
FIRST_S, WARM_S = 1.0, 0.3
PAGE_ROWS = 48


def make_run(folder: Path, records: int) -> Path:
    """Run the pipeline over rendered scenes, so that rows are in all three sets. Return the run folder."""
    render_input(folder / "input", SCENE, records)
    settings = ("difficulty.high=0.9", "difficulty.include_low=true", "dedup.near=false")
    command = [BEAM, "run", "grounded_cot", "--input", str(folder / "input"), "--output", str(folder / "run")]
    subprocess.run(command + [word for each in settings for word in ("--set", each)], check=True, capture_output=True)
    return folder / "run"


def multiply(run: Path, rows: int) -> None:
    """Repeat the rows of a run under new ids, until it has ``rows`` rows, and correct its ``run.json``."""
    summary = json.loads((run / "run.json").read_text("utf-8"))
    tables = {name: pq.read_table(run / name) for name in ("sft", "rl", "rejected")}
    times = -(-rows // sum(table.num_rows for table in tables.values()))
    for name, table in tables.items():
        schema = pq.read_schema(next((run / name).glob("*.parquet")))
        shutil.rmtree(run / name)
        (run / name).mkdir()
        writer: Any = None
        for copy in range(times):
            ids = pa.array([f"{each}-{copy:05d}" for each in table["id"].to_pylist()])
            if copy * table.num_rows // SHARD_ROWS != (copy - 1) * table.num_rows // SHARD_ROWS or writer is None:
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(run / name / f"train-{copy:05d}.parquet", schema, compression="zstd")
            copied = table.set_column(table.column_names.index("id"), table.schema.field("id"), ids)
            writer.write_table(copied, row_group_size=GROUP_ROWS)
        writer.close()
    counts = summary["counts"]
    counts |= {name: counts[name] * times for name in ("input", "sft", "rl")}
    counts["rejected"] = {
        stage: {reason: number * times for reason, number in reasons.items()}
        for stage, reasons in counts["rejected"].items()
    }
    del summary["files"]  # as in the run.json of an older version: the files are read without a check
    (run / "run.json").write_text(json.dumps(summary), "utf-8")


@dataclass
class View:
    """A server of ``beam view`` that was started on a run, and a client with its cookie."""

    run: Path
    began_s: float = field(default_factory=time.monotonic)

    def __enter__(self) -> "View":
        self._process = psutil.Popen([BEAM, "view", str(self.run)], stdout=subprocess.PIPE, text=True)
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if found := re.search(r"(http://\S+:\d+)/\?\S*token=\S+", line):
                break
        else:
            raise RuntimeError(f"beam view ended: {''.join(lines)}")
        self._client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self._base = found[1]
        self._client.open(found[0]).read()
        self.start_s = time.monotonic() - self.began_s
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def memory_mib(self) -> float:
        """Return the memory of the server."""
        return self._process.memory_info().rss / 2**20

    def get(self, path: str) -> bytes:
        """Return what the server answers to a request."""
        with self._client.open(self._base + path) as response:
            return response.read()

    def page(self, offset: int = 0, **filters: str) -> list[dict[str, Any]]:
        """Request the rows and counts of a page, as the page in the browser does, and return the rows."""
        state = urlencode(filters)
        self.get(f"/api/counts?{state}")
        return json.loads(self.get(f"/api/rows?{state}&offset={offset}&limit={PAGE_ROWS}"))["rows"]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def measure(view: View, rows: int, turns: int) -> dict[str, list[float]]:
    """Return the seconds of each kind of request, of all turns."""
    draw = random.Random(0)
    filters = [{"set": "sft"}, {"set": "rejected"}, {"set": "rl", "sort": "-pass_rate"}, {"sort": "-trace characters"}]
    filters += [{"pass_rate": "0.2..0.9"}, {"answer_type": "numeric", "sort": "score final"}, {"reason": "too_easy"}]
    words = ("triangle", "yellow square", "nothing like this", "black", "<point")
    found: dict[str, list[float]] = {"page": [], "search": [], "record": [], "thumbnail": []}
    for turn in range(turns):
        chosen, start = filters[turn % len(filters)], draw.randrange(rows // 10)
        found["page"].append(timed(lambda: view.page(start, **chosen)))  # noqa: B023  # called at once
        found["search"].append(timed(lambda: view.page(q=words[turn % len(words)])))  # noqa: B023
        row = draw.choice(view.page(draw.randrange(rows - PAGE_ROWS)))
        found["record"].append(timed(lambda: view.get(f"/api/record?id={quote(row['id'])}")))  # noqa: B023
        found["thumbnail"].append(timed(lambda: view.get(f"/thumbnail/{row['n']}")))  # noqa: B023
    return found


def main() -> None:
    """Make the run, measure, and print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=600, help="the records of the run whose rows are repeated")
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        run = make_run(Path(name), arguments.records)
        multiply(run, arguments.rows)
        size_gb = sum(file.stat().st_size for file in run.glob("*/*.parquet")) / 1e9
        with View(run) as view:
            first_s = timed(view.page)
            found = measure(view, arguments.rows, arguments.turns)
            memory_mib = view.memory_mib
    print(f"{arguments.rows} rows, {size_gb:.1f} GB of shards; started in {view.start_s:.1f} s; {memory_mib:.0f} MiB")
    print(f"first page with counts: {first_s:.3f} s ({first_s / FIRST_S:.2f} of {FIRST_S} s)")
    ratios = [first_s / FIRST_S]
    for kind, seconds in found.items():
        late_s = statistics.quantiles(seconds, n=20)[-1]
        ratios.append(late_s / WARM_S)
        print(
            f"{kind:<10} median {statistics.median(seconds):.3f} s, p95 {late_s:.3f} s ({ratios[-1]:.2f} of {WARM_S} s)"
        )
    line = {"name": "view", "ratio": round(max(ratios), 3), "unit": "of the limits, at most", "rows": arguments.rows}
    print(json.dumps(line | {"start_s": round(view.start_s, 2), "memory_mib": round(memory_mib)}))
    sys.exit(max(ratios) > 1)


if __name__ == "__main__":
    main()
