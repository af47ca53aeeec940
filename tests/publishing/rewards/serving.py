"""A reward server on the loopback interface, and what is asked of it."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import aiohttp

from .worlds import Written

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Served:
    """A server on the loopback interface."""

    port: int

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers of the answer; a body that is no bytes is sent as JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, JSON | headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found, {name.lower(): value for name, value in answer.getheaders()}

    def get(self, path: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers of the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found, {name.lower(): value for name, value in answer.getheaders()}

    def health(self) -> dict[str, Any]:
        """What ``/health`` says."""
        return self.get("/health")[1]

    def wait_until(self, **counts: int | str) -> None:
        """Wait until ``/health`` says so."""
        until = time.monotonic() + 10
        while not counts.items() <= self.health().items():
            assert time.monotonic() < until, self.health()
            time.sleep(0.01)

    def together(self, path: str, bodies: Sequence[Any]) -> list[tuple[int, Any]]:
        """The answers to requests that are all sent at once."""

        async def all_of() -> list[tuple[int, Any]]:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", connector=connector) as session:

                async def one(body: Any) -> tuple[int, Any]:
                    async with session.post(path, json=body) as answer:
                        return answer.status, await answer.json()

                return await asyncio.gather(*map(one, bodies))

        return asyncio.run(all_of())


def raw_post(body: bytes) -> bytes:
    """A request for ``/score`` as it goes over the wire."""
    lines = (
        "POST /score HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


def items_of(found: Written) -> list[dict[str, str]]:
    return [{"reference": reference, "response": text} for reference, text in found.items]
