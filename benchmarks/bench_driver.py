"""Compares the driver's work after a job with a loop in plain Python (sets and dicts) over the same files.

The driver joins the ids that were read with those that were written, and sums funnel and ledger over the tables of
ends. Prints seconds and peak memory of both; each runs in its own process, after an untimed import.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SHARDS, CALLS, KEYS, BATCH_ROWS = 16, 10, 2, 20_000
STAGES = ("ingest", "clean", "attempt", "difficulty", "split", "propose", "point", "trace", "verify")


def write_job(folder: Path, records: int) -> None:
    """Write the output of a job over ``records`` records, all of them SFT rows, each with ten calls of two replies."""
    import pyarrow as pa

    from groundtrace.schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA
    from groundtrace.stages.plumbing.ends import ENDS_SCHEMA, READ_SCHEMA
    from groundtrace.stages.plumbing.shard_files import (
        ENDS,
        RECORDS,
        ShardEntry,
        entry_line,
        parquet_writer,
        write_manifest,
    )

    for name in ("sft", "rl", "rejected", ENDS, RECORDS):
        (folder / name).mkdir(parents=True)
    ids_schema = pa.schema([("id", pa.string())])
    with parquet_writer(folder / RECORDS / "read.parquet", READ_SCHEMA) as (writer, _):
        for first in range(0, records, BATCH_ROWS):
            rows = [{"number": n, "id": f"question-{n}"} for n in range(first, min(records, first + BATCH_ROWS))]
            writer.write_table(pa.Table.from_pylist(rows, READ_SCHEMA))
    lines = []
    for shard in range(SHARDS):
        name = f"train-{shard:05d}-of-{SHARDS:05d}.parquet"
        numbers = range(shard, records, SHARDS)
        with (
            parquet_writer(folder / "sft" / name, ids_schema) as (writer, stream),
            parquet_writer(folder / ENDS / f"sft-{name}", ENDS_SCHEMA) as (ends, _),
        ):
            for first in range(0, len(numbers), BATCH_ROWS):
                part = numbers[first : first + BATCH_ROWS]
                writer.write_table(pa.Table.from_pylist([{"id": f"question-{n}"} for n in part], ids_schema))
                ends.write_table(pa.Table.from_pylist([end_of(n) for n in part], ENDS_SCHEMA))
        size_bytes = (folder / "sft" / name).stat().st_size
        lines.append(entry_line(ShardEntry("sft", name, name, f"sft-{name}", len(numbers), size_bytes, "", "")))
        del stream
    for side, schema in (("rl", RL_SCHEMA), ("rejected", REJECTED_SCHEMA)):
        with parquet_writer(folder / side / "a.parquet", schema), parquet_writer(folder / ENDS / side, ENDS_SCHEMA):
            pass
        size_bytes = (folder / side / "a.parquet").stat().st_size
        lines.append(entry_line(ShardEntry(side, "a.parquet", "a.parquet", side, 0, size_bytes, "", "")))
    write_manifest(folder, lines)


def end_of(number: int) -> dict[str, Any]:
    """Return the row of ``ends`` for a record."""
    calls = [
        {
            "role": "judge" if place % 2 else "teacher",
            "stage": STAGES[place % len(STAGES)],
            "repairs": 0,
            "keys": [hashlib.sha256(f"{number} {place} {key}".encode()).hexdigest()[:32] for key in range(KEYS)],
            "worth_usd": [0.0001] * KEYS,
        }
        for place in range(CALLS)
    ]
    return {"id": f"question-{number}", "passed": list(STAGES), "calls": calls, "labels": []}


def driver(folder: Path) -> dict[str, Any]:
    """Return the figures, computed by the driver's own code."""
    from groundtrace.pipelines.running.account.counts import figures_of
    from groundtrace.pipelines.running.execute.job_folder import read_job

    figures = figures_of(read_job(folder), frozenset())
    calls, worth = (sum(getattr(each, name) for each in figures.asked.values()) for name in ("calls", "worth_usd"))
    return {"records": figures.counts.input, "calls": calls, "worth": round(worth, 4), "wrong": figures.unbalanced}


def loop(folder: Path) -> dict[str, Any]:
    """Return the figures, computed by a plain loop with sets and dicts."""
    import pyarrow.parquet as pq

    read, written, kept, calls = set[str](), set[str](), Counter[str](), Counter[tuple[str, str]]()
    worth: dict[str, float] = {}
    for path in (folder / "records").iterdir():
        read |= {row["id"] for row in pq.read_table(path).to_pylist()}
    for path in sorted((folder / "ends").iterdir()):
        for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS):
            for row in batch.to_pylist():
                written.add(row["id"])
                kept.update(row["passed"])
                for call in row["calls"]:
                    calls[call["role"], call["stage"]] += 1
                    worth.update(zip(call["keys"], call["worth_usd"], strict=True))
    wrong = "" if read == written else "differ"
    return {"records": len(read), "calls": calls.total(), "worth": round(sum(worth.values()), 4), "wrong": wrong}


def measured(side: str, folder: Path) -> dict[str, Any]:
    """Return seconds, MiB and figures of a side, which runs in a separate process."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--side", choices=["driver", "loop"])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.side:
        import groundtrace.pipelines.running.account.counts
        import groundtrace.pipelines.running.execute.job_folder  # noqa: F401 (neither import is timed)

        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        figures = {"driver": driver, "loop": loop}[arguments.side](arguments.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"s": time.monotonic() - began, "mib": (peak - before) / 1024, "figures": figures}))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder) / "job", arguments.records)
        ends_bytes = sum(path.stat().st_size for path in (Path(folder) / "job/ends").iterdir())
        sides = {side: measured(side, Path(folder) / "job") for side in ("driver", "loop")}
    if sides["driver"]["figures"] != sides["loop"]["figures"]:
        raise SystemExit(f"the two disagree: {sides}")
    print(f"{arguments.records} records of {CALLS} calls; {ends_bytes / arguments.records:.0f} bytes of ends each")
    for side, found in sides.items():
        print(f"{side:6} {found['s']:7.2f} s  {found['mib']:7.0f} MiB more")
    ratio = sides["loop"]["s"] / sides["driver"]["s"]
    print(f"{ratio:.1f} times the speed of the loop; {sides['driver']['mib'] / sides['loop']['mib']:.2f} of its memory")
    print(json.dumps({"name": "driver", "ratio": round(ratio, 2), "unit": "times the loop's speed"}))


if __name__ == "__main__":
    main()
