"""Measures the cost of `beam serve-reward` compared with scoring in process: 64 clients, the same rows and responses.

    python benchmarks/bench_serve_reward.py [--clients 64] [--turns 3]

Rows: the sample data, with six responses to each in Qwen3-VL's coordinate frame, scored by argos with the embedded
engine. In process, all responses are scored in one call, as for a trainer that passes lists. The server runs in a
separate process; each client posts one response after another, and in a second pass eight per request. Each side has
its own reply cache, which a first pass fills. Exit code 1 if the scores differ by more than 1e-9.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.publishing.rewards.reference import RowReference
from groundtrace.publishing.rewards.row_reward import Answer, RowReward
from groundtrace.publishing.rewards.settings import load_reward_settings
from groundtrace.schemas.arrow import RL_SCHEMA
from groundtrace.vision.decode import decode_image

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample"
FAMILY = "qwen3-vl"
PER_REQUEST = (1, 8)
WORDS = "<think>I see {}.</think> <answer>{}</answer>"
RESPONSES = 6
Item = tuple[RowReference, str]


def write_run(run: Path) -> list[Item]:
    """Write the sample data as a run's RL rows; returns the responses, with references to their rows."""
    (run / "rl").mkdir(parents=True)
    records = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    rows, items = [], []
    for record in records:
        images = [{"bytes": (SAMPLE / name).read_bytes(), "path": name} for name in record["media"]]
        names = ("x1", "y1", "x2", "y2")
        boxes = [(box["label"], [float(value) for value in box["bbox"]]) for box in record["boxes"] or ()]
        gold = [{"label": label, **dict(zip(names, at, strict=True)), "media_index": 0} for label, at in boxes]
        kept = {
            name: record[name] for name in ("id", "source", "license", "question", "answer", "answer_type", "choices")
        }
        prompt = [{"role": "user", "content": "<image>" * len(images) + record["question"]}]
        rows.append(kept | {"gold_boxes": gold or None, "images": images, "prompt": prompt})
        decoded = decode_image(images[0]["bytes"])
        reference = RowReference(record["id"], record["answer"], "run", FAMILY)
        items += [(reference, text) for text in responses(record["answer"], boxes, (decoded.width, decoded.height))]
    pq.write_table(pa.Table.from_pylist(rows, RL_SCHEMA), run / "rl" / "train-00000-of-00001.parquet")
    return items


def responses(answer: str, boxes: Sequence[tuple[str, list[float]]], size: tuple[int, int]) -> list[str]:
    """Return responses with the right answer, as the model writes them.

    Their points are ever less exact, and the last response has no points.
    """
    family = FAMILIES.named(FAMILY)
    speech, found = Speech(family.frame, family.decimals), []
    for number in range(RESPONSES - 1):
        tags = []
        for label, (x1, y1, x2, y2) in boxes:
            x, y = min((x1 + x2) / 2 + 3 * number, size[0]), min((y1 + y2) / 2, size[1])
            tags.append(f'<points x1="{x:g}" y1="{y:g}" alt="{label}">{label}</points>')
        found.append(speech.to_model(WORDS.format(", ".join(tags) or f"it {number}", answer), [size]))
    return [*found, WORDS.format("nothing", answer)]


def in_process(config: Path, run: Path, items: Sequence[Item], turns: int) -> tuple[list[float | None], float]:
    """Return the rewards, and the responses per second, of scoring in this process."""
    reward, taken_s = RowReward(load_reward_settings(str(config)), {"run": run}), []
    answers = [Answer(reference, text) for reference, text in items]
    for turn in range(turns + 1):
        started = time.perf_counter()
        found = [scored.reward for scored in reward.score(answers)]
        taken_s += [time.perf_counter() - started] if turn else []
    reward.close()
    return found, len(items) / statistics.median(taken_s)


