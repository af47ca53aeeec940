"""Measures what happens to records if the server misbehaves, and what this costs compared with an ideal client.

    python benchmarks/bench_faults.py [--calls 2000] [--turns 3] [--seed 1]

A local server answers each request with one of 15 faults at 2 % each (``model_server.FAULTS``), determined by the seed,
the call and the number of the attempt. Each call asks for four samples through ``CallModels`` in a real Beam run, with
a reply parser and one repair attempt. The ideal client is bare aiohttp with the same concurrency, timeouts and
retryable errors; it gets the same faults in the same order and retries immediately, or after Retry-After. Exit code 1
if a record is lost, a bad reply accepted, a rejection wrong, or a sample requested again after it was received.
"""

import argparse
import asyncio
import datetime
import json
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench_pipeline_overhead import spread
from model_access import (
    TEMPLATE_ITEM,
    Item,
    Ran,
    answer_of,
    body_of,
    entities_reply,
    models_settings,
    own_figures,
    question_of,
    read_items,
    run_beam,
    run_side,
    serving,
    text_body,
    write_items,
)

IN_FLIGHT, LATENCY_S, SAMPLES, MAX_TOKENS = 64, 0.2, 4, 1024
READ_TIMEOUT_S, MAX_RETRIES, REPAIRS = 2.0, 3, 1
MAX_TRIES = SAMPLES * (MAX_RETRIES + 1) * 2 * (1 + REPAIRS)
"""The most requests of one call: all attempts for each sample, again with the larger budget, twice for the repair."""

REJECTIONS = {
    "429 with Retry-After": ("call_failed", "rate_limited"),
    "429": ("call_failed", "rate_limited"),
    "500": ("call_failed", "server_error"),
    "503": ("call_failed", "overloaded"),
    "reset before the body": ("call_failed", "connection"),
    "reset in the body": ("call_failed", "connection"),
    "truncated JSON": ("call_failed", "garbled_response"),
    "empty content": ("call_failed", "empty_content"),
    "HTML": ("call_failed", "garbled_response"),
    "stall": ("call_failed", "timeout"),
    "wrong schema": ("unparsable_reply", "entities"),
    "refusal": ("call_failed", "refused"),
    "length": ("truncated", "the reply was cut off"),
    "one sample fewer": ("call_failed", "garbled_response"),
}
"""By the last fault of a call: the reason of its rejection, and the start of the rejection's detail."""


def prompt_of(item: str) -> Any:
    """Return the prompt of a call."""
    from groundtrace.prompts.loader import load_prompt

    return load_prompt("propose.v2").render(
        {"original": []},
        question=question_of(item),
        answer=answer_of(item),
        rollout="none",
        max_entities="10",
        mark="m",
    )


def texts_of(reply: Any) -> list[str]:
    """Return the texts of the samples, each a JSON object with a list of entities. Raises BadReply."""
    from groundtrace.inference.grounding import BadReply, json_object

    for completion in reply.completions:
        names = json_object(completion.text).get("entities")
        if not isinstance(names, list):
            raise BadReply(f"entities: expected a list of phrases, got {names!r:.80}")
    return [completion.text for completion in reply.completions]


async def ask(item: Item, session: Any) -> Any:
    """Do the work of the tested stage: four samples, parsed, with one repair attempt."""
    from groundtrace.inference.request import Sampling
    from groundtrace.inference.role_calls import ask_for

    texts, _ = await ask_for(session, "teacher", prompt_of(item.id), Sampling(SAMPLES, 1.0, 1.0, MAX_TOKENS), texts_of)
    return [item.id, texts]


