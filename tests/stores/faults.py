"""A proxy before a store that fails as it is told: with a status, with no reply, with half of one or a wrong one."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

KEPT_BACK = {"transfer-encoding", "connection", "content-length"}


class Faults:
    """What the proxy does with requests: ``fail_for`` seconds of failures from now on, as ``how`` says.

    ``ignored_header``, in lower case, does not reach the store.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen = self.failed = 0
        self.how: int | str = 503
        self.ignored_header = ""
        self._until_s = 0.0
        self._later: tuple[int, float, int | str] | None = None

    def fail_for(self, seconds: float, how: int | str = 503) -> None:
        """From now on requests fail: with a status, or with "close", "cut" or "flip"."""
        self.how, self._until_s = how, time.monotonic() + seconds

    def fail_after(self, requests: int, seconds: float, how: int | str = 503) -> None:
        """Fail for so long once so many more requests were served."""
        self._later = (self.seen + requests, seconds, how)

    def count(self) -> None:
        """Note a request."""
        self.seen += 1
        if self._later and self.seen > self._later[0]:
            _, seconds, how = self._later
            self._later = None
            self.fail_for(seconds, how)

    def is_failing(self) -> bool:
        return time.monotonic() < self._until_s


class Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        faults: Faults = self.server.faults
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        faults.count()
        failing, how = faults.is_failing(), faults.how
        faults.failed += failing
        if failing and how == "close":
            self.close_connection = True
            return
        if failing and isinstance(how, int):
            self._send(how, {}, b"")
            return
        target = http.client.HTTPConnection(urlsplit(faults.url).netloc, timeout=30)
        target.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != faults.ignored_header:
                target.putheader(name, value)
        target.endheaders(body)
        answer = target.getresponse()
        data = answer.read()
        target.close()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in KEPT_BACK}
        length = answer.getheader("content-length") if self.command == "HEAD" else None
        if failing and how == "flip" and data:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self._send(answer.status, kept, data, length, cut=failing and how == "cut")

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(
        self, status: int, headers: dict[str, str], data: bytes, length: str | None = None, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = cut

    def log_message(self, *_: object) -> None:
        """Requests are not printed."""


@contextmanager
def between(url: str) -> Iterator[tuple[str, Faults]]:
    """The URL of a proxy before ``url``, and what makes it fail."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.faults = Faults(url)  # type: ignore[attr-defined]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.faults  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
