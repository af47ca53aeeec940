"""Starts the servers of ``vllm`` endpoints on this machine, and stops them at the end of a run.

:func:`serving` starts the servers that these endpoints need. It yields settings in which the endpoints are ordinary
``openai`` endpoints, so no other module has to support the kind ``vllm``. A server runs under
:mod:`groundtrace.inference.endpoints.process_guard`, which stops the server with all its processes when this process
ends, even by kill -9. A machine runs only one server for the same model and arguments: a second start raises an error.
"""

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from groundtrace.inference.endpoints.keys import scrub
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import opened_for_writing

EXECUTABLE_ENV = "GROUNDTRACE_VLLM"
START_TIMEOUT_S = 900.0
"""The longest time, in seconds, until a started server must answer. This may include a download and compilation."""
STOP_LIMIT_S = 30.0
TICK_S = 0.1
HEALTH_TIMEOUT_S = 5.0
MAX_LIST_BYTES = 1_000_000
LOG_TAIL_LINES, LOG_TAIL_BYTES = 30, 16_384
OURS = ("--host", "--port", "--served-model-name", "--uds", "--model")
SECRETS = ("--api-key", "--hf-token")
SECRETS_ENV = ("VLLM_API_KEY", "HF_TOKEN")
GUARD = Path(__file__).with_name("process_guard.py")


class VllmServerError(UserError, ValueError):
    """Raised if a vLLM server cannot be started or used. The message has the reason, and what the user can do."""


@dataclass(frozen=True)
class _Wanted:
    """Describes one vLLM server to start. The endpoints ``names`` share this server.

    ``model`` is the model's name or folder. ``serve_args`` are further arguments of the command ``vllm serve``. If
    ``port`` is 0, any free port is used.
    """

    model: str
    serve_args: tuple[str, ...]
    names: tuple[str, ...]
    port: int


def find_vllm() -> str:
    """Return the path of the ``vllm`` command, with which servers are started. If the environment variable
    ``GROUNDTRACE_VLLM`` is set, its value is the path or the name of the command. Otherwise the command is searched for
    in the folder of this Python interpreter, and then on PATH.

    Raises :class:`VllmServerError` if the command is not found.
    """
    named = os.environ.get(EXECUTABLE_ENV)
    if named:
        found = shutil.which(Path(named).expanduser())
        if found is None:
            raise VllmServerError(
                f"the environment variable {EXECUTABLE_ENV} is set to {named}, which is not an executable file: set it "
                "to the path of the command vllm"
            )
        return str(found)
    beside = Path(sys.executable).with_name("vllm")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("vllm")
    if found is None:
        raise VllmServerError(
            "an endpoint of the kind vllm needs the command vllm: install vLLM together with Groundtrace "
            f"(pip install 'groundtrace[vllm]'), or set {EXECUTABLE_ENV} to the path of this command "
            "in another environment"
        )
    return found


@contextlib.contextmanager
def serving(
    models: ModelsSettings, log_folder: str, *, start_timeout_s: float = START_TIMEOUT_S
) -> Iterator[ModelsSettings]:
    """Start the vLLM servers of a run, and stop them when the ``with`` statement ends. Each ``vllm`` endpoint that has
    a role in the config (e.g. "judge") gets a server. Endpoints with the same model and arguments share a server.

    The function yields the settings ``models`` with one change: the endpoints that got a server have the kind
    ``openai`` and the URL of their server. The URL is valid only on this machine, so only workers on this machine can
    use these endpoints. The model, the revision and the cache keys of the endpoints stay the same.

    A server writes its output to ``vllm-<endpoint>.log`` in ``log_folder``. If endpoints share the server, the file
    has the alphabetically first of their names. Raises :class:`VllmServerError` if a server can't be started, or
    doesn't answer correctly within ``start_timeout_s`` seconds. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if the log is a link, a pipe or a device.
    """
    wanted = _wanted(models)
    with contextlib.ExitStack() as stack:
        urls: dict[str, str] = {}
        # One after the other, since each server measures the accelerator's free memory while it starts.
        for server in wanted:
            url = stack.enter_context(_served(server, Path(log_folder), start_timeout_s))
            urls |= dict.fromkeys(server.names, url)
        endpoints = (
            (name, replace(settings, kind="openai", base_url=urls[name]) if name in urls else settings)
            for name, settings in models.endpoints
        )
        yield replace(models, endpoints=tuple(endpoints)) if urls else models


