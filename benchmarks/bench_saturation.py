"""Measures how busy the model stage keeps a server, compared with a bare client with as many requests in flight.

    python benchmarks/bench_saturation.py [--calls 4000] [--turns 3] [--overload]

A local server in a separate process has 64 slots and takes 200 ms per call, so 320 calls/s are ideal. The stage is
``CallModels`` in a real Beam run with the ``openai`` endpoint. It is compared, turn by turn, with aiohttp with 64
in-flight requests and with the official openai client. With ``--overload``, the server instead rejects (503) requests
beyond 16 at once.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_pipeline_overhead import ratios, spread
from model_access import (
    SEED,
    TEMPLATE_ITEM,
    Item,
    Ran,
    Server,
    imports_done,
    in_flight,
    models_settings,
    own_figures,
    question_of,
    read_items,
    run_beam,
    run_side,
    serving,
    text_body,
    write_items,
    write_pictures,
)

SLOTS, LATENCY_S, OVERLOAD = 64, 0.2, 16
KINDS = (
    ("working", "rate", "ratio"),
    ("run with start-up", "run_rate", "run_ratio"),
    ("process", "whole_rate", "process_ratio"),
)
"""The rates of a side: its name in the table, the property of :class:`SideResult`, its name in the JSON line."""
PROMPT = "attempt.v1"


@dataclass(frozen=True)
class WorkCase:
    """One kind of work: its calls, the server's arguments, and the sides that do it."""

    name: str
    items: Path
    calls: int
    server: tuple[str, ...]
    sides: tuple[str, ...] = ("beam", "bare")


@dataclass(frozen=True)
class SideResult:
    """The result of a side in one turn: the figures of its process and of the server."""

    ran: Ran
    served: dict[str, Any]
    calls: int

    @property
    def rate(self) -> float:
        """Calls per second from the first request to the last reply."""
        return self.calls / self.served["wall_s"]

    @property
    def run_rate(self) -> float:
        """Calls per second of the run with its start-up, without imports."""
        return self.calls / (self.ran.wall_s - self.ran.printed["import_s"])

    @property
    def whole_rate(self) -> float:
        """Calls per second of the whole process."""
        return self.calls / self.ran.wall_s

    @property
    def cpu_s(self) -> float:
        """CPU seconds per 1,000 calls, without imports."""
        return 1000 * (self.ran.cpu_s - self.ran.printed["import_cpu_s"]) / self.calls


async def ask(item: Item, session: Any) -> Any:
    """Do the work of the tested stage: one call."""
    from groundtrace.inference.request import Sampling

    answered = await session.generate("teacher", prompt_of(item), Sampling(1, 1.0))
    return [item.id, answered.text]


def prompt_of(item: Item) -> Any:
    """Return the prompt of a call."""
    from groundtrace.grading.messages import MediaPart
    from groundtrace.prompts.loader import load_prompt

    media = [MediaPart(item.uri, item.sha256)] if item.uri else []
    question = question_of(item.id)
    return load_prompt(PROMPT).render({"original": media}, question=question, choices="", answer_format="A number.")


def beam_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the tested stage in a Beam run; returns its figures."""
    # the first two imports are here so that the run's start-up includes no imports
    import groundtrace.inference.endpoints.openai_compatible
    import groundtrace.pipelines.running.execute.runner  # noqa: F401
    from groundtrace.inference.role_calls import Asks
    from groundtrace.inference.runtime import runtime
    from groundtrace.stages.plumbing.calling import CallModels
    from groundtrace.stages.plumbing.stage import Stage

    imported = imports_done()
    settings = models_settings(arguments.url, arguments.folder, max_concurrency=SLOTS)
    stage = Stage("ask", "asks", asks=(Asks("teacher", ("attempt.v1",)),))
    run_beam(arguments.items, CallModels(stage, ask, settings), arguments.folder)
    runtime().close(settings)
    names = ("kept", "rejected")
    return imported | {name: len(json.loads((arguments.folder / f"{name}.json").read_text("utf-8"))) for name in names}


def idle_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the same Beam pipeline without calls, to measure Beam's own cost."""
    import apache_beam as beam

    import groundtrace.pipelines.running.execute.runner  # noqa: F401

    imported = imports_done()

    class Idle(beam.DoFn):
        """Emits an element of the same form as the result of a call."""

        def process(self, element: Item) -> Iterator[Any]:
            yield [element.id, question_of(element.id)]

    run_beam(arguments.items, Idle(), arguments.folder)
    return imported


