"""Measures the command that users run, from its start to its exit, beside a bare client that makes the same calls.

    python benchmarks/bench_main_job.py [--parts image text roles operator embedded mistake] [--records 1000]
                                        [--turns 3] [--large 10000] [--input DATA] [--beam COMMAND …] [--keep]

The command is ``beam run grounded_cot``. A local server has 64 slots and takes 200 ms a call. The parts are:

* ``image``: JPEG images of 60 KB, with two attempts at each question, as separate requests. All answers are right, so
  that no other role is asked. The bare client (aiohttp) reads the same images and sends the same requests, 64 at once,
  in a process of its own. Then the same run with all replies in the cache, with one and with two workers, and a run
  whose attempt stage makes no calls, beside the imports of its libraries and a loop that decodes and hashes each image
  once.
* ``text``: the same with images of 2 KB.
* ``roles``: the server plays all roles. The share of its slot-seconds that is used from the first to the last request.
* ``operator``: a server with 1,000 slots takes 2 to 30 s a call (log-uniform). Requests with an image of 2 KB, with one
  of 60 KB, and with 20 of them: the used share of its slot-seconds, and of the bare client's.
* ``embedded``: the embedded engine in all roles over DATA (or rendered scenes): CPU seconds for each verified trace.
* ``mistake``: the CPU time of a command that a user's mistake ends, beside that of ``--help``.

``--large`` adds that number of records to ``image``, for the time before the first request and the peak memory.
``--beam`` names commands of other checkouts, which take turns with this one.

Times are of whole processes: *start* until the server receives the first request, *working* until its last reply, and
*tail* until the exit. CPU time is that of the process and of its children. The ratios are compared with those in
``main_job/kept_figures.json``; ``--keep`` replaces them. Exit code 1 if CPU time is more than 20 % worse than kept, or
time more than 35 %.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_pipeline_overhead import ratios, spread
from main_job.inputs import IMAGE, KINDS, TEXT, InputKind, write_input
from main_job.kept import keep, worse_than_kept
from main_job.processes import Turn, process, with_calls
from model_access import Server, answer_of, question_of, serving, write_pictures
from scenes import SceneKind, render_input

SLOTS, LATENCY_S, ATTEMPTS = 64, 0.2, 2
OPERATOR_SLOTS, OPERATOR_CALLS, OPERATOR_S = 1000, 3000, (2, 30)
SEED = 5
WITHOUT_ATTEMPTS = Path(__file__).resolve().with_name("main_job") / "without_attempts.py"
SIDES = Path(__file__).resolve().with_name("main_job") / "sides.py"
BEAM = str(Path(sys.executable).with_name("beam"))
CONFIG = """
allow_embedded = true
[endpoints.far]
kind = "openai"
model = "m"
base_url = "URL"
family = "qwen3-vl"
max_concurrency = SLOTS
max_bytes_in_flight = 4_000_000_000
samples_per_request = 1
[attempt]
k = 2
k_min = 2
[dedup]
near = false
[roles]
policy = "far"
"""
ROLES = "".join(f'{role} = "far"\n' for role in ("pointer", "teacher", "detector", "segmenter", "judge"))
SCENE = SceneKind(400, 100, 25, ("png",))


@dataclass(frozen=True)
class Job:
    """The job over one input with ``records`` records, against a server with ``slots`` slots."""

    server: Server
    data: Path
    records: int
    config: Path
    slots: int = SLOTS

    def side(self, name: str) -> Turn:
        """Run a bare side."""
        calls = self.records * ATTEMPTS if name == "bare" else 0
        words = (name, self.server.base_url, str(self.data), str(ATTEMPTS), str(self.slots))
        return with_calls(self.server, calls, sys.executable, str(SIDES), *words)

    def run(self, beam: str, output: Path, *options: str, calls: int | None, pipeline: str = "grounded_cot") -> Turn:
        """Run the command of a checkout into a folder; ``calls`` is the number of its calls if it is known."""
        command = [beam, "run", pipeline, "--input", str(self.data), "--output", str(output)]
        return with_calls(self.server, calls, *command, "--config", str(self.config), *options)


def config_file(folder: Path, server: Server, slots: int = SLOTS, roles: str = "") -> Path:
    """Write the config of the runs against a server, and return its file."""
    file = folder / "config.toml"
    file.write_text(CONFIG.replace("URL", server.base_url).replace("SLOTS", str(slots)) + roles, "utf-8")
    return file


def measure(job: Job, beams: Sequence[str], turns: int, folder: Path) -> dict[str, list[Turn]]:
    """Run all sides turn by turn; returns the turns of each side."""
    found: dict[str, list[Turn]] = {}
    calls = job.records * ATTEMPTS

    def add(name: str, turn: Turn) -> None:
        found.setdefault(name, []).append(turn)

    for number in range(turns):
        for side in ("bare", "loop", "imports"):
            add(side, job.side(side))
        for place, beam in enumerate(beams):
            output = folder / f"{job.records}-{place}-{number}" / "run"  # a run takes replies of runs beside it
            add(f"run {place}", job.run(beam, output, calls=calls))
            add(f"cached {place}", job.run(beam, output, "--replace", calls=0))
            if place == 0:
                workers = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
                add("cached, two workers", job.run(beam, output, "--replace", *workers, calls=0))
                alone = output.with_name("alone")
                add(WITHOUT_ATTEMPTS.stem, job.run(beam, alone, calls=0, pipeline=str(WITHOUT_ATTEMPTS)))
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


def least_cpu_s(found: dict[str, list[Turn]]) -> list[float]:
    """Return, for each turn, the CPU seconds of the imports and of the loop that decodes and hashes each image."""
    return [loop.ran.cpu_s + imported.ran.cpu_s for loop, imported in zip(found["loop"], found["imports"], strict=True)]


def figures(found: dict[str, list[Turn]], place: int) -> dict[str, float]:
    """Return the ratios of one checkout's command to the bare sides, as medians over the turns."""
    bare, run, cached = (found[name] for name in ("bare", f"run {place}", f"cached {place}"))
    least = least_cpu_s(found)

    def of(value: Callable[[Turn], float], turns: Sequence[Turn], limits: Sequence[Turn]) -> float:
        return round(statistics.median(ratios([value(t) for t in turns], [value(t) for t in limits])), 3)

    return {
        "whole_rate": round(1 / of(lambda turn: turn.ran.wall_s, run, bare), 3),
        "working_rate": round(1 / of(lambda turn: turn.working_s, run, bare), 3),
        "cpu": of(lambda turn: turn.ran.cpu_s, run, bare),
        "cached_cpu": round(statistics.median(ratios([turn.ran.cpu_s for turn in cached], least)), 3),
        "tail_share": round(statistics.median(turn.tail_s / turn.ran.wall_s for turn in run), 3),
        "start_s": round(statistics.median(turn.start_s for turn in run), 2),
        "peak_mib": round(max(turn.ran.peak_mib for turn in run)),
    }


