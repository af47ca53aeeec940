"""An OpenAI-compatible server on this machine that answers as a function says, and the options to ask it."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = "There are three squares. <answer>3</answer>"


class Handler(BaseHTTPRequestHandler):
    """Answers as ``server.answer`` says: a status and a body for each chat request, by its number from 0."""

    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(*self.server.listed)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.counting:
            number = len(self.server.seen)
            self.server.seen.append(body)
        status, fields = self.server.answer(number, body)
        self._send(status, fields)

    def _send(self, status: int, fields: dict[str, Any]) -> None:
        data = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        if self.server.retry_after and status != 200:
            self.send_header("retry-after", self.server.retry_after)
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Requests are not printed."""


class Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A connection that was closed is no news."""


Answer = Callable[[int, dict[str, Any]], tuple[int, dict[str, Any]]]
LISTED = (200, {"object": "list", "data": [{"id": "m", "object": "model"}]})


def right(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A right answer."""
    choices = [
        {"index": index, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        for index in range(body.get("n", 1))
    ]
    return 200, {"choices": choices, "usage": {"prompt_tokens": 1000, "completion_tokens": 1000}}


def said(status: int, message: str, code: str = "") -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message, "code": code}}


@contextmanager
def serving(
    answer: Answer,
    listed: tuple[int, dict[str, Any]] = LISTED,
    port: int = 0,
    kind: type[Handler] = Handler,
    retry_after: str = "",
) -> Iterator[Any]:
    """A server on this machine; ``url`` is its base URL and ``seen`` the chat requests. ``retry_after`` is a header of
    all that is not answered.
    """
    with Http(("127.0.0.1", port), kind) as http:
        server: Any = http
        server.answer, server.listed, server.seen, server.counting = answer, listed, [], threading.Lock()
        server.retry_after = retry_after
        server.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def filled(config: str, url: str) -> str:
    """The config of ``beam init`` with its three lines filled in for the server."""
    lines = {"base_url": url, "model": "m", "api_key_env": "FAR_KEY"}
    for name, value in lines.items():
        config, found = re.subn(rf'^{name} = ".*?"', f'{name} = "{value}"', config, flags=re.MULTILINE)
        assert found == 1
    return config


def asking(url: str, role: str = "policy", **fields: Any) -> list[str]:
    """The options by which the server ``far`` plays a role."""
    settings = {"kind": "openai", "model": "m", "base_url": url, "max_retries": 0, "frame": "px"}
    settings |= fields
    named = {f"endpoints.far.{name}": value for name, value in settings.items()}
    named |= {f"roles.{role}": "far", "allow_embedded": "true", "split.sft_ratio": "1.0"}
    return [word for name, value in named.items() for word in ("--set", f"{name}={value}")]
