"""A server that answers requests as a script says, and the client's file as a trainer loads it."""

import contextlib
import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

from groundtrace.publishing.rewards import groundtrace_client

FILE = Path(groundtrace_client.__file__)


def loaded(path: Path = FILE) -> ModuleType:
    """The client as verl loads it: by its path, and not as a module that could be imported."""
    spec = importlib.util.spec_from_file_location("custom_module_7", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "custom_module_7" not in sys.modules
    return module


def reference(id: str = "q") -> str:
    return json.dumps({"answer": "3", "family": "qwen3-vl", "id": id, "run": "/runs/mine"})


def score(id: str = "q", reward: Any = 0.75, outcome: Any = 1.0, **verdicts: Any) -> dict[str, Any]:
    given = {"outcome": outcome} | verdicts
    told = {name: {"value": value, "reason": f"{name}'s reason"} for name, value in given.items()}
    return {"id": id, "reward": reward, "outcome": outcome, "verdicts": told}


def right(body: dict[str, Any]) -> dict[str, Any]:
    """An answer of which the rewards show to which response they belong: its length in hundredths."""
    items = body["items"]
    found = [score(json.loads(item["reference"])["id"], len(item["response"]) / 100) for item in items]
    return {"recipe": "argos", "scores": found}


class Handler(BaseHTTPRequestHandler):
    """Answers as the next part of the server's script does, and as the last one when all were used."""

    server: "Scripted"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((self.path, body, dict(self.headers)))
            step = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        step(self, body)

    def answer(self, status: int, told: Any, **headers: str) -> None:
        """A whole answer; what is no bytes is sent as JSON."""
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


Step = Callable[[Handler, dict[str, Any]], None]


class Scripted(ThreadingHTTPServer):
    """The server; ``seen`` are the requests that came."""

    daemon_threads = True

    def __init__(self, script: Sequence[Step], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script, self.lock = list(script), threading.Lock()
        self.seen: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is part of the script."""


@contextmanager
def scripted(*script: Step, port: int = 0) -> Iterator[Scripted]:
    server = Scripted(script or (good,), port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# Steps of a script


def good(handler: Handler, body: dict[str, Any]) -> None:
    handler.answer(200, right(body))


def says(status: int, told: Any = None, **headers: str) -> Step:
    told = {"error": {"type": "some", "message": "it is so"}} if told is None else told
    return lambda handler, body: handler.answer(status, told, **headers)


def dies(handler: Handler, body: dict[str, Any]) -> None:
    """As a server that is killed before it answers."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def dies_within(handler: Handler, body: dict[str, Any]) -> None:
    """As a server that is killed in the middle of its answer."""
    data = json.dumps(right(body)).encode()
    handler.answer(200, data[: len(data) // 2], Content_Length=str(len(data)))
    dies(handler, body)


def dies_within_without_length(handler: Handler, body: dict[str, Any]) -> None:
    """The same behind a proxy that says no length: the answer looks whole."""
    data = json.dumps(right(body)).encode()
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + data[: len(data) // 2])
    dies(handler, body)


def hangs(handler: Handler, body: dict[str, Any]) -> None:
    time.sleep(3)


def drips(handler: Handler, body: dict[str, Any]) -> None:
    """Byte by byte, so that no single read of the client takes long."""
    handler.close_connection = True
    with contextlib.suppress(OSError):
        for byte in b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(right(body)).encode()[:40]:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.05)


def continues(handler: Handler, body: dict[str, Any]) -> None:
    """Says without end that the client should go on, before any answer."""
    handler.close_connection = True
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)


def sends(data: bytes) -> Step:
    """These bytes in place of an answer, and the end of the connection."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.close_connection = True
        handler.wfile.write(data)

    return step


def floods(status: int, is_chunked: bool = False) -> Step:
    """Blanks without end; ``handler.server.sent`` is their number in MiB."""
    head = b"HTTP/1.1 %d x\r\n" % status + (b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"\r\n")
    blanks = b" " * 2**20

    def step(handler: Handler, body: dict[str, Any]) -> None:
        handler.close_connection = True
        handler.wfile.write(head)
        while True:
            handler.wfile.write(b"100000\r\n" + blanks + b"\r\n" if is_chunked else blanks)
            handler.server.sent += 1

    return step


def echoes(status: int, write: Callable[[str], str]) -> Step:
    """Sends back the Authorization header, as a proxy may, in the encoding ``write``."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        token = handler.headers["Authorization"].removeprefix("Bearer ")
        handler.answer(status, f"No entry for {write(token)}!".encode())

    return step