def beam_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the tested stage in a Beam run; returns its figures."""
    from groundtrace.inference.flow.notes import paid_in
    from groundtrace.inference.role_calls import Asks
    from groundtrace.inference.runtime import runtime
    from groundtrace.stages.plumbing.calling import CallModels
    from groundtrace.stages.plumbing.stage import Stage

    settings = models_settings(
        arguments.url,
        arguments.folder,
        max_concurrency=IN_FLIGHT,
        read_timeout_s=READ_TIMEOUT_S,
        max_retries=MAX_RETRIES,
        repair_attempts=REPAIRS,
        max_tokens_limit=2 * MAX_TOKENS,
    )
    stage = Stage("ask", "asks", asks=(Asks("teacher", ("propose.v2",)),))
    settings = replace(settings, notes=f"{arguments.folder}/notes")
    run_beam(arguments.items, CallModels(stage, ask, settings), arguments.folder)
    runtime().close(settings)
    return {"sent": sum(paid.requests for paid in paid_in(Path(settings.notes)))}


def ideal_side(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the ideal client; returns its figures."""
    import aiohttp

    from groundtrace.inference.errors import CallError
    from groundtrace.inference.flow.limits import ConcurrencyLimit
    from groundtrace.inference.grounding import BadReply
    from groundtrace.inference.role_calls import repair_prompt

    concurrency = ConcurrencyLimit(IN_FLIGHT, adaptive=False)
    prompt = prompt_of(TEMPLATE_ITEM)
    templates = [json.dumps(text_body(p, temperature=1.0)) for p in (prompt, repair_prompt(prompt, "{}", "wrong"))]

    async def call(item: Item, session: aiohttp.ClientSession) -> bool:
        """Whether all samples of an item arrived and can be parsed, after at most one repair."""
        url = f"{arguments.url}/chat/completions"
        for template in templates:
            body = body_of(item, template, arguments.folder)
            try:
                replies = await samples(session, concurrency, url, body, SAMPLES, MAX_TOKENS)
                whole = [reply for reply in replies if reply.finish_reason != "length"]
                if len(whole) < SAMPLES:
                    whole += await samples(session, concurrency, url, body, SAMPLES - len(whole), 2 * MAX_TOKENS)
                return bool(texts_of(argparse.Namespace(completions=whole)))
            except CallError:
                return False
            except BadReply:
                continue
        return False

    async def run() -> int:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=READ_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            return sum(await asyncio.gather(*(call(item, session) for item in read_items(arguments.items))))

    return {"kept": asyncio.run(run())}


async def samples(session: Any, concurrency: Any, url: str, body: dict[str, Any], n: int, max_tokens: int) -> list[Any]:
    """Return ``n`` samples, requested until all have arrived. Raises CallError if the retries are exhausted."""
    from groundtrace.inference.errors import CallError

    found: list[Any] = []
    failed, wait_s = 0, 0.0
    while len(found) < n:
        await asyncio.sleep(wait_s)
        await concurrency.enter(-failed)
        try:
            found += await one_try(session, url, body | {"n": n - len(found), "max_tokens": max_tokens})
            failed, wait_s = 0, 0.0
        except CallError as error:
            failed += 1
            if not error.retryable or failed > MAX_RETRIES:
                raise
            wait_s = error.retry_after_s or 0.0
        finally:
            concurrency.leave(0)
    return found


async def one_try(session: Any, url: str, body: dict[str, Any]) -> list[Any]:
    """Return the usable samples of one request. Raises CallError."""
    import aiohttp

    from groundtrace.inference.endpoints.openai_reply import openai_reply
    from groundtrace.inference.endpoints.wire import failure_of, retry_after_s
    from groundtrace.inference.errors import CallError, Failure

    try:
        async with session.post(url, json=body) as response:
            data = await response.read()
            if response.status != 200:
                now = datetime.datetime.now(datetime.UTC)
                wait_s = retry_after_s(response.headers.get("retry-after", ""), now)
                raise CallError(failure_of(response.status), "", retry_after_s=wait_s)
        return list(openai_reply(json.loads(data), body["n"], "none").completions)
    except aiohttp.ServerTimeoutError as error:
        raise CallError(Failure.TIMEOUT, "") from error
    except (aiohttp.ClientError, OSError) as error:
        raise CallError(Failure.CONNECTION, "") from error
    except ValueError as error:
        raise CallError(Failure.GARBLED, "") from error


SIDES = {"beam": beam_side, "ideal": ideal_side}


def delivered(asked: dict[str, Any]) -> int:
    """Return the number of usable samples in the reply to a request; these must not be requested again."""
    outcome, n = asked["outcome"], asked["samples"]
    if outcome in ("", "wrong schema"):
        return n
    if outcome == "duplicate choices":
        return max(1, n - 1)
    return n - 1 if outcome == "one sample fewer" else 0


