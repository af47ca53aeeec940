"""What holds for every test: properties are checked without an eye on the clock, nothing is looked at twice, and
stores are on this machine.
"""

import atexit
import bz2
import contextlib
import functools
import gc
import logging
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from groundtrace.schemas import module_search, user_modules
from groundtrace.storage.places import RemotePath, StorageSettings

from .stores import fake_gcs

ROOT = Path(__file__).resolve().parents[1]

# A busy machine must not fail a property. The rest is inherited: hypothesis draws the same examples each time where
# it sees that it runs in CI, and new ones elsewhere.
settings.register_profile(
    "untimed", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
)
settings.load_profile("untimed")

# A scripted server writes a reply's head and body apart: without this, the body waits 40 ms for the head's receipt.
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

_REMEMBERED = contextlib.ExitStack()

gc.disable()  # until the tests are collected: what is loaded for them stays, so a collection would free nothing

# A shell starts what runs in the background with Ctrl-C ignored, as the commands that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare each of the hundreds of small pipelines what Beam and the garbage collector would do over again."""
    from apache_beam.internal import cloudpickle_pickler
    from apache_beam.runners.worker import statecache

    from groundtrace.pipelines.running.execute.beam_inspection import inspected_once
    from groundtrace.stages.plumbing import malloc

    _REMEMBERED.enter_context(inspected_once())
    statecache.get_deep_size = lambda *objects: len(objects)  # Beam looks at all modules for this
    compress, decompress = map(functools.lru_cache(4096), (bz2.compress, bz2.decompress))
    # Each pipeline compresses the same coders and functions again, a twelfth of a small one's time.
    cloudpickle_pickler.bz2 = types.SimpleNamespace(compress=compress, decompress=decompress)
    malloc.MIN_GROWTH_BYTES = 512 << 20  # this process holds 2 GB, and a release visits all objects of it
    gc.set_threshold(20_000, 50, 50)  # by default a twelfth of a small pipeline's time
    gc.enable()
    gc.freeze()  # what was loaded for the tests stays to the end
    atexit.register(gc.unfreeze)  # else extension modules report what they hold as leaked


@pytest.fixture(autouse=True)
def log_level() -> None:
    """Set the root logger's default level before each test.

    A command sets the levels of its process. Here many commands run in one process, some of them in fixtures of the
    session, which run before this one.
    """
    root = logging.getLogger()
    if root.level != logging.WARNING:  # setting it clears what all loggers remember
        root.setLevel(logging.WARNING)


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a test import modules of a user from its temporary folder, which no later test gets."""
    monkeypatch.setattr(user_modules, "_imports", {})
    monkeypatch.setattr(user_modules, "_checked", set())
    for folders in ("_config_folders", "_searched"):
        monkeypatch.setattr(module_search, folders, [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    found = [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items()]
    for name in [name for name, file in found if file and Path(file).is_relative_to(tmp_path)]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder under a name once for all test processes, which then only read it."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, whole = root / name, root / f"{name}.whole"
        with FileLock(root / f"{name}.lock"):
            if not whole.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                whole.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def demo(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A folder in which ``runs/demo`` is what ``make demo`` leaves: a run over the bundled sample, with its cache."""
    from groundtrace.pipelines.commands import cli

    def make(folder: Path) -> None:
        words = ["--input", str(ROOT / "data/sample"), "--output", str(folder / "runs/demo")]
        assert cli.main(["run", str(ROOT / "pipelines/grounded_cot.py"), *words]) == 0
        (folder / "data").symlink_to(ROOT / "data")

    return made_once("demo", make)


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Where S3 as moto has it answers, one request to write at a time: its ``If-None-Match`` looks, then writes."""
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    put, writing = S3Response.put_object, threading.Lock()

    def put_object(self: S3Response) -> object:
        with writing:
            return put(self)

    S3Response.put_object = put_object  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def gs_url() -> Iterator[str]:
    """Where a Google Cloud Storage answers: that of the tests, or the program that FAKE_GCS_SERVER names."""
    if not (program := os.environ.get("FAKE_GCS_SERVER")):
        with fake_gcs.serving() as url:
            yield url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    host, port = address.split(":")
    options = ["-scheme", "http", "-host", host, "-port", port, "-public-host", address, "-backend", "memory"]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    yield f"http://{address}"
    process.terminate()
    process.wait()


@pytest.fixture
def new_bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], RemotePath]:
    """Makes a bucket of its own at the local store of a scheme, which the standard variables lead to."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def made(scheme: str, through: str = "") -> RemotePath:
        """``through`` is a URL before the store's own, such as that of a proxy."""
        url = through or request.getfixturevalue(f"{scheme}_url")
        name = f"b{uuid.uuid4().hex}"
        monkeypatch.setenv("AWS_ENDPOINT_URL" if scheme == "s3" else "STORAGE_EMULATOR_HOST", url)
        at = StorageSettings(endpoint_url=url) if scheme == "s3" else StorageSettings(gs_endpoint_url=url)
        make_bucket(scheme, url, name)
        return RemotePath(f"{scheme}://{name}", at)

    return made


def make_bucket(scheme: str, url: str, name: str) -> None:
    if scheme == "s3":
        import boto3

        boto3.client("s3", endpoint_url=url).create_bucket(Bucket=name)
        return
    import requests

    requests.post(f"{url}/storage/v1/b?project=p", json={"name": name}, timeout=10).raise_for_status()


@pytest.fixture(params=["s3", pytest.param("gs", marks=pytest.mark.stores)])
def bucket(request: pytest.FixtureRequest, new_bucket: Callable[[str], RemotePath]) -> RemotePath:
    """A bucket of its own, of each kind of store in turn; the fast tests have one kind outside test_storage.py."""
    return new_bucket(request.param)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium of this machine; none is ever downloaded."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "there is no browser: apt-get install chromium"
    with sync_playwright() as playwright:
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=found, args=alone)
        yield running
        running.close()
