"""Holds the shared code of the model access benchmarks: the calls, the handle of the server, and the processes of
sides.

The module imports nothing heavy, so that a bare client's figures include only the client.
"""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
MODEL, ENDPOINT = "m", "server"
TEMPLATE_ITEM = "item-0"
SEED = 20
SIDE_LIMIT_S = 900.0
PICTURE = (400, 100)
"""Width and height in pixels of the images that :func:`scripted_reply` assumes."""


class Item(NamedTuple):
    """One call to make: ``uri`` and ``sha256`` of its image, if it has one."""

    id: str
    uri: str = ""
    sha256: str = ""


def question_of(item: str) -> str:
    """Return the question about an item; the server identifies the item by the item id in it."""
    return f"How many squares are there in picture {item}?"


def answer_of(item: str) -> str:
    """Return the right answer to an item's question."""
    return str(1 + int(item.removeprefix("item-")) % 9)


def entities_reply(item: str, index: int) -> str:
    """Return a valid reply to a prompt that asks for entities."""
    return json.dumps({"entities": [f"square of {item}", f"sample {index}"]})


def whole_mask(box: str) -> dict[str, Any]:
    """Return the mask that fills a box; the box has the prompt's form ``x1, y1, x2, y2``."""
    x, y, right, bottom = (round(float(edge)) for edge in box.split(","))
    width, height = right - x, bottom - y
    return {"x": x, "y": y, "width": width, "height": height, "counts": [0, width * height]}


def scripted_reply(body: dict[str, Any], item: str, index: int) -> str:
    """Return a model's reply in any role of the main pipeline, chosen by the request's schema or else the prompt's
    form.

    Every second attempt is right; pointer, teacher and detector agree on most items.
    """
    text = _text_of(body)
    kind = kind_of(body)
    number = int(item.removeprefix("item-") or 0)
    width, height = PICTURE
    spot = (10 + number % (width - 20), 10 + number % (height - 20))
    side = 12
    corner = (spot[0] - side // 2, spot[1] - side // 2)
    tag = f'<points x1="{spot[0]}" y1="{spot[1]}" alt="square of {item}">square of {item}</points>'
    replies: dict[str, Callable[[], Any]] = {
        "propose": lambda: {"entities": [f"square of {item}"]},
        "judge_answer": lambda: {"reason": "compared", "same": number % 2 == 0},
        "judge_reasoning": lambda: {"reason": "read", "supports": "yes" if number % 7 else "no"},
        "judge_leak": lambda: {"reason": "read", "leaks": "no" if number % 13 else "yes"},
        "detect": lambda: {"boxes": [[*corner, corner[0] + side, corner[1] + side]] if number % 11 else []},
        "segment": lambda: {"masks": [whole_mask(box) for box in re.findall(r"\[(\d[\d., ]*)\]", text)]},
        "rubric_candidates": lambda: {
            "rubrics": [{"id": f"r{n}", "description": f"quality {n}", "criteria": "1 if so"} for n in range(3)]
        },
        "rubric_judge": lambda: {
            "scores": [
                {"id": r, "rationale": "read", "applicable": True, "score": number % 2}
                for r in re.findall(r'"id": "(\w+)"', text)
            ]
        },
    }
    if kind in replies:
        return json.dumps(replies[kind]())
    if kind == "point":
        return tag
    right = kind == "trace" or (number + index) % 2
    thought = f"I see {tag}." if kind == "trace" else f"Sample {index} looks at {item}."
    return f"<think>{thought}</think> <answer>{answer_of(item) if right else 12}</answer>"


def kind_of(body: dict[str, Any]) -> str:
    """Return the kind of a request of the main pipeline: its schema's name, or ``point``, ``trace`` or ``attempt``."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("name", "").rpartition("_v")[0]
    if schema:
        return schema
    if _text_of(body).startswith("Point to every"):
        return "point"
    images = sum(part["type"] != "text" for part in body["messages"][-1]["content"])
    return "trace" if images == 2 else "attempt"


def _text_of(body: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")


@dataclass(frozen=True)
class Server:
    """A running model_server.py."""

    url: str

    @property
    def base_url(self) -> str:
        """The base URL of its chat API."""
        return f"{self.url}/v1"

    def ask(self, path: str, data: bytes | None = None) -> Any:
        """Return the server's JSON answer to a GET, or to a POST if ``data`` is given."""
        with urllib.request.urlopen(f"{self.url}/{path}", data=data, timeout=SIDE_LIMIT_S) as response:
            return json.load(response)


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """Run the server with these arguments; it ends with the block or with this process."""
    command = [sys.executable, str(HERE / "model_server.py"), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        if not first:
            raise RuntimeError("the server did not start")
        yield Server(f"http://127.0.0.1:{json.loads(first)['port']}")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)


@dataclass(frozen=True)
class Ran:
    """The result of a side's process: its last line of output as JSON, its duration, CPU seconds and peak memory."""

    printed: dict[str, Any]
    wall_s: float
    cpu_s: float
    rss_mib: float


def run_side(script: str, side: str, *arguments: object) -> Ran:
    """Run ``script --side SIDE …`` as a separate process. Raises RuntimeError if it fails."""
    command = [sys.executable, script, "--side", side, *map(str, arguments)]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = process.communicate(timeout=SIDE_LIMIT_S)
    wall_s = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"{side}: {err[-3000:]}")
    printed = json.loads(out.splitlines()[-1])
    return Ran(printed, wall_s, printed.pop("cpu_s"), printed.pop("rss_mib"))


