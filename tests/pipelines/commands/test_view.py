"""``beam view`` as a process: its address, its ends, and what it refuses."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from groundtrace.pipelines.commands import viewing
from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.commands.viewing import open_rows
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.server import ViewServer
from tests.publishing.view.viewed import sft_row, write_run

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.faults), signal.SIGTERM])
def test_it_serves_the_run_until_a_signal(demo: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "groundtrace", "view", str(demo / "runs/demo"), "--at", "?set=rl&set=sft&view=table"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    state = parse_qs(address.query)
    assert (state["set"], state["view"]) == (["rl", "sft"], ["table"]) and address.hostname == "127.0.0.1"
    connection = HTTPConnection("127.0.0.1", address.port or 0, timeout=20)
    connection.request("GET", f"/?{address.query}")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (303, "/?set=rl&set=sft&view=table")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.startswith("beam: 120 rows of ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--export", ""], "--export must name a folder on this machine, got ''"),
        (["--export", "s3://bucket/copy"], "--export must name a folder on this machine, got 's3://bucket/copy'"),
        (("--cache", ""), "--cache must name a folder on this machine: '' is not one"),
        (("--cache", "gone"), "--cache must name a folder on this machine: 'gone' is not one"),
        (
            ("--cache", "s3://bucket/cache"),
            "--cache must name a folder on this machine: 's3://bucket/cache' is not one",
        ),
        (("--at", "colour=red"), "--at colour=red cannot be used: the run has no column 'colour'"),
        (("--at", "pass_rate=high"), "or as LOW..HIGH"),
        (("--port", "-1"), "choose another --port"),
        (("--port", "70000"), "choose another --port"),
    ],
)
def test_a_mistake_is_one_line(
    demo: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(demo / "runs/demo"), *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and err.startswith("beam: ")


@pytest.mark.parametrize("does_export", [False, True])
def test_a_value_of_at_that_no_row_has_is_refused_with_the_known_ones(
    does_export: bool, demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "set=sft&set=nonsense&flagged=false&flagged=yes&pass_rate=0..1"
    export = ["--export", str(tmp_path / "copy")] if does_export else []
    assert main(["view", str(demo / "runs/demo"), "--at", at, *export]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"beam: --at {at} cannot be used: no row has set=nonsense: set has the values ")
    assert err.endswith("; no row has flagged=yes: flagged has the values false, true\n") and err.count("\n") == 1
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    "at", ["", "set=sft&pass_rate=5..6", "flagged=true", "tags=check", "has a note=true&q=nothing"]
)
def test_values_of_at_that_rows_have_or_may_get_are_accepted(at: str, demo: Path) -> None:
    opened = open_rows(str(demo / "runs/demo"), None)
    opened.check_values(at)
    opened.close()


@pytest.mark.parametrize("name", ["", "sft/x", "previous", "reviews", "media/x"])
def test_a_copy_is_not_written_into_a_run_folder(
    demo: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next run into this folder would remove the copy."""
    other = write_run(tmp_path / "other", demo / "runs/demo", {"sft": [sft_row("a")]})
    (tmp_path / "link").symlink_to(other)
    for target in (other / name, tmp_path / "link" / name):
        assert main(["view", str(demo / "runs/demo"), str(other), "--export", str(target)]) == 2
        assert f"would be written into the run folder {other}, whose files must not" in capsys.readouterr().err
    assert not any(other.rglob("index.html"))


def test_a_run_folder_is_no_cache(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = demo / "runs/demo"
    assert main(["view", str(run), "--cache", str(run)]) == 2
    assert f"write --cache {run}/cache instead" in capsys.readouterr().err


def test_a_second_folder_without_a_finished_run_is_one_line(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(demo / "runs/demo"), str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path} has no run.json" in err and err.count("\n") == 1


def test_the_settings_that_differ_from_those_of_a_second_run_are_on_the_page(demo: Path, tmp_path: Path) -> None:
    new, old = (write_run(tmp_path / name, demo / "runs/demo", {"sft": [sft_row("a")]}) for name in ("new", "old"))
    config = old / "config.toml"
    config.write_text(config.read_text("utf-8").replace("\nk = 4", "\nk = 2", 1), "utf-8")
    opened = open_rows(str(new), str(old))
    server = ViewServer(new, opened.rows, opened.images, opened.reviews, Guard(), other=opened.other)
    assert server.about()["other"]["settings"] == (("attempt.k", "4", "2"),)  # as in `beam diff`


class Browser:
    """Opens the page whose address ``beam view`` has printed, and keeps its cookie."""

    def __init__(self, printed: str) -> None:
        address = urlsplit(printed.strip())
        self._port = address.port or 0
        answer, _ = self._got(f"/?{address.query}", {})
        self._headers = {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}

    def _got(self, path: str, headers: dict[str, str]) -> tuple[HTTPResponse, str]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=20)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def get(self, path: str) -> tuple[int, str]:
        answer, text = self._got(path, self._headers)
        return answer.status, text

    def load(self, until: Callable[[int, str], bool]) -> str:
        """Load the page until it is as wanted, as the page itself does, and return it."""
        for _ in range(200):
            status, text = self.get("/?set=sft")
            if until(status, text):
                return text
            assert status == 503 and 'http-equiv="refresh"' in text
            time.sleep(0.05)
        raise AssertionError(text)


