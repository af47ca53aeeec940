"""A local server with OpenAI's chat API for the benchmarks of model access, run as a process of its own.

    python benchmarks/model_server.py [--slots 64] [--latency-s 0.2 | --heavy SEED [--heavy-s 2 30]] [--overload N]
                                      [--faults SEED] [--script] [--outage REQUESTS SECONDS]

Prints its port as one JSON line and serves until its standard input ends, so that it never outlives its parent. The
``item-<number>`` in a prompt's text identifies the item. ``GET /log`` returns the received requests, ``GET /figures``
their summary; ``GET /reached/N`` answers after N requests have arrived; ``POST /reset`` deletes the log. Requests of a
kind can be held (:mod:`held_requests`).
"""

import argparse
import asyncio
import hashlib
import json
import random
import re
import resource
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from held_requests import Holding, routes
from model_access import entities_reply, kind_of, scripted_reply

FAULT_SHARE = 0.02
FAULTS = (
    "429 with Retry-After",
    "429",
    "500",
    "503",
    "reset before the body",
    "reset in the body",
    "truncated JSON",
    "empty content",
    "HTML",
    "stall",
    "wrong schema",
    "refusal",
    "length",
    "duplicate choices",
    "one sample fewer",
)
STATUS = FAULTS[:4]
RETRY_AFTER_S = 1
STALL_S = 10.0
HEAVY_S = (0.05, 5.0)
MAX_BODY_BYTES = 2**26
_ITEM = re.compile(rb"item[- ]\d+")  # prompts write a label's hyphens as spaces


def fault_of(seed: int, item: str, number: int) -> str:
    """Return the fault of the ``number``-th request (from 0) about an item; "" for none."""
    drawn = random.Random(hashlib.sha256(f"{seed}/{item}/{number}".encode()).digest()).random()
    return FAULTS[int(drawn / FAULT_SHARE)] if drawn < FAULT_SHARE * len(FAULTS) else ""


def heavy_latency_s(seed: int, item: str, limits_s: Sequence[float] = HEAVY_S) -> float:
    """Return a heavy-tailed (log-uniform) latency between two limits, always the same for an item."""
    drawn = random.Random(hashlib.sha256(f"{seed}/{item}".encode()).digest()).random()
    low, high = limits_s
    return low * (high / low) ** drawn


@dataclass
class ReceivedRequest:
    """One received request. Times are seconds of this process's clock; ``prompt`` is a digest of the messages.

    ``kind`` is that of :func:`model_access.kind_of`, ``peer`` the client's port, ``held`` whether the request is held,
    and ``outcome`` its fault.
    """

    item: str
    prompt: str
    samples: int
    begin_s: float
    kind: str = ""
    peer: int = 0
    held: bool = False
    end_s: float = 0.0
    outcome: str = ""


@dataclass
class Chat:
    """The server's behaviour and its log."""

    settings: argparse.Namespace
    log: list[ReceivedRequest] = field(default_factory=list)
    inside: int = 0
    most_inside: int = 0
    cpu_s: float = 0.0

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.settings.slots)
        self.tries: Counter[str] = Counter()
        self.came = asyncio.Condition()
        self.holding = Holding()
        # Only these modes parse the body: parsing images would make the server the bottleneck.
        self.reads_body = self.settings.script or self.settings.faults is not None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one chat request."""
        data = await request.read()
        found = _ITEM.search(data)
        body = json.loads(data) if self.reads_body else {}
        messages = json.dumps(body.get("messages")).encode()
        asked = ReceivedRequest(
            item=found[0].decode().replace(" ", "-") if found else "",
            prompt=hashlib.sha256(messages).hexdigest()[:16] if self.reads_body else "",
            samples=body.get("n", 1),
            begin_s=time.monotonic(),
            kind=kind_of(body) if self.settings.script else "",
            peer=request.transport.get_extra_info("peername")[1] if request.transport else 0,
        )
        number = self.tries[asked.item]
        self.tries[asked.item] += 1
        self.log.append(asked)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        async with self.came:
            self.came.notify_all()
        try:
            if self.settings.script:
                await self.holding.passing(asked)
            return await self._answer(request, asked, body, number)
        finally:
            self.inside -= 1
            asked.end_s = time.monotonic()

    async def _answer(self, request: web.Request, asked: ReceivedRequest, body: dict[str, Any], number: int) -> Any:
        if self.settings.overload and self.inside > self.settings.overload:
            asked.outcome = "503"
            return _error("503")
        asked.outcome = "" if self.settings.faults is None else fault_of(self.settings.faults, asked.item, number)
        if asked.outcome in STATUS:
            return _error(asked.outcome)
        if asked.outcome == "stall":
            await asyncio.sleep(STALL_S)
            return web.json_response({})
        async with self.slots:
            heavy = self.settings.heavy
            latency_s = (
                self.settings.latency_s if heavy is None else heavy_latency_s(heavy, asked.item, self.settings.heavy_s)
            )
            await asyncio.sleep(latency_s)
        return await _faulty(request, asked, _choices(asked, body, self.settings.script))

    def figures(self) -> dict[str, Any]:
        """Return the figures since the last reset; ``wall_s`` is from the first request to the last reply without a
        stall.
        """
        ended = [asked.end_s for asked in self.log if asked.end_s and asked.outcome != "stall"]
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = usage.ru_utime + usage.ru_stime
        return {
            "requests": len(self.log),
            "answered": sum(asked.outcome == "" and asked.end_s > 0 for asked in self.log),
            "wall_s": max(ended) - self.log[0].begin_s if ended else 0.0,
            "most_inside": self.most_inside,
            "inside": self.inside,
            "cpu_s": cpu_s - self.cpu_s,
        }

    def reset(self) -> None:
        """Delete the log and the counts."""
        self.log, self.most_inside, self.tries = [], self.inside, Counter()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.cpu_s = usage.ru_utime + usage.ru_stime

    async def reached(self, requests: int) -> None:
        """Wait until ``requests`` requests have arrived."""
        async with self.came:
            await self.came.wait_for(lambda: len(self.log) >= requests)


def _choices(asked: ReceivedRequest, body: dict[str, Any], script: bool) -> list[dict[str, Any]]:
    """Return the reply's choices, with the faults that change single samples."""
    if not body:
        return [_choice(0, f"<think>Two rows of squares in {asked.item}.</think> <answer>4</answer>")]
    choices = []
    for index in range(asked.samples):
        text = scripted_reply(body, asked.item, index) if script else entities_reply(asked.item, index)
        choices.append(_choice(index, text))
    for choice in choices:
        message = choice["message"]
        if asked.outcome == "empty content":
            message["content"] = ""
        elif asked.outcome == "wrong schema":
            message["content"] = '{"things": 3}'
        elif asked.outcome == "refusal":
            message |= {"content": None, "refusal": "I can't help with that."}
        elif asked.outcome == "length":
            message["content"], choice["finish_reason"] = message["content"][:-4], "length"
    if asked.outcome == "duplicate choices":
        choices[-1]["index"] = 0
    return choices[:-1] if asked.outcome == "one sample fewer" else choices