def bare_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a plain aiohttp client; a rejected request is retried after the latency of a call."""
    import aiohttp

    imported, refused = imports_done(), 0

    async def run() -> None:
        """Send all calls over one session."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def call(body: dict[str, Any]) -> None:
                """Send one call, again after each refusal until the server answers."""
                nonlocal refused
                while True:
                    async with session.post(f"{arguments.url}/chat/completions", json=body) as response:
                        reply = await response.json()
                    if response.status == 200:
                        assert reply["choices"][0]["message"]["content"]
                        return
                    refused += 1
                    await asyncio.sleep(LATENCY_S)

            await calls_of(arguments, call)

    asyncio.run(run())
    return imported | {"refused": refused}


def openai_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the official openai client; returns its figures."""
    import openai

    imported = imports_done()

    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=arguments.url, api_key="none", max_retries=0) as client:

            async def call(body: dict[str, Any]) -> None:
                assert (await client.chat.completions.create(**body)).choices[0].message.content

            await calls_of(arguments, call)

    asyncio.run(run())
    return imported


def calls_of(arguments: argparse.Namespace, call: Callable[[dict[str, Any]], Awaitable[None]]) -> Awaitable[None]:
    """Make the calls of a client side, with its number of in-flight requests."""
    items = read_items(arguments.items)
    return in_flight(items, arguments.in_flight, arguments.template, arguments.folder.parent, call)


SIDES = {"beam": beam_side, "idle": idle_side, "bare": bare_side, "openai": openai_side}


def measure(case: WorkCase, folder: Path, template: str, turn: int) -> dict[str, SideResult]:
    """Run one turn of all sides, each with its own server.

    The bare clients send in the stage's order: with heavy-tailed latencies the order determines the last seconds.
    """
    sides: dict[str, SideResult] = {}
    items = case.items
    for name in case.sides:
        with serving("--slots", str(SLOTS), *case.server) as server:
            sides[name] = start(case, name, server, items, folder / f"{case.name}-{name}-{turn}", template)
            if name == "beam":
                by_id = {item.id: item for item in read_items(str(items))}
                items = folder / f"{case.name}-{turn}.jsonl"
                write_items(items, [by_id[asked] for asked in dict.fromkeys(a["item"] for a in server.ask("log"))])
    return sides


def start(case: WorkCase, name: str, server: Server, items: Path, folder: Path, template: str) -> SideResult:
    """Run one side in one turn.

    Raises RuntimeError unless every call was answered once (or, with overload, given up).
    """
    folder.mkdir()
    held = OVERLOAD if "--overload" in case.server and name == "bare" else SLOTS
    arguments = ("--url", server.base_url, "--items", items, "--folder", folder, "--template", template)
    ran = run_side(__file__, name, *arguments, "--in-flight", held)
    served = server.ask("figures")
    refused, rejected = served["requests"] - served["answered"], ran.printed.get("rejected", 0)
    expected = 0 if name == "idle" else case.calls
    if served["answered"] + rejected != expected or (refused and "--overload" not in case.server):
        raise RuntimeError(f"{case.name}, {name}: {ran.printed}, {served}")
    return SideResult(ran, served, case.calls)


def print_case(case: WorkCase, turns: list[dict[str, SideResult]]) -> dict[str, Any]:
    """Print the table of one kind of work; returns its figures for the JSON line."""
    bare, line = [turn["bare"].rate for turn in turns], {}
    print(f"\n{case.name}: {case.calls} calls, turns: {len(turns)}, median (lowest-highest)")
    print(f"{'':<26}{'calls/s':>22}{'of the bare rate':>22}{'CPU s/1,000':>20}{'peak MiB':>10}{'refused':>9}")
    for name in [name for name in case.sides if name != "idle"]:
        sides, prefix = [turn[name] for turn in turns], f"{case.name}_{name}"
        cpu_s, rss_mib = [side.cpu_s for side in sides], max(side.ran.rss_mib for side in sides)
        refused = statistics.median(side.served["requests"] - side.served["answered"] for side in sides)
        tail = f"{spread(cpu_s, 2):>20}{rss_mib:>10.0f}{refused:>9.0f}"
        for kind, attribute, key in KINDS:
            rates = [getattr(side, attribute) for side in sides]
            shares = ratios(rates, bare)
            print(f"{name:<7}{kind:<19}{spread(rates, 1):>22}{spread(shares, 3):>22}{tail}")
            line[f"{prefix}_{key}"], tail = round(statistics.median(shares), 3), ""
        line[f"{prefix}_calls_per_s"] = round(statistics.median(side.rate for side in sides), 1)
        line[f"{prefix}_cpu_s_per_1000"] = round(statistics.median(cpu_s), 2)
        if "--overload" in case.server:
            rejected = sum(side.ran.printed.get("rejected", 0) for side in sides)
            line |= {f"{prefix}_refused": int(refused), f"{prefix}_rejected": rejected}
            print(f"{'':<7}refused {refused / case.calls:.1%} of the calls' number; calls given up: {rejected}")
    if "idle" in case.sides:
        beyond = statistics.median(turn["beam"].ran.rss_mib - turn["idle"].ran.rss_mib for turn in turns)
        idle_s = statistics.median(turn["idle"].ran.wall_s for turn in turns)
        print(f"{'':<7}a Beam run without calls takes {idle_s:.1f} s; peak memory on top of it: {beyond:.0f} MiB")
        line[f"{case.name}_rss_mib_beyond_beam"] = round(beyond)
    return line


def make_cases(folder: Path, arguments: argparse.Namespace) -> list[WorkCase]:
    """Write the calls of each kind of work to disk; returns the kinds of work."""
    calls = arguments.calls
    work = {"text": [Item(f"item-{number:06d}") for number in range(calls)]}
    if not arguments.overload:
        work["images"] = write_pictures(folder, max(1, calls // 2))
        work["heavy"] = work["text"][: max(1, calls * 3 // 8)]
    for name, items in work.items():
        write_items(folder / f"{name}.jsonl", items)
    if arguments.overload:
        server = ("--latency-s", str(LATENCY_S), "--overload", str(OVERLOAD))
        return [WorkCase("overload", folder / "text.jsonl", calls, server)]
    sides = {"text": ("beam", "bare", "openai", "idle"), "images": ("beam", "bare", "idle")}
    servers = {"heavy": ("--heavy", str(SEED))}
    return [
        WorkCase(name, folder / f"{name}.jsonl", len(items), servers.get(name, ()), sides.get(name, ("beam", "bare")))
        for name, items in work.items()
    ]


def main() -> None:
    """Measure, print the tables and the JSON line; with ``--side``, run one of the sides instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=4000, help="text calls; half as many with pictures")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--overload", action="store_true", help=f"the server refuses requests beyond {OVERLOAD} in flight"
    )
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    for name, kind in (("url", str), ("items", str), ("folder", Path), ("template", str), ("in-flight", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments) | own_figures()))
        return
    body = text_body(prompt_of(Item(TEMPLATE_ITEM)), n=1, temperature=1.0, max_tokens=2048)
    line: dict[str, Any] = {"name": "saturation", "ratio": None, "unit": "share of a bare aiohttp client's calls/s"}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for case in make_cases(Path(name), arguments):
            turns = [measure(case, Path(name), json.dumps(body), turn) for turn in range(arguments.turns)]
            line |= print_case(case, turns)
            line["ratio"] = line["ratio"] or line[f"{case.name}_beam_ratio"]
    print(json.dumps(line | {"calls": arguments.calls, "turns": arguments.turns, "slots": SLOTS}))


if __name__ == "__main__":
    main()
