"""Measures the pipeline's overhead: its time beyond the pixel work that it cannot avoid.

The baseline is a bare loop: decode, draw the same marks, encode, write the drawn PNG, append both images to a Parquet
file. The pipeline is pipelines/grounded_cot.py with every reply already in the cache: ingest, overlay, verify, shards.

    python benchmarks/bench_pipeline_overhead.py [--records 1000] [--flat] [--profile]

Both sides run in separate processes, pinned to the same core, turn by turn, and draw the same bytes. ``--flat`` also
runs 10,000 small records, for the peak memory; ``--profile`` adds a table of the pipeline's CPU time by function.
"""

import argparse
import json
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenes import SceneKind, render_input

SIDES = Path(__file__).resolve().parent / "overhead_sides.py"
LARGE = SceneKind(1280, 960, 160, ("jpg", "png"))
SMALL = SceneKind(400, 100, 33, ("png",))
NOISY = SceneKind(1280, 960, 160, ("jpg",), noise=4.0)
TURNS = 3
FLAT_RECORDS = 10_000

# The rows of the table of --profile: a description, and a function of the pipeline; these do not call one another.
PARTS = (
    ("ingest: parse a record", "groundtrace/grading/input_record.py", "parse_record"),
    ("ingest: read, decode, hash a medium", "groundtrace/vision/checked_medium.py", "check_medium"),
    ("attempt: 4 cached replies, graded", "stages/attempt_questions.py", "attempt"),
    ("propose: 1 cached reply", "stages/propose_entities.py", "propose"),
    ("point: 1 cached reply an entity", "stages/point_entities.py", "_point_at"),
    ("overlay: decode, draw, encode, write", "stages/draw_overlays.py", "draw"),
    ("trace: 8 cached replies, equal ones parsed once", "stages/generate_traces.py", "trace"),
    ("verify: 8 traces, equal ones scored once", "stages/verify_traces.py", "verify"),
    ("shards: read pictures, build, write", "stages/write_shards.py", "write_shard"),
    ("report and card", "groundtrace/publishing/report.py", "write_report"),
)


