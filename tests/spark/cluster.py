"""Runs on a Spark cluster of this machine, which scripts/spark starts, against a model server that counts."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))  # they have the input and the server that runs are killed with
from bench_kill import CONFIG, PIPELINE, ROLES, write_input  # noqa: E402
from engine_cluster import Cluster, started  # noqa: E402
from model_access import Server, serving  # noqa: E402

__all__ = ["RECORDS", "ROOT", "SHARDS", "WINDOW", "Bench", "Cluster", "Outcome", "bench", "started"]

RECORDS, SHARDS, WINDOW = 500, 4, 32
RUN_LIMIT_S = 900


@dataclass(frozen=True)
class Outcome:
    """What a run left: exit code and output, and of ``run.json`` what the records and their calls came to.

    Attributes:
        code: the exit code.
        said: the output.
        counts: the records read, and the rows of each set.
        funnel: by stage the records read and kept.
        calls: by role and stage the calls, the repairs among them and what they are worth.
        paid: the requests of this run that its ledger holds.
        paid_in_all: those of all runs of the folder.
        files: the digests of the sft and rl files.
    """

    code: int
    said: str
    counts: dict[str, Any] = field(default_factory=dict)
    funnel: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: dict[tuple[str, str], tuple[int, int, float]] = field(default_factory=dict)
    paid: int = 0
    paid_in_all: int = 0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def ends(self) -> int:
        """How many records have an end."""
        rejected = sum(sum(reasons.values()) for reasons in self.counts["rejected"].values())
        return self.counts["sft"] + self.counts["rl"] + rejected


@dataclass(frozen=True)
class Bench:
    """An input, a counting server and the folder of the runs."""

    folder: Path
    server: Server

    def begin(self, name: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """Start ``beam run`` into a folder of that name, with a cache beside it."""
        command = [sys.executable, "-m", "groundtrace", "run", PIPELINE, "--input", self.folder / "input"]
        command += ["--output", self.folder / name, "--cache", self.folder / f"{name}-cache"]
        command += ["--config", self.folder / "config.toml", *(["--", *options] if options else [])]
        return subprocess.Popen(
            list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self, name: str, process: "subprocess.Popen[str]") -> Outcome:
        """Wait for the run; what it left."""
        said, _ = process.communicate(timeout=RUN_LIMIT_S)
        run = self.folder / name
        if process.returncode:
            return Outcome(process.returncode, said)
        summary = json.loads((run / "run.json").read_text("utf-8"))
        paths = sorted(path for side in ("sft", "rl") for path in (run / side).glob("*.parquet"))
        return Outcome(
            0,
            said,
            summary["counts"],
            {name: (figures["in"], figures["kept"]) for name, figures in summary["stages"].items()},
            {
                (role, stage): (told["calls"], told["repairs"], told["worth_usd"])
                for role, entry in summary["ledger"].items()
                for stage, told in entry["stages"].items()
            },
            sum(entry["requests"] for entry in summary["ledger"].values()),
            summary["paid"]["requests"],
            {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths},
        )

    def run(self, name: str, options: tuple[str, ...] = ()) -> Outcome:
        """Run to the end."""
        return self.end(name, self.begin(name, options))

    def requests(self) -> int:
        """How many requests the server has counted since it was last told to forget."""
        return self.server.ask("figures")["requests"]


@contextmanager
def bench(folder: Path, latency_s: float = 0.1) -> Iterator[Bench]:
    """The input and the server."""
    write_input(folder / "input", RECORDS)
    with serving("--script", "--latency-s", str(latency_s)) as server:
        roles = "\n".join(f'{role} = "server"' for role in ROLES)
        config = CONFIG.format(url=server.base_url, window=WINDOW, samples=16, roles=roles)
        (folder / "config.toml").write_text(f"{config}\n[write]\nshards = {SHARDS}\n", "utf-8")
        yield Bench(folder, server)