def problems(items: list[Item], folder: Path, log: list[dict[str, Any]], ran: Ran) -> list[str]:
    """Compare the calls' results with the server's log, print the figures, and return what is wrong."""
    results, rejections = (json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("kept", "rejected"))
    kept, rejected = dict(results), {row["id"]: row for row in rejections}
    by_item: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for asked in log:
        by_item[asked["item"]].append(asked)
    found = []
    if sorted([*(row[0] for row in results), *(row["id"] for row in rejections)]) != sorted(item.id for item in items):
        found.append(f"{len(items)} calls, {len(results)} results, {len(rejections)} rejections")
    if ran.printed["sent"] != len(log):
        found.append(f"the ledger has {ran.printed['sent']} requests, the server {len(log)}")
    for name, texts in kept.items():
        good = {entities_reply(name, index) for index in range(SAMPLES)}
        if len(texts) != SAMPLES or not set(texts) <= good:
            found.append(f"{name}: accepted {texts}")
    for name, row in rejected.items():
        reason, detail = REJECTIONS.get(last := by_item[name][-1]["outcome"], ("nothing", ""))
        if row["reason"] != reason or not row["detail"].startswith(detail):
            found.append(f"{name}: met {last!r} last, rejected as {row['reason']}: {row['detail']}")
    most_in_a_row = 0
    for name, requests in by_item.items():
        had: Counter[str] = Counter()
        in_a_row = 0
        for asked in requests:
            if asked["samples"] > SAMPLES - had[asked["prompt"]]:
                found.append(f"{name}: asked for {asked['samples']} samples, having {had[asked['prompt']]}")
            had[asked["prompt"]] += delivered(asked)
            in_a_row = 0 if delivered(asked) or asked["outcome"] == "length" else in_a_row + 1
            most_in_a_row = max(most_in_a_row, in_a_row)
        found += [f"{name}: asked again after a refusal" for a in requests[:-1] if a["outcome"] == "refusal"]
    most = max(map(len, by_item.values()))
    if most > MAX_TRIES or most_in_a_row > MAX_RETRIES + 1:
        found.append(f"{most} tries of a call, {most_in_a_row} in a row in vain")
    reasons = Counter(f"{row['reason']}: {row['detail'].partition(':')[0]:.20}" for row in rejected.values())
    print(f"  {len(items)} calls = {len(results)} results + {len(rejections)} rejections; requests {len(log)}, "
          f"faults {sum(bool(asked['outcome']) for asked in log)}, kinds {len({a['outcome'] for a in log} - {''})}; "
          f"tries of a call at most {most}, in vain in a row {most_in_a_row}")  # fmt: skip
    print("  rejected: " + ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()))
    return found


def measure(calls: int, seed: int, folder: Path) -> tuple[float, float, list[str]]:
    """Measure one turn with its own seed.

    Returns the seconds of the stage, the seconds of the ideal client, and the problems that were found.
    """
    items, path = [Item(f"item-{number:06d}") for number in range(calls)], folder / f"{seed}.jsonl"
    write_items(path, items)
    arguments = ("--slots", str(IN_FLIGHT), "--latency-s", str(LATENCY_S), "--faults", str(seed))
    print(f"seed {seed}")
    walls, found = {}, []
    for side in ("beam", "ideal"):
        own = folder / f"{side}-{seed}"
        own.mkdir()
        with serving(*arguments) as server:
            ran = run_side(__file__, side, "--url", server.base_url, "--items", path, "--folder", own)
            walls[side], log = server.ask("figures")["wall_s"], server.ask("log")
        if side == "beam":
            found = problems(items, own, log, ran)
            by_id = {item.id: item for item in items}
            write_items(path, [by_id[name] for name in dict.fromkeys(asked["item"] for asked in log)])
    print(f"  first request to last reply: stage {walls['beam']:.1f} s, ideal client {walls['ideal']:.1f} s "
          f"with {len(log)} requests; {walls['beam'] / walls['ideal']:.3f} of it")  # fmt: skip
    return walls["beam"], walls["ideal"], found


def main() -> None:
    """Measure, check, print the JSON line; with ``--side``, run one of the sides instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first turn; each further turn adds 1")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    for name, kind in (("url", str), ("items", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments) | own_figures()))
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        seeds = range(arguments.seed, arguments.seed + arguments.turns)
        turns = [measure(arguments.calls, seed, Path(name)) for seed in seeds]
    wrong = [problem for _, _, found in turns for problem in found]
    print("".join(f"WRONG {problem}\n" for problem in wrong[:20]), end="")
    shares = [beam_s / ideal_s for beam_s, ideal_s, _ in turns]
    print(f"wall time of the ideal client's, median (lowest-highest): {spread(shares, 3)}; wrong counts: {len(wrong)}")
    line = {"name": "faults", "ratio": round(statistics.median(shares), 3), "unit": "wall time of an ideal client's"}
    print(json.dumps(line | {"calls": arguments.calls, "turns": arguments.turns, "wrong": len(wrong)}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