def own_figures() -> dict[str, float]:
    """Return the CPU seconds and the peak memory of this process.

    ``getrusage`` is not used, because its peak may be that of the parent process.
    """
    status = Path("/proc/self/status").read_text("ascii")
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    times = os.times()
    return {"cpu_s": times.user + times.system, "rss_mib": peak_kib / 1024}


def write_items(path: Path, items: Sequence[Item]) -> None:
    """Write the calls to make, one per line."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")


def read_items(path: str) -> Iterator[Item]:
    """Yield the calls to make, in order."""
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            yield Item(*json.loads(line))


def models_settings(base_url: str, folder: Path, **endpoint: Any) -> Any:
    """Return the settings of a run whose teacher is the server; its reply cache is in ``folder``."""
    from groundtrace.inference.settings import EndpointSettings, ModelsSettings

    settings = EndpointSettings("openai", MODEL, base_url=base_url, **endpoint)
    folder.mkdir(parents=True, exist_ok=True)
    return ModelsSettings(
        endpoints=((ENDPOINT, settings),),
        roles=(("teacher", ENDPOINT),),
        cache_path=str(folder / "cache" / "replies.sqlite"),
        input_root=str(folder.parent),
        run_root=str(folder),
    )


def write_pictures(folder: Path, count: int) -> list[Item]:
    """Write images of about 60 KB, alternately JPEG and PNG, all distinct; returns a call for each."""
    import cv2
    import numpy as np

    from groundtrace.vision.hashing import sha256_bytes

    (folder / "images").mkdir()
    rng = np.random.default_rng(SEED)
    sources = {
        "jpg": rng.integers(0, 256, (230, 320, 3), np.uint8),
        "png": rng.integers(0, 256, (125, 160, 3), np.uint8),
    }
    items = []
    for number in range(count):
        suffix = ("jpg", "png")[number % 2]
        pixels = sources[suffix].copy()
        pixels[:16, :16] = rng.integers(0, 256, 3)
        data = cv2.imencode(f".{suffix}", pixels)[1].tobytes()
        path = f"images/{number:06d}.{suffix}"
        (folder / path).write_bytes(data)
        items.append(Item(f"item-{number:06d}", f"input:{path}", sha256_bytes(data)))
    return items


def imports_done() -> dict[str, float]:
    """Return the wall-clock and CPU seconds of this process so far; called after the imports."""
    started_s = float(Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()[19]) / 100
    return {"import_s": time.clock_gettime(time.CLOCK_BOOTTIME) - started_s, "import_cpu_s": own_figures()["cpu_s"]}


async def in_flight(
    items: Iterable[Item], most: int, template: str, root: Path, call: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Make a bare client's calls, ``most`` at once. ``template`` is the body of :func:`text_body` as JSON."""
    bodies = (body_of(item, template, root) for item in items)

    async def worker() -> None:
        for body in bodies:
            await call(body)

    await asyncio.gather(*(worker() for _ in range(most)))


def text_body(prompt: Any, **fields: Any) -> dict[str, Any]:
    """Return the body that the endpoint sends for a rendered prompt without media."""
    content = [{"type": "text", "text": part.text} for part in prompt.user]
    messages = [{"role": "system", "content": prompt.system}] * bool(prompt.system)
    return {"model": MODEL, "messages": [*messages, {"role": "user", "content": content}], "top_p": 1.0} | fields


def body_of(item: Item, template: str, root: Path) -> dict[str, Any]:
    """Return the body for one item: the template with the item's id, and with its image as the first part."""
    body = json.loads(template.replace(TEMPLATE_ITEM, item.id))
    if item.uri:
        path = root / item.uri.removeprefix("input:")
        kind = "png" if path.suffix == ".png" else "jpeg"
        url = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
        body["messages"][-1]["content"].insert(0, {"type": "image_url", "image_url": {"url": url}})
    return body


def run_beam(items_path: str, do: Any, folder: Path) -> Any:
    """Run a stage's DoFn over the calls of a file, with Beam in this process; returns the run's metrics.

    The elements of its two outputs are written to ``folder`` as JSON lists: ``kept.json`` and ``rejected.json``.
    """
    import apache_beam as beam

    from groundtrace.pipelines.running.execute.runner import choose_runner
    from groundtrace.pipelines.running.plan.options import pipeline_options

    options = pipeline_options([])
    pipeline = beam.Pipeline(runner=choose_runner(options), options=options)
    items = pipeline | beam.Create([items_path]) | "Read" >> beam.FlatMap(read_items) | beam.Reshuffle()
    done: Any = items | "Call" >> beam.ParDo(do).with_outputs("rejected", main="kept")
    for name in ("kept", "rejected"):
        shown = done[name] | f"Show {name}" >> beam.Map(_shown) | f"All {name}" >> beam.combiners.ToList()
        _ = shown | f"Write {name}" >> beam.Map(_write_json, str(folder / f"{name}.json"))
    result = pipeline.run()
    result.wait_until_finish()
    return result.metrics()


def _shown(element: Any) -> Any:
    return element if isinstance(element, list) else vars(element)


def _write_json(rows: list[Any], path: str) -> None:
    Path(path).write_text(json.dumps(rows, default=vars), "utf-8")  # the records in a row are dataclasses
