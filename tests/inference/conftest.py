"""A scripted OpenAI-compatible server on the loopback interface, the embedded engine, and what reaches either."""

import asyncio
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundtrace.inference.caller import CallResult
from groundtrace.inference.endpoints.openai_compatible import OpenAIEndpoint
from groundtrace.inference.errors import CallError
from groundtrace.inference.models import Models
from groundtrace.inference.request import Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.records import MediaRef
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

MODEL = "tiny"
CLASSICAL_ROLES = dict.fromkeys(("policy", "teacher", "pointer", "judge"), "colour")
CLASSICAL_ROLES |= {"detector": "edges", "segmenter": "edges"}


@dataclass(frozen=True)
class Step:
    """What the server does with one request, when as many as ``meet`` has parties are there.

    The body ends ``cut`` bytes early, with ``reset`` by a reset of the connection; ``byte_s`` passes after each byte.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    reset: bool = False
    cut: int = 0
    byte_s: float = 0.0
    meet: threading.Barrier | None = None


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class ScriptedServer:
    """Answers from a script; when the script has ended, the choices say ``reply 1``, ``reply 2`` and so on.

    Each request takes ``takes_s``. With ``lists_models`` the question for the models is no part of the script.
    """

    base_url: str = ""
    takes_s: float = 0.0
    lists_models: bool = False
    seen: list[Seen] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    _script: deque[Step] = field(default_factory=deque)
    _unscripted: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, *choices: str | dict[str, Any], usage: dict[str, Any] | None = None, **step: Any) -> None:
        """A well-formed response; a choice is its text or fields of the choice, ``message`` among them."""
        self.raw(completion(choices, usage), **step)

    def fail(self, status: int, message: str = "no", **headers: str) -> None:
        """An error response in OpenAI's form; ``retry_after="1"`` becomes the header Retry-After."""
        lines = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self.raw({"error": {"message": message, "type": "scripted"}}, status=status, headers=lines)

    def raw(self, body: object, **step: Any) -> None:
        """Any body: bytes as they are, all else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._script.append(Step(body=data, **step))

    def reset(self) -> None:
        """Close the connection without a response."""
        self._script.append(Step(reset=True))

    def take(self, seen: Seen) -> Step:
        """Note a request and give the step that answers it."""
        with self._lock:
            if self.lists_models and seen.path.endswith("/models"):
                self.at_once += 1
                return Step(body=json.dumps({"data": [{"id": MODEL}]}).encode())
            self.seen.append(seen)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self._script:
                return self._script.popleft()
            before, self._unscripted = self._unscripted, self._unscripted + seen.body.get("n", 1)
            choices = [f"reply {number + 1}" for number in range(before, self._unscripted)]
        return Step(body=json.dumps(completion(choices, None)).encode())

    def let_go(self) -> None:
        """Answer all requests at once, those that are waiting too."""
        self.takes_s = 0.0
        self.closing.set()

    def done(self) -> None:
        """A request is about to be answered."""
        with self._lock:
            self.at_once -= 1


def completion(choices: Any, usage: dict[str, Any] | None) -> dict[str, Any]:
    """A chat completion with these choices."""
    rows = []
    for index, choice in enumerate(choices):
        fields = {"message": {"role": "assistant", "content": choice}} if isinstance(choice, str) else dict(choice)
        rows.append({"index": index, "finish_reason": "stop", **fields})
    usage = usage or {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL, "choices": rows, "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.server.script.take(Seen(self.path, headers, body))
        if step.meet is not None:
            step.meet.wait(10)
        self.server.script.closing.wait(self.server.script.takes_s)
        self.server.script.done()
        if step.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        if step.body or not step.reset:
            self._write(step)
        if step.reset:
            self.connection.close()

    def _write(self, step: Step) -> None:
        headers = {"content-type": "application/json", "content-length": str(len(step.body)), **dict(step.headers)}
        self.send_response(step.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        sent = step.body[: len(step.body) - step.cut]
        for part in map(bytes, zip(sent, strict=True)) if step.byte_s else [sent]:
            self.wfile.write(part)
            self.server.script.closing.wait(step.byte_s)
        self.close_connection |= bool(step.cut)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that was reset is no news."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A running server with an empty script."""
    script = ScriptedServer()
    http = _Server(("127.0.0.1", 0), _Handler)
    http.script = script  # type: ignore[attr-defined]
    script.base_url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield script
    script.closing.set()
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def endpoint_settings(server: ScriptedServer) -> Callable[..., EndpointSettings]:
    """Settings of an endpoint at the server, with changes."""

    def build(**changes: Any) -> EndpointSettings:
        return EndpointSettings(**{"kind": "openai", "model": MODEL, "base_url": server.base_url, **changes})

    return build


