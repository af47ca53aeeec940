"""What the pipeline costs around the pixel work that it cannot avoid.

The limit is a bare loop: decode, draw the same marks, encode, write the drawn PNG, append both pictures to a Parquet file.
The pipeline is pipelines/grounded_cot.py with every reply in the cache already: ingest, overlay, verify, shards.

    python benchmarks/bench_pipeline_overhead.py [--records 1000] [--flat] [--profile]

Scenes are rendered here: flat coloured shapes with a counting question that the embedded engine reads, copied under new ids
with one pixel changed each. Both sides run in processes of their own, pinned to the same core, turn by turn. ``--flat`` runs
10,000 small records too, for the peak memory; ``--profile`` adds a table of where the pipeline's processor time goes.
"""

import argparse
import cProfile
import json
import os
import pstats
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

HOME = Path(__file__).resolve().parent.parent
PIPELINE = HOME / "pipelines" / "grounded_cot.py"
TURNS = 3
BASE_SCENES = 100
GROUND = (211, 211, 211)
COLOURS = {"yellow": (255, 255, 0), "blue": (0, 153, 255), "black": (0, 0, 0), "red": (220, 30, 30)}
KINDS = ("square", "circle", "triangle")

# Nearly every record shall reach the SFT shards: the band takes all pass rates, the policy sees as well as the teacher (a
# coarser view would only make the cache slower to fill), all groups go to SFT, and equal questions are no near duplicates.
OVERRIDES = (
    "difficulty.include_low=true",
    "difficulty.include_high=true",
    "split.sft_ratio=1.0",
    "dedup.near=false",
    "endpoints.coarse.strength=0.0",
)

# Functions of the pipeline that do not call one another, and what they stand for in the table of --profile.
PARTS = (
    ("ingest: parse a record", "ingest_records.py", "parse_record"),
    ("ingest: read, decode and hash a medium", "ingest_records.py", "check_medium"),
    ("attempt: 4 cached replies, graded", "attempt_questions.py", "attempt"),
    ("propose: 1 cached reply", "propose_entities.py", "propose"),
    ("point: cached replies", "point_entities.py", "ask"),
    ("overlay: decode, draw, encode, write", "draw_overlays.py", "draw"),
    ("trace: 8 cached replies, parsed", "generate_traces.py", "trace"),
    ("verify: 8 traces scored", "verify_traces.py", "verify"),
    ("rows: drafts to JSON", "run.py", "<lambda>"),
    ("shards: read images, build, write", "write_shards.py", "write_shard"),
)


@dataclass(frozen=True)
class Size:
    """A kind of scene: its sides in pixels, the cells that shapes stand in, and the file formats taken in turn."""

    width: int
    height: int
    cell: int
    formats: tuple[str, ...]

    @property
    def name(self) -> str:
        """The sides, as printed."""
        return f"{self.width}x{self.height}"


LARGE = Size(1280, 960, 160, ("jpg", "png"))
SMALL = Size(400, 100, 33, ("png",))


def render_scene(size: Size, rng: np.random.Generator) -> tuple[np.ndarray, str, str]:
    """A picture, its question and the answer."""
    pixels = np.full((size.height, size.width, 3), GROUND, np.uint8)
    columns, rows = size.width // size.cell, size.height // size.cell
    drawn = []
    for place in rng.permutation(columns * rows)[: rng.integers(5, 12)]:
        colour, kind = str(rng.choice(list(COLOURS))), str(rng.choice(KINDS))
        side = int(size.cell * rng.uniform(0.5, 0.8))
        left, top = (
            int(place) % columns * size.cell + size.cell // 8,
            int(place) // columns * size.cell + size.cell // 8,
        )
        _draw_shape(pixels, kind, COLOURS[colour], left, top, side)
        drawn.append(f"{colour} {kind}")
    asked = str(rng.choice(drawn))
    return pixels, f"How many {asked}s are there?", str(drawn.count(asked))