def _choice(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def _error(outcome: str) -> web.Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if "Retry-After" in outcome else {}
    return web.json_response({"error": {"message": outcome}}, status=int(outcome[:3]), headers=headers)


async def _faulty(request: web.Request, asked: ReceivedRequest, choices: list[dict[str, Any]]) -> web.StreamResponse:
    """Return the response, with the faults that change the whole response."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20 * len(choices), "total_tokens": 100 + 20 * len(choices)}
    reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    data = json.dumps(reply).encode()
    if asked.outcome == "HTML":
        return web.Response(text="<html><body>Welcome to the proxy</body></html>", content_type="text/html")
    if asked.outcome == "truncated JSON":
        data = data[: len(data) // 2]
    if asked.outcome == "reset before the body":
        _reset(request)
    if asked.outcome == "reset in the body":
        response = web.StreamResponse(headers={"content-type": "application/json", "content-length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        _reset(request)
        return response
    return web.Response(body=data, content_type="application/json")


def _reset(request: web.Request) -> None:
    """Abort the connection so that the client gets a reset instead of an orderly end."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()


def application(chat: Chat) -> web.Application:
    """Return the web application: the chat API, and the routes for the log and for control."""

    async def reset(_: web.Request) -> web.Response:
        chat.reset()
        return web.json_response({})

    async def reached(request: web.Request) -> web.Response:
        await chat.reached(int(request.match_info["requests"]))
        return web.json_response({})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def figures(_: web.Request) -> web.Response:
        return web.json_response(chat.figures())

    async def log(_: web.Request) -> web.Response:
        return web.json_response([vars(asked) for asked in chat.log])

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat.answer),
            web.get("/v1/models", models),
            web.get("/figures", figures),
            web.get("/log", log),
            web.get(r"/reached/{requests:\d+}", reached),
            web.post("/reset", reset),
            *routes(chat.holding),
        ]
    )
    return app


async def serve(settings: argparse.Namespace) -> None:
    """Serve on a free port until standard input ends."""
    chat = Chat(settings)
    runner = web.AppRunner(application(chat), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    away = asyncio.ensure_future(go_away(chat, runner, site)) if settings.outage else None
    await asyncio.to_thread(sys.stdin.read)
    if away is not None:
        away.cancel()
    await runner.cleanup()


async def go_away(chat: Chat, runner: web.AppRunner, site: web.TCPSite) -> None:
    """After the configured number of requests, drop all connections and refuse new ones for the configured seconds."""
    requests, seconds = chat.settings.outage
    await chat.reached(int(requests))
    port = runner.addresses[0][1]
    await site.stop()
    assert runner.server is not None
    for connection in list(runner.server.connections):
        if connection.transport is not None:
            connection.transport.abort()
    await asyncio.sleep(seconds)
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024, reuse_address=True).start()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--slots", type=int, default=64, help="requests served at once; the others queue")
    parser.add_argument("--latency-s", type=float, default=0.2, help="seconds a request holds its slot")
    parser.add_argument("--heavy", type=int, metavar="SEED", help="seed of log-uniform latencies")
    limits = {"nargs": 2, "type": float, "metavar": ("LOW", "HIGH"), "default": HEAVY_S}
    parser.add_argument("--heavy-s", **limits, help="least and largest of these latencies in seconds")
    parser.add_argument("--overload", type=int, default=0, help="answer 503 if more requests are in flight (0: never)")
    parser.add_argument("--faults", type=int, metavar="SEED", help="seed of the faults, each in 2 %% of the requests")
    outage = {"nargs": 2, "type": float, "metavar": ("REQUESTS", "SECONDS")}
    parser.add_argument("--outage", **outage, help="one outage: its start in requests, its length in seconds")
    parser.add_argument("--script", action="store_true", help="play every role of the main pipeline")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