def bare_part(kind: InputKind, arguments: argparse.Namespace, beams: Sequence[str], folder: Path) -> dict[str, Any]:
    """Measure the parts ``image`` and ``text``."""
    with serving("--slots", str(SLOTS), "--latency-s", str(LATENCY_S)) as server:
        config = config_file(folder, server)
        write_input(folder / "input", arguments.records, kind)
        job = Job(server, folder / "input", arguments.records, config)
        found = measure(job, beams, arguments.turns, folder)
        print_table(found, beams)
        line: dict[str, Any] = {f"run_{place}": figures(found, place) for place in range(len(beams))}
        two, one = ([t.ran.cpu_s for t in found[name]] for name in ("cached, two workers", "cached 0"))
        line["run_0"]["two_workers_cpu"] = round(statistics.median(ratios(two, one)), 2)
        outside = [turn.ran.cpu_s for turn in found[WITHOUT_ATTEMPTS.stem]]
        line["run_0"]["outside_attempts_cpu"] = round(statistics.median(ratios(outside, least_cpu_s(found))), 3)
        if arguments.large and kind is IMAGE:
            write_input(folder / "large", arguments.large)
            large = Job(server, folder / "large", arguments.large, config)
            turn = large.run(BEAM, folder / "large-run" / "run", calls=arguments.large * ATTEMPTS)
            line["large"] = {
                "records": arguments.large,
                "start": round(turn.start_s / line["run_0"]["start_s"], 2),
                "peak": round(turn.ran.peak_mib / line["run_0"]["peak_mib"], 2),
            }
            print(f"{arguments.large} records: start {turn.start_s:.1f} s, {turn.ran.peak_mib:.0f} MiB")
    return line


def roles_part(arguments: argparse.Namespace, beams: Sequence[str], folder: Path) -> dict[str, Any]:
    """Measure the part ``roles``."""
    (folder / "input").mkdir()
    items = write_pictures(folder / "input", arguments.records)
    with (folder / "input" / "records.jsonl").open("w", encoding="utf-8") as lines:
        for item in items:
            record = {"id": item.id, "question": question_of(item.id), "answer": answer_of(item.id)}
            record |= {"answer_type": "numeric", "media": [item.uri.removeprefix("input:")]}
            lines.write(json.dumps(record | {"source": "bench", "license": "CC0-1.0"}) + "\n")
    line = {}
    with serving("--slots", str(SLOTS), "--latency-s", str(LATENCY_S), "--script") as server:
        job = Job(server, folder / "input", len(items), config_file(folder, server, roles=ROLES))
        for place, beam in enumerate(beams):
            turns = [
                job.run(beam, folder / f"{place}-{number}" / "run", calls=None) for number in range(arguments.turns)
            ]
            used = statistics.median(turn.used(SLOTS) for turn in turns)
            cpu_ms = statistics.median(1000 * turn.ran.cpu_s / len(turn.log) for turn in turns)
            line[f"run_{place}"] = {"used": round(used, 3), "calls": len(turns[0].log)}
            print(
                f"run {place}: {len(turns[0].log)} calls, {used:.3f} of the slot-seconds, {cpu_ms:.2f} ms of CPU a call"
            )
    return line