@contextlib.contextmanager
def server(config: Path, run: Path) -> Iterator[str]:
    """Run the server in a separate process; yields its address."""
    command = [sys.executable, "-m", "groundtrace", "serve-reward", "--config", str(config)]
    process = subprocess.Popen(
        [*command, "--data", f"run={run}", "--port", "0"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"on (http://\S+);", line)
        if found is None:
            raise RuntimeError(line + process.stderr.read())
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


async def asked(
    address: str, items: Sequence[Item], clients: int, per_request: int
) -> tuple[list[float | None], list[float], float]:
    """Return the rewards from the server, the seconds of each request, and the seconds of all requests."""
    starts = list(range(0, len(items), per_request))
    found: dict[int, list[float | None]] = {}
    taken_s: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(address, connector=connector) as session:

        async def client() -> None:
            """Send requests one after another until all items are sent."""
            while starts:
                start = starts.pop(0)
                part = [{"reference": r.text(), "response": text} for r, text in items[start : start + per_request]]
                began = time.perf_counter()
                async with session.post("/score", json={"items": part}) as answer:
                    answer.raise_for_status()
                    scores = (await answer.json())["scores"]
                taken_s.append(time.perf_counter() - began)
                found[start] = [each["reward"] for each in scores]

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        all_s = time.perf_counter() - started
    return [reward for start in sorted(found) for reward in found[start]], taken_s, all_s


def same(first: Sequence[float | None], second: Sequence[float | None]) -> bool:
    """Whether two lists of rewards are equal to 1e-9."""
    pairs = zip(first, second, strict=True)
    return all(a == b or (a is not None and b is not None and math.isclose(a, b, abs_tol=1e-9)) for a, b in pairs)


def config_in(folder: Path) -> Path:
    """Write a config whose reply cache is in this new folder; returns its path."""
    folder.mkdir()
    path = folder / "reward.toml"
    path.write_text(f'folder = "{folder}"\n[reward]\nrecipe = "argos"\n', "utf-8")
    return path


def main() -> int:
    """Print the table and the JSON line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        items = write_run(home / "run")
        rewards, alone = in_process(config_in(home / "alone"), home / "run", items, given.turns)
        figures: dict[str, Any] = {"in_process_per_s": round(alone, 1)}
        print(f"{len(items)} responses, {given.clients} clients\n\n{'':24}responses/s  requests/s   p50 ms   p95 ms")
        print(f"{'in process, one call':24}{alone:11.0f}")
        agree = True
        with server(config_in(home / "served"), home / "run") as address:
            asyncio.run(asked(address, items, given.clients, 1))
            for per_request in PER_REQUEST:
                runs = [asyncio.run(asked(address, items, given.clients, per_request)) for _ in range(given.turns)]
                agree &= all(same(rewards, found) for found, _, _ in runs)
                all_s = statistics.median(each for _, _, each in runs)
                taken_s = sorted(value for _, taken, _ in runs for value in taken)
                p50, p95 = (1000 * taken_s[int(share * (len(taken_s) - 1))] for share in (0.5, 0.95))
                requests = math.ceil(len(items) / per_request) / all_s
                name = f"server, {per_request} a request"
                print(f"{name:24}{len(items) / all_s:11.0f}{requests:12.0f}{p50:9.1f}{p95:9.1f}")
                key = f"by_{per_request}"
                figures |= {f"{key}_requests_per_s": round(requests, 1), f"{key}_p50_ms": round(p50, 1)}
                figures |= {f"{key}_p95_ms": round(p95, 1), f"{key}_per_s": round(len(items) / all_s, 1)}
    ratio = figures["by_1_per_s"] / alone
    print(f"\nscores {'agree to 1e-9' if agree else 'DIFFER'}; load {os.getloadavg()[0]:.1f}\n")
    unit = "responses/s of 64 clients with one each, of those in process"
    print(json.dumps({"name": "serve_reward", "ratio": round(ratio, 3), "unit": unit, "agree": agree, **figures}))
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
