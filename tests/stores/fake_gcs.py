"""A Google Cloud Storage on this machine, in memory: what reading and writing whole objects takes of its JSON API.

Objects with generations, the precondition ``ifGenerationMatch``, listings with prefix, delimiter and pages, ranges,
uploads in one request and in parts, and copies. It differs from the real one in that it knows no rights, no checksums,
no versions of the past, no ``fields`` and no batches; copies are done in one step, and a part of an upload that was
broken off is not taken up again. The tests in ``tests/storage/test_places.py`` run on fake-gcs-server too where
FAKE_GCS_SERVER names its program.
"""

import itertools
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit


class Held(NamedTuple):
    data: bytes
    generation: int
    updated: str


@dataclass
class World:
    """Buckets, their objects, and uploads that were begun."""

    buckets: dict[str, dict[str, Held]] = field(default_factory=dict)
    begun: dict[str, tuple[str, str, bytearray, str | None]] = field(default_factory=dict)
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, bucket: str, name: str, data: bytes, expected: str | None) -> int:
        """Write an object; its status, 412 where ``expected`` is not the generation that there is."""
        with self.lock:
            held = self.buckets[bucket].get(name)
            if expected is not None and int(expected) != (held.generation if held else 0):
                return 412
            self.buckets[bucket][name] = Held(data, next(self.numbers), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
            return 200

    def described(self, bucket: str, name: str) -> dict[str, Any]:
        held = self.buckets[bucket][name]
        number = str(held.generation)
        return {
            "bucket": bucket,
            "name": name,
            "size": str(len(held.data)),
            "generation": number,
            "updated": held.updated,
        }


class Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        kind = parts[0] if parts[0] in ("upload", "download") else ""
        at = parts[parts.index("b") + 1 :]
        try:
            self._answer(kind, at, query, body)
        except KeyError:
            self._json(404, {"error": {"code": 404, "message": "Not Found"}})

    def _answer(self, kind: str, at: list[str], query: dict[str, str], body: bytes) -> None:
        world: World = self.server.world
        if not at:
            world.buckets.setdefault(json.loads(body)["name"], {})
            return self._json(200, {})
        bucket = at[0]
        objects = world.buckets[bucket]
        if kind == "upload":
            return self._upload(bucket, query, body)
        if len(at) == 1:
            return self._json(200, {"kind": "storage#bucket", "name": bucket})
        if len(at) == 2:
            return self._json(200, self._listed(bucket, query))
        name = at[2]
        if "rewriteTo" in at:
            target = at[at.index("rewriteTo") + 1 :]
            world.put(target[1], target[3], objects[name].data, query.get("ifGenerationMatch"))
            return self._json(200, {"done": True, "resource": world.described(target[1], target[3])})
        if self.command == "DELETE":
            del objects[name]
            return self._send(204, b"")
        if kind == "download" or query.get("alt") == "media":
            return self._download(objects[name].data)
        return self._json(200, world.described(bucket, name))

    def _upload(self, bucket: str, query: dict[str, str], body: bytes) -> None:
        world: World = self.server.world
        if "upload_id" in query:
            bucket, name, held, expected = world.begun[query["upload_id"]]
            held += body
            if self.headers["content-range"].endswith(f"/{len(held)}"):
                return self._written(bucket, name, bytes(held), expected)
            return self._send(308, b"", {"Range": f"bytes=0-{len(held) - 1}"})
        expected = query.get("ifGenerationMatch")
        if query["uploadType"] == "resumable":
            name, number = query["name"], str(next(world.numbers))
            world.begun[number] = (bucket, name, bytearray(), expected)
            return self._send(200, b"", {"Location": f"http://{self.headers['host']}{self.path}&upload_id={number}"})
        boundary = re.search('boundary="?([^";]+)', self.headers["content-type"])
        assert boundary
        _, told, sent, *_ = body.split(b"--" + boundary[1].encode())
        name = json.loads(told.partition(b"\n\n")[2])["name"]
        return self._written(bucket, name, sent.partition(b"\n\n")[2].removesuffix(b"\n"), expected)

    def _written(self, bucket: str, name: str, data: bytes, expected: str | None) -> None:
        world: World = self.server.world
        status = world.put(bucket, name, data, expected)
        said = "conditionNotMet" if status == 412 else ""
        self._json(status, {"error": {"code": status, "message": said}} if said else world.described(bucket, name))

    def _listed(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most, after = int(query.get("maxResults", 1000)), query.get("pageToken", "")
        names = sorted(name for name in self.server.world.buckets[bucket] if name.startswith(prefix))
        folders = {name[: name.index(delimiter, len(prefix)) + 1] for name in names if delimiter in name[len(prefix) :]}
        folders = folders if delimiter else set()
        direct = [name for name in names if not (delimiter and delimiter in name[len(prefix) :])]
        page = [name for name in direct if name > after][:most]
        found: dict[str, Any] = {"items": [self.server.world.described(bucket, name) for name in page]}
        if not after and folders:
            found["prefixes"] = sorted(folders)
        if page and page[-1] != direct[-1]:
            found["nextPageToken"] = page[-1]
        return found

    def _download(self, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if not asked:
            return self._send(200, data)
        start = int(asked[1])
        if start >= len(data):
            return self._json(416, {"error": {"code": 416, "message": "Requested range not satisfiable"}})
        return self._send(206, data[start : int(asked[2]) + 1 if asked[2] else None])

    def _json(self, status: int, fields: dict[str, Any]) -> None:
        self._send(status, json.dumps(fields).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Requests are not printed."""


@contextmanager
def serving():
    """The URL of a store that is served while the body runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.world = World()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