def operator_part(arguments: argparse.Namespace, beams: Sequence[str], folder: Path) -> dict[str, Any]:
    """Measure the part ``operator``."""
    line: dict[str, Any] = {f"run_{place}": {} for place in range(len(beams))}
    heavy = ("--heavy", str(SEED), "--heavy-s", *map(str, OPERATOR_S))
    with serving("--slots", str(OPERATOR_SLOTS), *heavy) as server:
        config = config_file(folder, server, OPERATOR_SLOTS)
        for kind in KINDS:
            data = folder / kind.name
            write_input(data, OPERATOR_CALLS // ATTEMPTS, kind)
            job = Job(server, data, OPERATOR_CALLS // ATTEMPTS, config, OPERATOR_SLOTS)
            bare = job.side("bare").used(OPERATOR_SLOTS)
            for place, beam in enumerate(beams):
                turn = job.run(beam, folder / f"{kind.name}-{place}" / "run", calls=OPERATOR_CALLS)
                used = turn.used(OPERATOR_SLOTS)
                line[f"run_{place}"][f"used, {kind.name}"] = round(used / bare, 3)
                print(f"run {place}, {kind.name}: {used:.3f} of the slot-seconds, bare {bare:.3f}; ", end="")
                print(f"peak {turn.ran.peak_mib:.0f} MiB, CPU {turn.ran.cpu_s:.1f} s")
    return line


def embedded_part(arguments: argparse.Namespace, beams: Sequence[str], folder: Path) -> dict[str, Any]:
    """Measure the part ``embedded``."""
    data = arguments.input
    if data is None:
        data = folder / "input"
        render_input(data, SCENE, arguments.records)
    line: dict[str, Any] = {}
    spent: dict[int, list[float]] = {place: [] for place in range(len(beams))}
    for number in range(arguments.turns):
        for place, beam in enumerate(beams):
            output = folder / f"{place}-{number}" / "run"
            ran = process(beam, "run", "grounded_cot", "--input", str(data), "--output", str(output))
            if ran.code:
                raise RuntimeError(f"{beam}: exit code {ran.code}\n{ran.output[-3000:]}")
            verified = json.loads((output / "run.json").read_text("utf-8"))["counts"]["sft"]
            spent[place].append(1000 * ran.cpu_s / verified)
            print(f"run {place}: {verified} verified traces, {spent[place][-1]:.1f} ms of CPU for each")
    for place, each in spent.items():
        line[f"run_{place}"] = {
            "cpu_ms_a_trace": round(statistics.median(each), 1),
            "of_run_0": round(statistics.median(ratios(each, spent[0])), 3),
        }
    return line


def mistake_part(arguments: argparse.Namespace, beams: Sequence[str], folder: Path) -> dict[str, Any]:
    """Measure the part ``mistake``."""
    line: dict[str, Any] = {}
    for place, beam in enumerate(beams):
        command = (beam, "run", "grounded_cot", "--input", str(folder / "absent"), "--output", str(folder / "none"))
        pairs = [(process(*command), process(beam, "--help")) for _ in range(arguments.turns)]
        if any(mistake.code != 2 or shown.code for mistake, shown in pairs):
            raise RuntimeError(f"exit codes {[(mistake.code, shown.code) for mistake, shown in pairs]}")
        ratio = statistics.median(mistake.cpu_s / shown.cpu_s for mistake, shown in pairs)
        line[f"run_{place}"] = {"cpu": round(ratio, 2)}
    return line


PARTS: dict[str, Callable[[argparse.Namespace, Sequence[str], Path], dict[str, Any]]] = {
    "image": lambda *each: bare_part(IMAGE, *each),
    "text": lambda *each: bare_part(TEXT, *each),
    "roles": roles_part,
    "operator": operator_part,
    "embedded": embedded_part,
    "mistake": mistake_part,
}


def main() -> None:
    """Measure, print the tables and the JSON line, and compare with the kept figures."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["image", "mistake"])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--large", type=int, default=0, help="also one run with this number of records")
    parser.add_argument("--input", type=Path, help="a folder with records.jsonl for the part embedded")
    parser.add_argument("--beam", nargs="*", default=[], help="commands of other checkouts")
    parser.add_argument("--keep", action="store_true", help="keep the figures, instead of comparing with the kept ones")
    arguments = parser.parse_args()
    beams = [BEAM, *arguments.beam]
    found: dict[str, dict[str, Any]] = {}
    for part in arguments.parts:
        print(f"\n{part}")
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            found[part] = PARTS[part](arguments, beams, Path(name))
    line: dict[str, Any] = {"name": "main_job", "unit": "ratios to a bare client, or to bare work"}
    if "image" in found:
        line["ratio"] = found["image"]["run_0"]["whole_rate"]
    print(json.dumps(line | {"parts": found, "records": arguments.records, "turns": arguments.turns}))
    own = {part: each["run_0"] | each.get("large", {}) for part, each in found.items()}
    if arguments.keep:
        keep(own)
        return
    worse = worse_than_kept(own)
    print(*worse, sep="\n", file=sys.stderr)
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
