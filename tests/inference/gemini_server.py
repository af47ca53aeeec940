"""A scripted server on the loopback interface that speaks Gemini's REST form, and endpoints that use it."""

import asyncio
import base64
import io
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from groundtrace.grading.messages import Part
from groundtrace.inference.endpoints.gemini import GeminiEndpoint
from groundtrace.inference.request import Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.media import MediaStore

KEY = "AIzaSyFake0123456789"
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
ECHOED = b"{the key}"
"""Wherever a body has this, the server writes the API key that it was sent."""


@dataclass(frozen=True)
class Step:
    """What the server does with one request: ``cut`` ends the body early, ``silent`` waits for the client to go."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    reset: bool = False
    cut: int = 0
    silent: bool = False


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the one content sent."""
        (content,) = self.body["contents"]
        return content["parts"]


@dataclass
class GeminiServer:
    """Answers from a script; when it has ended, the candidates say ``reply 1``, ``reply 2`` and so on."""

    base_url: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    gone: threading.Event = field(default_factory=threading.Event)
    _script: deque[Step] = field(default_factory=deque)
    _unscripted: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, *candidates: Any, usage: dict[str, Any] | None = None, **step: Any) -> None:
        """A well-formed response; a candidate is its text, the list of its parts, or all of its fields."""
        self.raw(response(candidates, usage), **step)

    def fail(self, status: int, message: str = "no", details: tuple[dict[str, Any], ...] = (), **headers: str) -> None:
        """An error response in Google's form; ``retry_after="1"`` becomes the header Retry-After."""
        lines = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        error = {"code": status, "message": message, "status": "SCRIPTED", "details": list(details)}
        self.raw({"error": error}, status=status, headers=lines)

    def raw(self, body: object, **step: Any) -> None:
        """Any body: bytes as they are, all else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._script.append(Step(body=data, **step))

    def reset(self) -> None:
        """Close the connection without a response."""
        self._script.append(Step(reset=True))

    def keep_silent(self) -> None:
        """Answer nothing until the client hangs up."""
        self._script.append(Step(silent=True))

    def take(self, seen: Seen) -> Step:
        """Note a request and give the step that answers it."""
        with self._lock:
            self.seen.append(seen)
            if self._script:
                return self._script.popleft()
            first = self._unscripted + 1
            self._unscripted += seen.body.get("generationConfig", {}).get("candidateCount", 1)
            texts = [f"reply {number}" for number in range(first, self._unscripted + 1)]
        return Step(body=json.dumps(response(texts, None)).encode())

    def opened(self, change: int) -> None:
        """A connection came or went; ``gone`` is set while there is none."""
        with self._lock:
            self.connections += change
            (self.gone.clear if self.connections else self.gone.set)()


def response(candidates: Any, usage: dict[str, Any] | None) -> dict[str, Any]:
    """A GenerateContentResponse with these candidates."""
    rows = []
    for index, candidate in enumerate(candidates):
        parts = [{"text": candidate}] if isinstance(candidate, str) else candidate
        fields = dict(parts) if isinstance(parts, dict) else {"content": {"role": "model", "parts": parts}}
        rows.append({"index": index, "finishReason": "STOP", **fields})
    return {"candidates": rows, "usageMetadata": usage or USAGE, "modelVersion": "tiny"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def setup(self) -> None:
        self.server.script.opened(+1)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.script.opened(-1)

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.server.script.take(Seen(self.command, self.path, headers, body))
        if step.silent:
            self.rfile.read(1)
        if step.silent or step.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        data = step.body.replace(ECHOED, headers.get("x-goog-api-key", "").encode())
        self.send_response(step.status)
        for name, value in (("content-type", "application/json"), *step.headers):
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) - step.cut])
        self.close_connection = self.close_connection or bool(step.cut)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that was reset is no news."""


@contextmanager
def running() -> Iterator[GeminiServer]:
    """A running server with an empty script."""
    script = GeminiServer()
    http = _Server(("127.0.0.1", 0), _Handler)
    http.script = script  # type: ignore[attr-defined]
    script.base_url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


WEBM = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm" + bytes(40)
VIDEOS = {
    "mp4": (b"\0\0\0\x20ftypisom" + bytes(40), "video/mp4"),
    "mov": (b"\0\0\0\x14ftypqt  " + bytes(40), "video/quicktime"),
    "webm": (WEBM, "video/webm"),
    "avi": (b"RIFF\x28\0\0\0AVI LIST" + bytes(40), "video/avi"),
}
"""Beginnings of films by container, and the type that each is sent with."""

STOP = {"finishReason": "STOP"}
GARBLED: dict[str, object] = {
    "cut JSON": b'{"candidates": [{"cont',
    "no JSON": b"<html>gateway {the key}</html>",
    "no text": b"\xff\xfe{the key}",
    "nothing": b"",
    "null": None,
    "a list": [],
    "a string": "{the key}",
    "deep": b"[" * 100_000,
    "no candidates": {},
    "candidates no list": {"candidates": "{the key}"},
    "candidate null": {"candidates": [None]},
    "no finish reason": {"candidates": [{"content": {"parts": [{"text": "{the key}"}]}}]},
    "an odd finish reason": {"candidates": [{"finishReason": "NEW", "content": {"parts": [{"text": "a"}]}}]},
    "finish reason no text": {"candidates": [{"finishReason": {}, "content": {"parts": [{"text": "a"}]}}]},
    "parts no list": {"candidates": [{**STOP, "content": {"parts": "{the key}"}}]},
    "text no text": {"candidates": [{**STOP, "content": {"parts": [{"text": {"a": "{the key}"}}]}}]},
}
"""Bodies of status 200 that are no usable response."""


def texts(reply: Reply) -> list[str]:
    return [completion.text for completion in reply.completions]


def prompt_of(*parts: Part, schema: dict[str, Any] | None = None) -> RenderedPrompt:
    return RenderedPrompt("t.v1", "0" * 64, "", parts, schema and json.dumps(schema), ())


def picture(path: Path, form: str, orientation: int | None = None) -> bytes:
    image, exif, out = Image.new("RGB", (6, 4), (0, 0, 255)), Image.Exif(), io.BytesIO()
    if orientation is not None:
        exif[0x0112] = orientation
    image.save(out, form, exif=exif)
    path.write_bytes(out.getvalue())
    return out.getvalue()


def sent(part: dict[str, Any]) -> str | tuple[str, bytes]:
    """A part as it was sent: its text, or the MIME type and the bytes. The API takes either spelling of a name."""
    if "text" in part:
        return part["text"]
    blob = {name.replace("_t", "T"): value for name, value in part["inlineData"].items()}
    return blob["mimeType"], base64.b64decode(blob["data"], altchars=b"-_", validate=True)


def outcomes_of(settings: EndpointSettings, root: Path, prompts: list[RenderedPrompt]) -> list[Any]:
    """The reply or the error of a call for each prompt, one after the other over one endpoint."""

    async def each(endpoint: GeminiEndpoint) -> list[Any]:
        asked = [endpoint.generate(Request(prompt, Sampling(), (0,))) for prompt in prompts]
        return [(await asyncio.gather(one, return_exceptions=True))[0] for one in asked]

    return using(settings, root, each)


def using(settings: EndpointSettings, root: Path, work: Callable[[GeminiEndpoint], Any]) -> Any:
    """Open an endpoint whose media lie under ``root``, await ``work`` of it, close it."""

    async def main() -> Any:
        endpoint = GeminiEndpoint(settings, MediaStore(str(root), str(root)), 1)
        try:
            return await work(endpoint)
        finally:
            await endpoint.close()

    return asyncio.run(main())