def _wanted(models: ModelsSettings) -> list[_Wanted]:
    """Return the vLLM servers that the settings ``models`` need. Each ``vllm`` endpoint that has a role needs a server;
    endpoints with the same model and arguments share one. Raises :class:`VllmServerError` for invalid settings.
    """
    used = {name for _, name in models.roles}
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, int]]] = defaultdict(list)
    for name, settings in models.endpoints:
        if settings.kind == "vllm" and name in used:
            _check_arguments(name, settings.serve_args)
            groups[settings.model, settings.serve_args].append((name, _port(name, settings.base_url)))
    servers = []
    for (model, serve_args), members in groups.items():
        if model.startswith("-"):
            raise VllmServerError(
                f"the vllm model {model!r} begins with a hyphen, so vllm would read it as an option: set the model to "
                "a name or a folder"
            )
        names = tuple(sorted(name for name, _ in members))
        ports = {port for _, port in members if port}
        if len(ports) > 1:
            raise VllmServerError(
                f"the endpoints {', '.join(names)} share one server but have the ports {sorted(ports)}: "
                "give the base_url of each of them the same port"
            )
        servers.append(_Wanted(model, serve_args, names, ports.pop() if ports else 0))
    return servers


def _check_arguments(name: str, serve_args: tuple[str, ...]) -> None:
    for argument in serve_args:
        option = argument.split("=")[0].replace("_", "-")
        if option in OURS:
            raise VllmServerError(
                f"endpoint {name!r}: serve_args must not have {option}, which Groundtrace sets: remove it"
            )
        if option in SECRETS:
            raise VllmServerError(
                f"endpoint {name!r}: serve_args must not have {option}, since a config must not hold secrets: "
                f"remove it, and set the environment variable {SECRETS_ENV[SECRETS.index(option)]}"
            )


def _port(name: str, base_url: str) -> int:
    """Return the port in an endpoint's base URL, or 0 if the URL has no port. Raises VllmServerError if the URL is not
    valid or is the URL of another machine."""
    try:
        parts = urlsplit(base_url)
        if parts.hostname in (None, "localhost", "127.0.0.1"):
            return parts.port or 0
    except ValueError as error:
        raise VllmServerError(
            f"endpoint {name!r}: base_url {base_url!r} is not a URL ({error}): remove base_url, or write a URL such as "
            "http://127.0.0.1:8000/v1"
        ) from error
    raise VllmServerError(
        f"endpoint {name!r}: base_url can't be at {parts.hostname}, because a run starts the vllm server on this "
        "machine: remove base_url, or set the endpoint's kind to openai for a server on another machine"
    )


@contextlib.contextmanager
def _served(server: _Wanted, log_folder: Path, start_timeout_s: float) -> Iterator[str]:
    """Start a server, and yield its base URL as soon as it is healthy. The server is stopped when the ``with``
    statement ends."""
    executable = find_vllm()
    log_path = log_folder / f"vllm-{re.sub(r'[^A-Za-z0-9_.-]', '_', server.names[0])}.log"
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as starting:
            lock = starting.enter_context(_locked(server))
            port = _reserve(server.port)
            address = ["--host", "127.0.0.1", "--port", str(port)]
            command = [executable, "serve", server.model, *address, "--served-model-name", server.model]
            try:
                log_folder.mkdir(parents=True, exist_ok=True)
                log = starting.enter_context(opened_for_writing(log_folder, log_path.name, truncate=True))
            except OSError as error:
                raise VllmServerError(
                    f"the log {log_path} can't be written ({error.strerror}): make {log_folder} a folder that you can "
                    "write"
                ) from error
            # Only the guard keeps the lock: so it is held for exactly as long as the server may run.
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), *command, *server.serve_args],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
            stack.callback(_stop, guard)
        _await_health(guard, server.model, port, log_path, start_timeout_s)
        yield f"http://127.0.0.1:{port}/v1"


