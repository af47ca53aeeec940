"""Programs that try to get out: each is contained, the state of its trajectory goes on, and the host is as before."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from groundtrace.sandbox import Sandbox, SandboxLost, Session

from .conftest import LIMITS, changed_on_the_host, encoded, host_state

pytestmark = pytest.mark.sandbox
SECRET = "a secret of the host"
_FOUND = yaml.safe_load((Path(__file__).parent / "escapes.yaml").read_text("utf-8"))
PRELUDE = _FOUND["prelude"]
PROGRAMS = {f"{kind}: {name}": code for kind, found in _FOUND["programs"].items() for name, code in found.items()}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A file that all may write, and a port that all may connect to: neither is reached."""
    canary = tmp_path_factory.mktemp("host") / "canary"
    canary.write_text(SECRET, "utf-8")
    canary.chmod(0o666)
    connected: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected.append(server.accept())

        threading.Thread(target=accept, daemon=True).start()
        yield {"CANARY": canary, "PORT": server.getsockname()[1], "connected": connected}


@pytest.fixture(scope="module")
def neighbour(sandbox: Sandbox) -> Iterator[Session]:
    """Another trajectory, which is open beside all programs: each leaves its variable and its file alone."""
    with sandbox.open() as opened:
        opened.run("mine = 1; open('mine.txt', 'w').write('mine')")
        yield opened


def code_of(name: str, host: dict[str, Any]) -> str:
    code = PRELUDE + PROGRAMS[name]
    for word in ("CANARY", "PORT"):
        code = code.replace(f"@{word}@", str(host[word]))
    return code


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_contained(
    name: str, sandbox: Sandbox, neighbour: Session, host: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GT_CANARY", SECRET)
    code = code_of(name, host)
    with sandbox.open([encoded()]) as session:
        session.run("kept = 41; open('kept.txt', 'w').write('kept')")
        seen = session.run(code)
        assert "ESCAPED" not in seen.text, seen.text
        assert seen.duration_s < LIMITS.call_timeout_s + 4
        after = session.run("print(kept, open('kept.txt').read(), input_image.size)")
        assert (after.status, after.stdout) == ("ok", "41 kept (200, 100)\n"), (seen, after.text)
        assert neighbour.run("import os; print(mine, sorted(os.listdir('.')))").stdout == "1 ['mine.txt']\n"
    assert host["CANARY"].read_text("utf-8") == SECRET and not host["connected"]


def test_the_host_is_as_before(host: dict[str, Any]) -> None:
    """Some programs of each kind once more, in trajectories of which half are not closed: nothing is left of them."""
    with Sandbox(LIMITS):
        pass  # modules that load at first use open files
    before = host_state()
    with Sandbox(replace(LIMITS, sessions=len(PROGRAMS))) as sandbox:
        for number, name in enumerate(list(PROGRAMS)[::7]):
            session = sandbox.open([encoded()])
            with contextlib.suppress(SandboxLost):
                session.run(code_of(name, host))
            if number % 2:
                session.close()
    assert changed_on_the_host(before) == {}


def test_what_a_program_leaves_is_seen(tmp_path: Path) -> None:
    """The comparison itself: a thread, a file and a process that remain are found, those that end are not."""
    before = host_state()
    with (tmp_path / "open").open("w"), subprocess.Popen(["sleep", "30"]) as process:
        found = changed_on_the_host(before, timeout_s=0.5)
        assert found["processes"] == {process.pid} and len(found["open files"]) == 1
        process.kill()
    thread = threading.Thread(target=time.sleep, args=(0.5,))
    thread.start()
    assert changed_on_the_host(before, timeout_s=0) == {"threads": {thread.native_id}}
    assert changed_on_the_host(before) == {}