def test_a_run_that_ends_or_is_repeated_is_read_again(demo: Path, tmp_path: Path) -> None:
    """The browser keeps its address and its cookie, and never finds the port closed."""
    folder, others = tmp_path / "run", [[sft_row("a")], [sft_row("a"), sft_row("b")]]
    one, two = (write_run(tmp_path / str(len(rows)), demo / "runs/demo", {"sft": rows}) for rows in others)
    folder.mkdir()
    (folder / "input.json").write_text("{}", "utf-8")
    line = [sys.executable, "-m", "groundtrace", "view", str(folder)]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        browser = Browser(process.stdout.readline())
        assert "live.js" in browser.load(lambda status, _: status == 200)
        shutil.copytree(one, folder, dirs_exist_ok=True)
        assert "page.js" in browser.load(lambda status, _: status == 200)
        assert json.loads(browser.get("/api/run")[1])["rows"] == 1

        shutil.copytree(two, folder, dirs_exist_ok=True)
        assert browser.get("/api/rows")[0] == 410
        browser.load(lambda status, _: status == 200)
        assert json.loads(browser.get("/api/rows")[1])["total"] == 2

        (shard,) = (folder / "sft").glob("*.parquet")
        good = shard.read_bytes()
        shard.write_bytes(b"<script>")
        assert "It cannot be read at present: " in browser.load(lambda _, text: "cannot be read" in text)
        shard.write_bytes(good)
        browser.load(lambda status, _: status == 200)
        assert json.loads(browser.get("/api/rows")[1])["total"] == 2
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    found = [text.split(" of ")[0] for text in err.splitlines()[1:]]
    assert found == [f"beam: the run folder has changed: {rows}" for rows in ("1 row", "2 rows", "2 rows")]


def test_a_port_that_is_taken_is_one_line(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["view", str(demo / "runs/demo"), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


def test_a_folder_without_a_finished_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path)]) == 2
    assert "has no run.json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_shards_are_closed_with_the_rows(demo: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", demo / "runs/demo", {"sft": [sft_row("a")]})
    opened = open_rows(str(folder), None)
    place = opened.rows.place_of(0)
    assert place is not None
    opened.images.values(place, ["id"])
    descriptors = Path("/proc/self/fd")
    assert [each for each in descriptors.iterdir() if each.exists() and each.resolve() == place.file]
    opened.close()
    assert not [each for each in descriptors.iterdir() if each.exists() and each.resolve() == place.file]


def test_any_error_while_a_run_is_read_again_is_shown(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run folder may be in any state. The page that is there goes on, and the run is read again later."""
    folder = write_run(tmp_path / "run", demo / "runs/demo", {"sft": [sft_row("a")]})
    reads, opened = list[str](), viewing.open_rows

    def open_rows_at_last(named: str, other: str | None) -> viewing.OpenedRows:
        reads.append(named)
        if len(reads) == 2:
            raise IndexError("list index out of range")
        return opened(named, other)

    monkeypatch.setattr(viewing, "open_rows", open_rows_at_last)
    seen = list[str]()

    def use() -> None:
        while not (printed := capsys.readouterr().out):
            time.sleep(0.05)
        browser = Browser(printed)
        (folder / "run.json").write_text((folder / "run.json").read_text("utf-8") + "\n", "utf-8")
        seen.append(browser.load(lambda _, text: "cannot be read" in text))
        seen.append(browser.load(lambda status, _: status == 200))
        signal.raise_signal(signal.SIGTERM)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        assert main(["view", str(folder), "--at", "set=sft"]) == 0
    finally:
        thread.join(30)
    assert "It cannot be read at present: IndexError: list index out of range" in seen[0] and "page.js" in seen[1]
    assert len(reads) == 3