@contextlib.contextmanager
def _locked(server: _Wanted) -> Iterator[int]:
    """Lock the lock file of ``server``, so that this machine runs only one server for the same model and arguments.
    Yields the descriptor of the file, and closes it when the ``with`` statement ends. Raises VllmServerError if another
    run holds the lock.

    The guard (the child process that runs the server) inherits the descriptor, and must keep the lock until it ends. A
    lock of ``flock`` lasts until all copies of the descriptor are closed. So this function closes its own copy, but
    never unlocks the file. The package filelock is not used, since it would unlock the file for the guard too.
    """
    # Machines may share a home folder, and each of them may serve the model.
    identity = "\0".join((socket.gethostname(), server.model, *server.serve_args))
    path = _lock_folder() / f"vllm-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise VllmServerError(
            f"the lock file of a vllm server, {path}, can't be opened ({error.strerror}): make this file and its "
            "folder writable"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise VllmServerError(
                f"another run already serves {server.model} (pid {holder}): wait until that run ends, or set the "
                "endpoint's kind to openai and its base_url to the URL of that run's server"
            ) from error
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "groundtrace"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundtrace"


def _reserve(port: int) -> int:
    """Return ``port``, or a free port if ``port`` is 0. Raises :class:`VllmServerError` if ``port`` is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise VllmServerError(
                f"port {port} can't be used for a vllm server ({error.strerror}): set another port in the "
                "endpoint's base_url"
            ) from error
        return probe.getsockname()[1]


def _await_health(
    guard: "subprocess.Popen[bytes]", model: str, port: int, log_path: Path, start_timeout_s: float
) -> None:
    """Wait until the server is healthy. Raises :class:`VllmServerError` if the server ends, or is not healthy after
    ``start_timeout_s`` seconds. The error's message has the last lines of the server's log, the file ``log_path``.

    ``guard`` is the process that runs the server. A server is healthy if it answers at ``port`` and lists ``model``.
    """
    # Without proxies: a proxy from the environment can't reach this machine's loopback interface.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline_s = time.monotonic() + start_timeout_s
    while time.monotonic() < deadline_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = guard.wait(TICK_S)
            raise VllmServerError(
                f"vllm serve {model} ended with status {status}: correct the error that its log shows; "
                f"{_tail(log_path)}"
            )
        # The list is checked too, since another program may have taken the port before the server could use it.
        if _get(opener, port, "/health") is not None and _lists(_get(opener, port, "/v1/models"), model):
            return
    raise VllmServerError(
        f"the vllm server of {model} was not ready after {start_timeout_s:g} s: correct the error that its log shows, "
        f"or repeat the command if the log shows only an unfinished download; {_tail(log_path)}"
    )


def _get(opener: urllib.request.OpenerDirector, port: int, path: str) -> bytes | None:
    """Request ``path`` from the server at ``port`` of this machine, and return the body of the response. Returns None
    if the server cannot be reached, or if the status is not 200. ``opener`` sends the request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if os.environ.get("VLLM_API_KEY"):
        request.add_header("authorization", f"Bearer {os.environ['VLLM_API_KEY']}")
    try:
        with opener.open(request, timeout=HEALTH_TIMEOUT_S) as reply:
            return reply.read(MAX_LIST_BYTES) if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None


def _lists(body: bytes | None, model: str) -> bool:
    """Return whether ``body`` is a list of models, in OpenAI's form, that contains ``model``."""
    try:
        listed = json.loads(body or b"{}")
        return any(entry["id"] == model for entry in listed["data"])
    except (ValueError, LookupError, TypeError):
        return False


def _stop(guard: "subprocess.Popen[bytes]") -> None:
    """Ask the guard (the process that runs the server) to stop the server and to end, and wait until the guard has
    ended. A guard that does not end within ``STOP_LIMIT_S`` seconds is killed.
    """
    guard.terminate()
    try:
        guard.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()


def _tail(log_path: Path) -> str:
    """Return a text for error messages: the path of the server's log, and the log's last lines without secrets."""
    with log_path.open("rb") as log:
        size_bytes = log.seek(0, os.SEEK_END)
        log.seek(max(0, size_bytes - LOG_TAIL_BYTES))
        text = log.read().decode("utf-8", "replace")
    for name in SECRETS_ENV:
        text = scrub(text, os.environ.get(name, ""))
    return "\n".join([f"the end of {log_path}:", *text.splitlines()[-LOG_TAIL_LINES:]])
