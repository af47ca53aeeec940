"""The two sides of bench_pipeline_overhead.py, each run as a process of its own: the pipeline, and the bare loop.

    python benchmarks/overhead_sides.py pipeline|loop --input FOLDER --run FOLDER --out FOLDER

Prints its figures as one JSON line.
"""

import argparse
import cProfile
import json
import os
import pstats
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PIPELINE = Path(__file__).resolve().parent.parent / "pipelines" / "grounded_cot.py"
LOOP_BATCH_ROWS = 100

# With these settings, nearly every record reaches the SFT shards: the band includes all pass rates, all groups go to
# SFT, and equal questions are not near duplicates. The policy sees as well as the teacher, because a coarser view would
# only slow down the filling of the cache.
OVERRIDES = (
    "difficulty.include_low=true",
    "difficulty.include_high=true",
    "split.sft_ratio=1.0",
    "dedup.near=false",
    "endpoints.coarse.strength=0.0",
)


def run_pipeline(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the pipeline once; returns the times of import and run, the sent requests, and the numbers of rows."""
    started = time.perf_counter()
    from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
    from groundtrace.pipelines.running.run import execute  # imported here so that the import is timed

    imported, cpu_s = time.perf_counter(), time.process_time()
    limit = arguments.limit or None
    whole = limit is None  # a run over a part replaces the whole run that filled the cache
    run = RunArguments(str(PIPELINE), arguments.input, arguments.run, overrides=OVERRIDES, limit=limit, resume=whole)
    profile = arguments.profile_to
    summary = profiled(lambda: execute(make_plan(run)), profile) if profile else execute(make_plan(run))
    return {
        "import_s": imported - started,
        "wall_s": time.perf_counter() - imported,
        "cpu_s": time.process_time() - cpu_s,
        "sent": summary.usage.requests,
        "input": summary.counts.input,
        "sft": summary.counts.sft,
    }


def profiled(work: Callable[[], T], path: str) -> T:
    """Return the result of ``work``, and write a profile of the CPU time of this thread and of all threads that it
    starts.
    """
    profiles: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        sys.setprofile(None)
        profiles.append(cProfile.Profile(time.thread_time))
        profiles[-1].enable()

    threading.setprofile(begin)
    begin()
    try:
        return work()
    finally:
        threading.setprofile(None)
        profiles[0].disable()
        pstats.Stats(*profiles).dump_stats(path)


def drawn_by(run: Path, width: int, height: int) -> dict[str, tuple[list[Any], list[str]]]:
    """Return, by id, the marks that a run drew (from the pointer's cached replies), and the digests of the drawn
    images.
    """
    import pyarrow.parquet as pq

    from groundtrace.grading.responses.response import parse_response
    from groundtrace.schemas.coordinates import CoordinateFrame, to_px
    from groundtrace.vision.overlay import OverlayPoint

    with sqlite3.connect(run / "cache" / "replies.sqlite") as db:
        replies = dict(db.execute("SELECT key, body FROM replies WHERE prompt LIKE 'point.%'"))
    found = {}
    columns = ["id", "lineage.cache_keys", "overlays.list.element.path"]
    for shard in sorted((run / "sft").glob("*.parquet")):
        for row in pq.ParquetFile(shard).read(columns=columns).to_pylist():
            texts = [json.loads(replies[key])["text"] for key in row["lineage"]["cache_keys"] if key in replies]
            points = dict.fromkeys(point for text in texts for point in parse_response(text).points)
            marks = [
                OverlayPoint(number, point.label, *to_px(CoordinateFrame.PX, point.x, point.y, width, height))
                for number, point in enumerate(points, 1)
            ]
            found[row["id"]] = (marks, [Path(overlay["path"]).stem for overlay in row["overlays"]])
    return found


def run_loop(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the bare loop over the records, and draw the marks of a finished run.

    Raises ValueError if the drawings differ.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from groundtrace.vision.decode import decode_image
    from groundtrace.vision.overlay import draw_overlay, encode_png

    root, out = Path(arguments.input), Path(arguments.out)
    expected = drawn_by(Path(arguments.run), *(int(side) for side in arguments.size.split("x")))
    records = [json.loads(line) for line in (root / "records.jsonl").read_text("utf-8").splitlines()]
    work = [(r["id"], root / r["media"][0], expected.get(r["id"], ([], []))[0]) for r in records]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("images", pa.list_(image)), ("overlays", pa.list_(image))])
    batch: list[dict[str, Any]] = []
    started, cpu_s = time.perf_counter(), time.process_time()
    with pq.ParquetWriter(out / "loop.parquet", schema, compression="zstd") as writer:
        for number, (name, path, marks) in enumerate(work, 1):
            data = path.read_bytes()
            pixels = decode_image(data).pixels
            overlays = []
            if marks:
                overlay = encode_png(draw_overlay(pixels, marks))
                (out / f"{name}.png").write_bytes(overlay)
                overlays.append({"bytes": overlay, "path": f"{name}.png"})
            batch.append({"images": [{"bytes": data, "path": path.name}], "overlays": overlays})
            if len(batch) == LOOP_BATCH_ROWS or number == len(work):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch.clear()
    took = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu_s}
    _require_same(out, expected)
    return took | {"input": len(work), "overlays": sum(bool(marks) for _, _, marks in work)}


def _require_same(out: Path, expected: dict[str, tuple[list[Any], list[str]]]) -> None:
    """Raise ValueError unless the loop's drawings equal the pipeline's, byte for byte."""
    from groundtrace.vision.hashing import sha256_bytes

    for name, (marks, digests) in expected.items():
        if [sha256_bytes((out / f"{name}.png").read_bytes())] * bool(marks) != digests:
            raise ValueError(f"{name}: the loop drew something else than the pipeline")


def main() -> None:
    """Do one side's work on one core, and print the figures with the process's peak memory."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("side", choices=("pipeline", "loop"))
    for name in ("--input", "--run", "--out", "--size"):
        parser.add_argument(name, required=True)
    parser.add_argument("--limit", type=int, default=0, help="read only so many records (0: all)")
    parser.add_argument("--profile-to", metavar="FILE")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures = {"pipeline": run_pipeline, "loop": run_loop}[arguments.side](arguments)
    status = Path("/proc/self/status").read_text("ascii")
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps(figures | {"rss_mib": peak_kib / 1024}))


if __name__ == "__main__":
    main()
