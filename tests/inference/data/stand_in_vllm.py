"""In vLLM's place: serves a list of models as ``vllm serve`` does, forks and detaches, and dies if told to.

The ids of its processes go to the file ``$STAND_IN_PIDS``, its arguments to the output. The children ignore SIGTERM.
``$STAND_IN`` is empty, or ``dies``, ``sick`` (never healthy) or ``other`` (has another model).
"""

import http.server
import json
import os
import signal
import sys

arguments = sys.argv[1:]
mode, key = os.environ.get("STAND_IN", ""), os.environ.get("VLLM_API_KEY")


def note() -> None:
    """Write down that this process exists."""
    with open(os.environ["STAND_IN_PIDS"], "a") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")


def fork(detached: bool) -> None:
    """Start a child that won't go by itself for a minute, and wait until it is noted."""
    ready, told = os.pipe()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(60)
        if detached:
            os.setsid()
        note()
        os.write(told, b".")
        while True:
            signal.pause()
    os.read(ready, 1)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /health and /v1/models."""

    def do_GET(self) -> None:
        welcome = self.path != "/v1/models" or not key or self.headers["authorization"] == f"Bearer {key}"
        self.send_response(503 if mode == "sick" else 200 if welcome else 401)
        self.end_headers()
        name = "other" if mode == "other" else arguments[arguments.index("--served-model-name") + 1]
        self.wfile.write(json.dumps({"data": [{"id": name}]}).encode())


print(json.dumps(arguments), flush=True)
if mode == "dies":
    print("no such model; the key is", key, flush=True)
    sys.exit(3)
note()
fork(detached=False)
fork(detached=True)
address = arguments[arguments.index("--host") + 1], int(arguments[arguments.index("--port") + 1])
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
