"""No API key in anything that a run leaves or says: every file of the run folder, read as bytes and as what it holds.

The server does the worst: it echoes the Authorization header in replies, reasoning, refusals and errors.
"""

import base64
import html
import json
import sqlite3
import threading
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

KEY = "sk-SECRETSECRET-0123456789abcdef"
ESCAPED = "sk/\"'\\\\<SECRETSECRET>&%=+0123456789abcdef/"
LONG = KEY + "/SECRETSECRET" * 310
SIGNS = ("SECRETSECRET", *(base64.b64encode(b"x" * n + b"SECRETSECRET").decode()[4:-4] for n in range(3)))


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(200, {"object": "list", "data": [{"id": "echo", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        heard = self.headers["authorization"]
        self.server.heard.append(heard)  # type: ignore[attr-defined]
        text = json.dumps(body["messages"])
        key = heard.removeprefix("Bearer ")
        forms = (heard, json.dumps(heard), repr(heard), html.escape(heard), urllib.parse.quote(heard, safe=""))
        basic = base64.b64encode(f"user:{key}".encode()).decode()
        heard = " ".join((*forms, json.dumps(json.dumps(heard)), f"Basic {basic}", json.dumps(basic)))
        if "denied" in text:
            self._say(self.server.denial, {"error": {"message": f"no access with {heard}"}})
        elif "refused" in text:
            choice = {"index": 0, "message": {"role": "assistant", "content": None, "refusal": f"not for {heard}"}}
            self._say(200, {"choices": [choice]})
        elif "page" in text:
            self._say(200, f"<html>{heard}</html>")
        else:
            message = {"content": f"{heard} <answer>3</answer>", "reasoning_content": f"I was given {heard}"}
            choices = [{"index": i, "message": message, "finish_reason": "stop"} for i in range(body["n"])]
            self._say(200, {"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 3}})

    def _say(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _EchoServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: a run that ends on a refusal drops its other connections."""


@pytest.fixture
def echo() -> Iterator[Any]:
    server = _EchoServer(("127.0.0.1", 0), _Echo)
    server.heard, server.denial = [], 400  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def leaks(folder: Path) -> list[str]:
    """Where the key stands: in a file's bytes, in what a Parquet or SQLite file holds, or in unpacked text."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        texts = [path.name, path.read_bytes().decode("latin-1")]
        if path.suffix == ".parquet":
            texts.append(repr(pq.read_table(path).to_pylist()))
        if path.suffix == ".sqlite":
            with sqlite3.connect(path) as db:
                texts.append("\n".join(db.iterdump()))
        if path.suffix == ".zz":
            texts.append(zlib.decompress(path.read_bytes()).decode("latin-1"))
        found += [f"{path.relative_to(folder)}: {sign}" for sign in SIGNS for text in texts if sign in text]
    return found


@pytest.mark.parametrize(
    ("source", "key"),
    [
        pytest.param("environment", KEY, id="environment"),
        pytest.param("file", KEY, id="file", marks=pytest.mark.slow),
        pytest.param("environment", ESCAPED, id="escaped", marks=pytest.mark.slow),
        pytest.param("environment", LONG, id="long", marks=pytest.mark.slow),
    ],
)
def test_no_key_anywhere(
    source: str, key: str, echo: Any, run_beam: Callable[..., Any], write_records: Any, write_scene: Any,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    data = tmp_path / "data"
    questions = ["How many squares?", "How many squares are denied?", "How many are refused?", "How many on the page?"]
    rows = []
    for number in range(12):
        write_scene(data / f"{number}.png", ["red", "blue", "black"], width=160 + number)
        rows.append({"id": f"q{number}", "media": [f"{number}.png"], "question": questions[number % 4]})
    write_records(data, rows)
    if source == "environment":
        monkeypatch.setenv("ECHO_KEY", key)
        declared = 'api_key_env = "ECHO_KEY"'
    else:
        (tmp_path / "key.txt").write_text(f"{key}\n")
        declared = f'api_key_file = "{tmp_path / "key.txt"}"'
    config = tmp_path / "config.toml"
    config.write_text(
        f'allow_embedded = true\nmax_failed = 0.9\n[endpoints.echo]\nkind = "openai"\nmodel = "echo"\nbase_url = "http://127.0.0.1:{echo.server_port}/v1"\n'
        f'max_retries = 1\n{declared}\n[endpoints.colour]\nkind = "classical"\nmodel = "colour"\n'
        '[endpoints.edges]\nkind = "classical"\nmodel = "edges"\n[roles]\npolicy = "echo"\njudge = "echo"\n'
        'teacher = "colour"\npointer = "colour"\ndetector = "edges"\nsegmenter = "edges"\n'
    )
    ran = run_beam(data, tmp_path / "run", "--config", str(config))
    assert ran.code == 0, ran.err
    ran.check_balance(12)
    reasons = set(ran.ends.values())
    assert "call_failed" in reasons
    assert reasons & {"sft", "rl"}, "the run made no row that could hold the key"
    assert f"Bearer {key}" in echo.heard, "the key was not used at all"
    assert leaks(tmp_path / "run") == []
    echo.denial = 401
    stopped = run_beam(data, tmp_path / "run", "--config", str(config))
    stopped.check_refused(2, "HTTP 401: no access with Bearer ***")
    assert "To go on, give a key that the server accepts" in stopped.err
    assert not [sign for sign in SIGNS if sign in ran.out + ran.err + stopped.out + stopped.err]
    assert leaks(tmp_path / "run") == []


def test_the_scan_finds_a_key(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(f"sent {KEY}")
    assert [leak for leak in leaks(tmp_path) if leak.startswith("log.txt")]


@pytest.mark.parametrize("url", ["http://user:pw@127.0.0.1/v1", "http://127.0.0.1/v1?key=sk-x"])
def test_a_key_in_the_config_is_refused(url: str, run_beam: Callable[..., Any], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[endpoints.a]\nkind = "openai"\nmodel = "m"\nbase_url = "{url}"\n')
    ran = run_beam(tmp_path, tmp_path / "run", "--config", str(config))
    ran.check_refused(2, "base_url must be a URL without")
