"""A stand-in for Dataflow and for Cloud Storage: one HTTP server that keeps what it is sent.

It runs nothing, unless it is given workers: then a job's graph runs there, with what was staged for it.

It speaks the parts of the Dataflow REST API (v1b3) and of the storage JSON API that a submission uses. The storage
answers with the right CRC32C and MD5, which its client checks.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import re
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
from apache_beam.portability.api import beam_runner_api_pb2

from tests.pipelines.shipping.cluster import Cluster

JOB = re.compile(r"/v1b3/projects/(\w+)/locations/([\w-]+)/jobs(?:/([\w-]+))?(/messages|/metrics)?")
OBJECT = re.compile(r"(?:/(upload))?/storage/v1/b/([^/]+)(?:/o(?:/([^/]+))?)?")


@dataclass
class Dataflow:
    """What the server was sent, and what it is to say.

    Attributes:
        url: where it answers.
        states: those that the job goes through, one at each question; the last one stays.
        error: what its messages say, if anything.
        jobs: the jobs that were created, as JSON.
        asked_states: the numbers of the states that the client asked for.
        objects: what was put into the storage, by ``BUCKET/NAME``.
        written: how often each of them was.
        workers: a cluster that jobs run on; None to run nothing.
    """

    url: str = ""
    states: list[str | int] = field(default_factory=lambda: ["JOB_STATE_RUNNING", "JOB_STATE_DONE"])
    error: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    asked_states: list[int] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    uploads: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    workers: Cluster | None = None

    @property
    def options(self) -> list[str]:
        """The Beam options that send a job here."""
        return [
            "--runner=DataflowRunner",
            "--project=p",
            "--region=europe-west4",
            "--temp_location=gs://bucket/tmp",
            f"--dataflow_endpoint={self.url}",
            "--no_auth",
        ]

    @property
    def environment(self) -> dict[str, str]:
        """What leads the storage's client here."""
        return {"STORAGE_EMULATOR_HOST": self.url}

    @property
    def state(self) -> str | int:
        """The job's state now; the next question gets the next."""
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def run(self, job: dict[str, Any], workers: Cluster) -> None:
        """Run a job's graph on workers that get what was staged for it; its state follows."""
        options = job["environment"]["sdkPipelineOptions"]["options"]
        graph = beam_runner_api_pb2.Pipeline.FromString(self.objects[options["pipelineUrl"].removeprefix("gs://")])
        state = workers.run(graph, options["beam_plugins"], lambda url: self.objects[url.removeprefix("gs://")])
        self.states[:] = [f"JOB_STATE_{state}"]

    def put(self, key: str, content: bytes) -> dict[str, Any]:
        """Keep an object; returns what the API says of it."""
        self.objects[key] = content
        self.written.append(key)
        return self.told(key)

    def told(self, key: str) -> dict[str, Any]:
        """What the storage says of an object."""
        bucket, _, name = key.partition("/")
        content = self.objects[key]
        crc = base64.b64encode(struct.pack(">I", google_crc32c.value(content))).decode()
        md5 = base64.b64encode(hashlib.md5(content).digest()).decode()
        size = str(len(content))
        return {"kind": "storage#object", "bucket": bucket, "name": name, "size": size, "crc32c": crc, "md5Hash": md5}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: Dataflow

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if found := JOB.fullmatch(path):
            self._of_job(found[3], found[4])
        elif (found := OBJECT.fullmatch(path)) and found[3] is None:
            self._send({"kind": "storage#bucket", "name": found[2], "location": "EU"})
        elif found and (key := f"{found[2]}/{unquote(found[3])}") in self.told.objects:
            self._send(self.told.told(key))
        else:
            self._send({"error": {"code": 404, "message": "there is no such thing"}}, 404)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        asked = urlsplit(self.path)
        if JOB.fullmatch(asked.path):
            job = json.loads(content)
            self.told.jobs.append(job)
            if self.told.workers is not None:
                self.told.states[:] = ["JOB_STATE_RUNNING"]
                threading.Thread(target=self.told.run, args=(job, self.told.workers), daemon=True).start()
            self._send({**job, "id": "job-1", "currentState": "JOB_STATE_PENDING"})
            return
        found = OBJECT.fullmatch(asked.path)
        assert found is not None and parse_qs(asked.query)["uploadType"] == ["resumable"], self.path
        number = str(next(self.told.numbers))
        self.told.uploads[number] = f"{found[2]}/{json.loads(content)['name']}"
        self._send({}, location=f"{self.told.url}/uploads/{number}")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if JOB.fullmatch(urlsplit(self.path).path):
            state = json.loads(content)["requestedState"]
            self.told.asked_states.append(state)
            self.told.states[:] = [state]
            self._send({"id": "job-1", "currentState": state})
            return
        number = self.path.removeprefix("/uploads/")
        assert self.headers["Content-Range"].endswith(f"/{len(content)}"), "more than one part"
        self._send(self.told.put(self.told.uploads[number], content))

    def _of_job(self, job: str | None, what: str | None) -> None:
        said = {"id": "1", "messageImportance": "JOB_MESSAGE_ERROR", "messageText": self.told.error}
        if what == "/messages":
            self._send({"jobMessages": [said | {"time": "2026-01-01T00:00:00Z"}] if self.told.error else []})
        elif what == "/metrics":
            self._send({"metrics": []})
        else:
            self._send({"id": job, "currentState": self.told.state})

    def _send(self, fields: dict[str, Any], code: int = 200, **headers: str) -> None:
        content = json.dumps(fields).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def dataflow() -> Iterator[Dataflow]:
    """Serve on a free port while the body runs."""
    told = Dataflow()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"told": told}))
    server.daemon_threads = True
    told.url = f"http://localhost:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