@dataclass(frozen=True)
class InputCase:
    """One input on disk with its run folder."""

    size: SceneKind
    records: int
    folder: Path

    def start(self, side: str, limit: int = 0, profile_to: Path | None = None) -> dict[str, Any]:
        """Run one side in a separate process; earlier drawings are removed first, so that they are drawn again."""
        shutil.rmtree(self.folder / "run" / "media", ignore_errors=True)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()
        command = [
            sys.executable,
            str(SIDES),
            side,
            "--size",
            f"{self.size.width}x{self.size.height}",
            "--limit",
            str(limit),
        ]
        for name in ("input", "run", "out"):
            command += [f"--{name}", str(self.folder / name)]
        command += ["--profile-to", str(profile_to)] if profile_to else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{side} on {self.size.name}: {done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def prepare(folder: Path, size: SceneKind, records: int) -> tuple[InputCase, float]:
    """Render the input and fill the cache; returns the case, and the peak memory of the filling run in MiB."""
    case = InputCase(size, records, folder / f"{size.name}-{records}")
    render_input(case.folder / "input", size, records)
    return case, case.start("pipeline")["rss_mib"]


@dataclass(frozen=True)
class Result:
    """The figures of one case; lists are in the order of turns. Rates are records per second.

    ``cpu_ratio`` is the loop's CPU time over that of the whole run; other load on the machine hardly changes it.
    """

    case: InputCase
    loop_rate: list[float]
    whole_rate: list[float]
    steady_rate: list[float]
    cpu_ratio: list[float]
    startup_s: float
    import_s: float
    rss_mib: float
    sft: int
    overlays: int


def measure(case: InputCase) -> Result:
    """Run the pipeline on a tenth of the records, on all of them, and the loop, three times in turn.

    The steady rate is that of the records beyond the tenth; the start-up is the extra time of the tenth at that rate.
    """
    part = max(1, case.records // 10)
    turns = [(case.start("pipeline", part), case.start("pipeline"), case.start("loop")) for _ in range(TURNS)]
    for few, whole, _ in turns:
        if few["sent"] or whole["sent"] or whole["input"] != case.records:
            raise RuntimeError(f"not a cached run over all records: {whole}")
    steady = [(case.records - part) / (whole["wall_s"] - few["wall_s"]) for few, whole, _ in turns]
    return Result(
        case=case,
        loop_rate=[case.records / loop["wall_s"] for _, _, loop in turns],
        whole_rate=[case.records / whole["wall_s"] for _, whole, _ in turns],
        steady_rate=steady,
        cpu_ratio=[loop["cpu_s"] / whole["cpu_s"] for _, whole, loop in turns],
        startup_s=statistics.median(
            few["wall_s"] - part / rate for (few, _, _), rate in zip(turns, steady, strict=True)
        ),
        import_s=statistics.median(whole["import_s"] for _, whole, _ in turns),
        rss_mib=max(whole["rss_mib"] for _, whole, _ in turns),
        sft=turns[0][1]["sft"],
        overlays=turns[0][2]["overlays"],
    )


def print_table(results: list[Result]) -> None:
    """Print records per second and their ratio to the bare loop: median (lowest-highest) of the turns."""
    print(f"{'scenes':>10} {'records':>7} {'':<9} {'records/s':>22} {'of the loop':>18} {'peak MiB':>8}")
    for r in results:
        start = f"{r.case.size.name:>10} {r.case.records:>7}"
        print(f"{start} bare loop {spread(r.loop_rate, 1):>22} {'1':>18}")
        whole, steady = ratios(r.whole_rate, r.loop_rate), ratios(r.steady_rate, r.loop_rate)
        print(f"{start} whole run {spread(r.whole_rate, 1):>22} {spread(whole, 2):>18} {r.rss_mib:>8.0f}")
        print(f"{start} steady    {spread(r.steady_rate, 1):>22} {spread(steady, 2):>18}")
        print(f"{start} processor time, whole run {'':>6} {spread(r.cpu_ratio, 2):>18}")
        print(
            f"{'':>18} start-up {r.startup_s:.1f} s, imports {r.import_s:.1f} s besides; {r.sft} rows in sft, "
            f"{r.overlays} pictures drawn by the loop"
        )


def ratios(rates: list[float], limits: list[float]) -> list[float]:
    """Return the ratio of each rate to its limit, turn by turn."""
    return [rate / limit for rate, limit in zip(rates, limits, strict=True)]


def spread(values: list[float], digits: int) -> str:
    """Return the values as text: median (lowest-highest)."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def print_profile(case: InputCase) -> None:
    """Print CPU time per record by part, under cProfile, which overestimates the time of Python code."""
    path = case.folder / "profile"
    case.start("pipeline", profile_to=path)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]]
    stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    # "poll" is left out: it is still running when the profile ends, and its time is then from another thread's clock.
    total_s = sum(row[2] for (_, _, function), row in stats.items() if "poll" not in function)
    rows = []
    for part, file, wanted in PARTS:
        inside = [row[3] for (name, _, f), row in stats.items() if name.endswith(file) and f == wanted]
        if not inside:
            raise RuntimeError(f"{part}: {wanted} of {file} was never called")
        rows.append((part, sum(inside)))
    rows.append(("the rest: Beam, coders, event loop, start", total_s - sum(spent for _, spent in rows)))
    print(f"processor time under cProfile, {case.size.name}, {case.records} records: {total_s:.1f} s")
    for part, spent_s in rows:
        print(f"  {part:<48} {1e6 * spent_s / case.records:>8.0f} us a record {spent_s / total_s:>6.1%}")


def main() -> None:
    """Measure, print the tables and the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--records", type=int, default=1000, help="scenes of each size (default 1000)")
    parser.add_argument("--flat", action="store_true", help=f"{FLAT_RECORDS} small scenes too, for the memory")
    parser.add_argument("--profile", action="store_true", help="profile the pipeline's processor time")
    arguments = parser.parse_args()
    flat: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        prepared = [prepare(Path(folder), size, arguments.records) for size in (NOISY, LARGE, SMALL)]
        noisy, large, small = results = [measure(case) for case, _ in prepared]
        print_table(results)
        if arguments.profile:
            for case, _ in prepared:
                print_profile(case)
        if arguments.flat:
            case, filling_mib = prepare(Path(folder), SMALL, FLAT_RECORDS)
            figures = case.start("pipeline")
            rate, rss_mib = FLAT_RECORDS / figures["wall_s"], figures["rss_mib"]
            print(f"{SMALL.name:>10} {FLAT_RECORDS:>7} whole run {rate:>22.1f} {'':>18} {rss_mib:>8.0f}")
            flat = {f"rss_mib_{FLAT_RECORDS}": round(rss_mib), f"rss_mib_{FLAT_RECORDS}_filling": round(filling_mib)}
    line: dict[str, Any] = {"name": "pipeline_overhead", "unit": "share of the bare loop's records/s"}
    for prefix, r in (("", noisy), ("drawn_", large), ("small_", small)):
        line[f"{prefix}ratio"] = round(statistics.median(ratios(r.whole_rate, r.loop_rate)), 3)
        line[f"{prefix}ratio_steady"] = round(statistics.median(ratios(r.steady_rate, r.loop_rate)), 3)
        line[f"{prefix}ratio_cpu"] = round(statistics.median(r.cpu_ratio), 3)
        line[f"{prefix}records_per_s"] = round(statistics.median(r.whole_rate), 1)
        line[f"{prefix}startup_s"] = round(r.startup_s, 2)
    line["records"] = arguments.records
    for r, (_, filling_mib) in zip(results, prepared, strict=True):
        name = "" if r is small else f"_{r.case.size.name.replace(' ', '_')}"
        line[f"rss_mib_{arguments.records}{name}"] = round(r.rss_mib)
        line[f"rss_mib_{arguments.records}{name}_filling"] = round(filling_mib)
    print(json.dumps(line | flat))


if __name__ == "__main__":
    main()