def _draw_shape(pixels: np.ndarray, kind: str, colour: tuple[int, int, int], left: int, top: int, side: int) -> None:
    if kind == "square":
        pixels[top : top + side, left : left + side] = colour
    elif kind == "circle":
        ys, xs = np.mgrid[0:side, 0:side] - (side - 1) / 2
        pixels[top : top + side, left : left + side][xs**2 + ys**2 <= (side / 2) ** 2] = colour
    else:
        corners = [[left + side // 2, top], [left + side - 1, top + side - 1], [left, top + side - 1]]
        cv2.fillPoly(pixels, [np.array(corners, np.int32)], colour)


def render_input(folder: Path, size: Size, records: int) -> None:
    """Write ``records`` scenes and their records.jsonl: copies of the base scenes, one pixel changed in each."""
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(7)
    scenes = [render_scene(size, rng) for _ in range(min(BASE_SCENES, records))]
    per_row = size.width // 8
    lines = []
    for number in range(records):
        pixels, question, answer = scenes[number % len(scenes)]
        copy = number // len(scenes)
        changed = pixels.copy()
        changed[copy // per_row * 8 + 1, copy % per_row * 8 + 1] = 150
        path = f"images/{number:06d}.{size.formats[number % len(size.formats)]}"
        settings = [cv2.IMWRITE_JPEG_QUALITY, 95] if path.endswith("jpg") else []
        cv2.imwrite(str(folder / path), cv2.cvtColor(changed, cv2.COLOR_RGB2BGR), settings)
        fields = {"id": f"scene-{number:06d}", "source": "rendered", "license": "CC0-1.0", "media": [path]}
        fields |= {"question": question, "answer": answer, "answer_type": "numeric"}
        lines.append(json.dumps(fields))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def run_pipeline(arguments: argparse.Namespace) -> dict[str, Any]:
    """One run of the pipeline in this process."""
    started = time.perf_counter()
    from pipelines.run import RunArguments, execute

    imported = time.perf_counter()
    run = RunArguments(
        str(PIPELINE), arguments.input, arguments.run, overrides=OVERRIDES, limit=arguments.limit or None
    )
    if arguments.profile_to:
        summary = _profiled(lambda: execute(run), arguments.profile_to)
    else:
        summary = execute(run)
    sent = sum(role["requests"] for role in summary["ledger"].values())
    times = {"import_s": imported - started, "wall_s": time.perf_counter() - imported}
    return times | {"sent": sent, "sft": summary["counts"]["sft"], "input": summary["counts"]["input"]}


def _profiled(work: Any, path: str) -> Any:
    """The result of ``work``, with the processor time of all threads profiled to a file."""
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


def drawn_by(run: Path) -> dict[str, tuple[list[Any], list[str]]]:
    """By id, the marks that a run drew, from the pointer's cached replies, and the digests of the drawn pictures."""
    import pyarrow.parquet as pq

    from schemas.response import parse_response
    from vision.overlay import Mark

    with sqlite3.connect(run / "cache" / "replies.sqlite") as db:
        replies = dict(db.execute("SELECT key, body FROM replies WHERE prompt LIKE 'point.%'"))
    found = {}
    for shard in (run / "sft").glob("*.parquet"):
        columns = ["id", "lineage.cache_keys", "overlays.list.element.path"]
        for row in pq.ParquetFile(shard).read(columns=columns).to_pylist():
            texts = [json.loads(replies[key])["text"] for key in row["lineage"]["cache_keys"] if key in replies]
            points = dict.fromkeys(point for text in texts for point in parse_response(text).points)
            marks = [Mark(number, point.label, point.x, point.y) for number, point in enumerate(points, 1)]
            found[row["id"]] = (marks, [Path(overlay["path"]).stem for overlay in row["overlays"]])
    return found


def run_loop(arguments: argparse.Namespace) -> dict[str, Any]:
    """The bare loop over the records of a finished run, which says what to draw; raises if the drawing differs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from vision.decode import decode_image
    from vision.hashing import sha256_bytes
    from vision.overlay import draw_overlay, encode_png

    expected = drawn_by(Path(arguments.run))
    root, drawn = Path(arguments.input), Path(arguments.out)
    records = [json.loads(line) for line in (root / "records.jsonl").read_text("utf-8").splitlines()]
    work = [(r["id"], root / r["media"][0], expected.get(r["id"], ([], []))[0]) for r in records]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("images", pa.list_(image)), ("overlays", pa.list_(image))])
    batch: list[dict[str, Any]] = []
    started = time.perf_counter()
    with pq.ParquetWriter(drawn / "loop.parquet", schema, compression="zstd") as writer:
        for number, (name, path, marks) in enumerate(work, 1):
            data = path.read_bytes()
            pixels = decode_image(data).pixels
            overlays = []
            if marks:
                overlay = encode_png(draw_overlay(pixels, marks))
                (drawn / f"{name}.png").write_bytes(overlay)
                overlays.append({"bytes": overlay, "path": f"{name}.png"})
            batch.append({"images": [{"bytes": data, "path": path.name}], "overlays": overlays})
            if len(batch) == 100 or number == len(work):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch.clear()
    wall_s = time.perf_counter() - started
    for name, (marks, digests) in expected.items():
        if marks and [sha256_bytes((drawn / f"{name}.png").read_bytes())] != digests:
            raise ValueError(f"{name}: the loop drew something else than the pipeline")
    return {"wall_s": wall_s, "input": len(work), "overlays": sum(bool(marks) for _, _, marks in work)}


def child_main(arguments: argparse.Namespace) -> None:
    """Do one side's work on one core and print the figures as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures = {"pipeline": run_pipeline, "loop": run_loop}[arguments.child](arguments)
    status = Path("/proc/self/status").read_text("ascii")
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps(figures | {"rss_mib": peak_kib / 1024}))


@dataclass(frozen=True)
class Case:
    """One input on disk with its run folder."""

    size: Size
    records: int
    folder: Path

    def start(self, child: str, limit: int = 0, **paths: Path) -> dict[str, Any]:
        """Run one side in a process of its own; what the other turn drew is removed first."""
        shutil.rmtree(self.folder / "run" / "media", ignore_errors=True)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()
        command = [sys.executable, __file__, "--child", child, "--input", str(self.folder / "input")]
        command += ["--run", str(self.folder / "run"), "--out", str(self.folder / "out"), "--limit", str(limit)]
        command += [text for name, path in paths.items() for text in (f"--{name.replace('_', '-')}", str(path))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{child} on {self.size.name}: {done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def prepare(folder: Path, size: Size, records: int) -> Case:
    """Render the input and fill the cache."""
    case = Case(size, records, folder / f"{size.name}-{records}")
    render_input(case.folder / "input", size, records)
    case.start("pipeline")
    return case


@dataclass(frozen=True)
class Result:
    """The figures of all turns of one case, each list in turn order."""

    case: Case
    loop_rate: list[float]
    whole_rate: list[float]
    steady_rate: list[float]
    startup_s: list[float]
    import_s: list[float]
    rss_mib: float
    sft: int
    overlays: int


def measure(case: Case) -> Result:
    """Loop, whole run and a tenth of it, three times in turn. The steady rate is that of the records beyond the tenth."""
    part = max(1, case.records // 10)
    turns = []
    for _ in range(TURNS):
        turns.append((case.start("pipeline", limit=part), case.start("pipeline"), case.start("loop")))
    for few, whole, _ in turns:
        if few["sent"] or whole["sent"] or whole["input"] != case.records:
            raise RuntimeError(f"not a cached run over all records: {whole}")
    rates = [(case.records - part) / (whole["wall_s"] - few["wall_s"]) for few, whole, _ in turns]
    return Result(
        case=case,
        loop_rate=[case.records / loop["wall_s"] for _, _, loop in turns],
        whole_rate=[case.records / whole["wall_s"] for _, whole, _ in turns],
        steady_rate=rates,
        startup_s=[few["wall_s"] - part / rate for (few, _, _), rate in zip(turns, rates, strict=True)],
        import_s=[whole["import_s"] for _, whole, _ in turns],
        rss_mib=max(whole["rss_mib"] for _, whole, _ in turns),
        sft=turns[0][1]["sft"],
        overlays=turns[0][2]["overlays"],
    )


def print_table(results: list[Result]) -> None:
    """Records a second and their ratio to the bare loop: median (lowest to highest) of the turns."""
    print(f"{'scenes':>10} {'records':>7} {'':<10} {'records/s':>20} {'of the loop':>20} {'start-up s':>10} {'MiB':>5}")
    for r in results:
        start = f"{r.case.size.name:>10} {r.case.records:>7}"
        print(f"{start} {'bare loop':<10} {_spread(r.loop_rate, 1):>20}")
        whole = _spread(ratios(r.whole_rate, r.loop_rate), 2)
        print(f"{start} {'whole run':<10} {_spread(r.whole_rate, 1):>20} {whole:>20} {'':>10} {r.rss_mib:>5.0f}")
        steady = _spread(ratios(r.steady_rate, r.loop_rate), 2)
        startup = f"{statistics.median(r.startup_s):.2f}"
        print(f"{start} {'steady':<10} {_spread(r.steady_rate, 1):>20} {steady:>20} {startup:>10}")
        print(
            f"{'':>18} {r.sft} of {r.case.records} in sft, {r.overlays} drawn by the loop; "
            f"imports {statistics.median(r.import_s):.2f} s, not counted above"
        )


def ratios(rates: list[float], limits: list[float]) -> list[float]:
    """Turn by turn."""
    return [rate / limit for rate, limit in zip(rates, limits, strict=True)]


def _spread(values: list[float], digits: int) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def print_profile(case: Case) -> None:
    """Processor time per record by part of the pipeline, under cProfile, which makes Python dearer than it is."""
    path = case.folder / "profile"
    case.start("pipeline", profile_to=path)
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    total_s = sum(own_s for _, _, own_s, _, _ in stats.values())
    print(f"processor time under cProfile, {case.size.name}, {case.records} records: {total_s:.1f} s")
    rest_s = total_s
    for part, file, function in PARTS:
        spent = [row[3] for (name, _, f), row in stats.items() if name.endswith(f"/{file}") and f == function]
        rest_s -= sum(spent)
        print(f"  {part:<42} {1e6 * sum(spent) / case.records:>8.0f} us a record {sum(spent) / total_s:>6.1%}")
    print(
        f"  {'the rest: Beam, coders, event loop, start':<42} {1e6 * rest_s / case.records:>8.0f} us a record "
        f"{rest_s / total_s:>6.1%}"
    )


def main() -> None:
    """Measure, print the tables and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1000, help="scenes of each size")
    parser.add_argument("--flat", action="store_true", help="10,000 small scenes too")
    parser.add_argument("--profile", action="store_true", help="where the pipeline's processor time goes")
    for name in ("--child", "--input", "--run", "--out", "--profile-to"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child_main(arguments)
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cases = [prepare(Path(folder), size, arguments.records) for size in (LARGE, SMALL)]
        results = [measure(case) for case in cases]
        print_table(results)
        if arguments.profile:
            for case in cases:
                print_profile(case)
        flat = None
        if arguments.flat:
            flat = prepare(Path(folder), SMALL, 10_000).start("pipeline")["rss_mib"]
            print(
                f"peak memory, {SMALL.name}: {results[1].rss_mib:.0f} MiB at {arguments.records}, {flat:.0f} MiB at 10000"
            )
    large, small = results
    line = {"name": "pipeline_overhead", "unit": "share of the bare loop's records/s"}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