@pytest.fixture
def models_settings(
    tmp_path: Path, endpoint_settings: Callable[..., EndpointSettings]
) -> Callable[..., ModelsSettings]:
    """Settings in which every role but the segmenter uses the server, with a budget and changes to the endpoint."""

    def build(usd: float | None = None, tokens: int | None = None, **changes: Any) -> ModelsSettings:
        roles = ("policy", "teacher", "pointer", "judge", "detector")
        return ModelsSettings(
            endpoints=(("scripted", endpoint_settings(**changes)),),
            roles=tuple((role, "scripted") for role in roles),
            cache_path=str(tmp_path / "replies.sqlite"),
            input_root=str(tmp_path / "data"),
            run_root=str(tmp_path / "run"),
            budget_usd=usd,
            budget_tokens=tokens,
        )

    return build


@pytest.fixture
def text_prompt() -> Callable[[str], RenderedPrompt]:
    """A prompt without media whose text differs with ``predicted``."""

    def build(predicted: str = "three") -> RenderedPrompt:
        return load_prompt("judge_answer.v1").render(question="How many?", gold="3", predicted=predicted)

    return build


@pytest.fixture
def use(tmp_path: Path, endpoint_settings: Callable[..., Any]) -> Callable[..., Any]:
    """Open an endpoint with changed settings, await ``work`` of it, close it."""

    def run(work: Callable[[OpenAIEndpoint], Any], **changes: Any) -> Any:
        async def main() -> Any:
            media = MediaStore(str(tmp_path), str(tmp_path))
            endpoint = OpenAIEndpoint(endpoint_settings(**{"max_retries": 2, **changes}), media, 1)
            try:
                return await work(endpoint)
            finally:
                await endpoint.close()

        return asyncio.run(main())

    return run


@pytest.fixture
def ask(use, text_prompt) -> Callable[..., Reply]:
    def run(n: int = 1, prompt: Any = None, sampling: Sampling | None = None, **changes: Any) -> Reply:
        request = Request(prompt or text_prompt(), sampling or Sampling(n=n), tuple(range(n)))
        return use(lambda endpoint: endpoint.generate(request), **changes)

    return run


@pytest.fixture
def failure(ask) -> Callable[..., CallError]:
    """The error that a call ends with."""

    def run(**arguments: Any) -> CallError:
        with pytest.raises(CallError) as caught:
            ask(**arguments)
        return caught.value

    return run


@pytest.fixture
def medium(tmp_path: Path) -> Callable[[np.ndarray, str], MediaRef]:
    """Save a picture in the input folder; a reference to it."""

    def save(pixels: np.ndarray, name: str = "scene.png") -> MediaRef:
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
        height, width = pixels.shape[:2]
        digest = sha256_bytes(path.read_bytes())
        return MediaRef(f"input:{name}", "image", digest, digest, "0" * 16, width, height, 1, 1)

    return save


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., CallResult]:
    """Ask a role of the embedded engine's models, opened anew; cached only where ``cache`` names a file."""

    def run(role: str, prompt: RenderedPrompt, strength: float = 0.0, cache: str = "", **sampling: Any) -> CallResult:
        settings = ModelsSettings(
            endpoints=tuple(
                (model, EndpointSettings("classical", model, strength=strength)) for model in ("colour", "edges")
            ),
            roles=tuple(CLASSICAL_ROLES.items()),
            cache_path=str(tmp_path / (cache or "unused")),
            input_root=str(tmp_path / "data"),
            run_root=str(tmp_path / "run"),
        )

        async def main() -> CallResult:
            models = Models(settings, cached=bool(cache))
            try:
                return await models.generate(role, prompt, Sampling(**sampling))
            finally:
                await models.close()

        return asyncio.run(main())

    return run
