"""What a view shows of a run that has not finished: from the notes and the log that the run's processes write."""

import json
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.flow.notes import MAX_NOTE_BYTES, RunNotes, paid_in
from groundtrace.inference.request import Completion
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.live import MAX_CHARS, MAX_REPLIES, LiveRun, is_unfinished
from groundtrace.publishing.view.live_server import live_app
from groundtrace.schemas.usage import Usage


class GoingRun:
    """A run folder that is written as a run's process writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "input.json").write_text('{"input": "data", "fingerprint": "f"}')
        self.begin("20260101T000000-aa")
        self.cache = ReplyCache(str(folder / "cache/replies.sqlite"))

    def begin(self, name: str) -> None:
        (self.folder / "ledger" / name).mkdir(parents=True)
        self.notes = RunNotes(str(self.folder / "ledger" / name))

    def reply(self, number: int, text: str = "4", role: str = "policy") -> None:
        self.notes.paid(role, 1, Usage(requests=1, tokens_in=10, tokens_out=3, cost_usd=0.5))
        self.cache.put([CacheEntry(f"{number:064x}", role, "attempt.v1", "m", 64, Completion(text), 10, 3)])


@pytest.fixture
def going(tmp_path: Path) -> GoingRun:
    return GoingRun(tmp_path / "run")


def test_only_a_begun_run_without_outputs_is_unfinished(tmp_path: Path, run: Path) -> None:
    assert not is_unfinished(tmp_path) and not is_unfinished(tmp_path / "gone") and not is_unfinished(run)
    assert is_unfinished(GoingRun(tmp_path / "run").folder)


def test_the_newest_replies_of_a_named_cache(going: GoingRun, tmp_path: Path) -> None:
    going.reply(1, "of the run")
    elsewhere = GoingRun(tmp_path / "other")
    elsewhere.reply(2, "of the named cache")
    state = LiveRun(going.folder, elsewhere.folder / "cache").state()
    assert [each["text"] for each in state["replies"]] == ["of the named cache"]
    assert [each["replies"] for each in state["calls"]] == [1]


def test_an_empty_run(going: GoingRun) -> None:
    state = LiveRun(going.folder).state()
    assert (state["calls"], state["failures"], state["replies"], state["idle_s"]) == ([], [], [], None)
    assert not state["is_finished"] and not state["is_failed"]


def test_requests_failures_and_replies_are_followed(going: GoingRun) -> None:
    live = LiveRun(going.folder)
    going.reply(1)
    going.reply(2, "seven", "teacher")
    going.notes.failed("far", 429, "too many\nrequests")
    first = live.state()
    assert [(each["role"], each["requests"], each["tokens_in"], each["cost_usd"]) for each in first["calls"]] == [
        ("policy", 1, 10, 0.5),
        ("teacher", 1, 10, 0.5),
    ]
    assert first["failures"] == [{"endpoint": "far", "status": 429, "message": "too many requests", "count": 1}]
    assert [each["text"] for each in first["replies"]] == ["seven", "4"] and first["per_minute"] == 2
    assert 0 <= first["idle_s"] < 30
    going.reply(3)
    going.notes.failed("far", 429, "too many\nrequests")
    going.notes.begin_wait("far", "the server of far does not answer")
    second = live.state()
    assert [(each["role"], each["requests"]) for each in second["calls"]] == [("policy", 2), ("teacher", 1)]
    assert second["failures"][0]["count"] == 2 and second["waiting"] == ["the server of far does not answer"]
    assert live.state()["calls"] == second["calls"], "no line is counted twice"


def test_a_line_is_read_when_it_is_complete(going: GoingRun) -> None:
    live, file = LiveRun(going.folder), going.folder / "ledger/20260101T000000-aa/paid-x.jsonl"
    line = json.dumps({"id": "1", "role": "judge", "requests": 1, "tokens_in": 5, "tokens_out": 1, "cost_usd": 0.0})
    file.write_text(f"no JSON\n[1]\n{line[:20]}")
    assert live.state()["calls"] == []
    file.write_text(f"no JSON\n[1]\n{line}\n")
    [calls] = live.state()["calls"]
    assert (calls["role"], calls["tokens_in"]) == ("judge", 5)


def test_a_long_line_is_not_read_into_memory(going: GoingRun) -> None:
    file = going.folder / "ledger/20260101T000000-aa/paid-x.jsonl"
    line = json.dumps({"id": "1", "role": "judge", "requests": 1, "tokens_in": 5, "tokens_out": 1, "cost_usd": 0.0})
    file.write_text(f"{line}\n")
    with file.open("rb+") as stream:
        stream.truncate(2**28)  # a file with a hole takes no space on the disk
    tracemalloc.start()
    try:
        assert [each["role"] for each in LiveRun(going.folder).state()["calls"]] == ["judge"]
        assert [paid.id for paid in paid_in(file.parent)] == ["1"]
        assert tracemalloc.get_traced_memory()[1] < 50 * MAX_NOTE_BYTES
    finally:
        tracemalloc.stop()


def test_the_newest_run_of_the_folder_counts(going: GoingRun) -> None:
    live = LiveRun(going.folder)
    going.reply(1)
    assert live.state()["calls"][0]["requests"] == 1
    going.begin("20260102T000000-bb")
    assert live.state()["calls"] == []
    going.reply(2)
    assert live.state()["calls"][0]["requests"] == 1


def test_many_and_long_replies_are_limited(going: GoingRun) -> None:
    for number in range(MAX_REPLIES + 5):
        going.reply(number, "x" * (MAX_CHARS + 1))
    found = LiveRun(going.folder).state()["replies"]
    assert len(found) == MAX_REPLIES and all(len(each["text"]) == MAX_CHARS and each["is_shortened"] for each in found)


def test_a_reply_of_another_run_has_the_time_at_which_it_was_made(going: GoingRun) -> None:
    for number, made_s in enumerate((1_750_000_000.0, 1e300)):  # the second is no time
        reply = Completion("a", taken_from="look", made_s=made_s)
        going.cache.put([CacheEntry(f"{number:064x}", "policy", "attempt.v1", "m", 64, reply)])
    (shown,) = LiveRun(going.folder).state()["replies"]
    assert (shown["created"], shown["taken_from"]) == ("2025-06-15T15:06:40+00:00", "look") and shown["taken_at"]


def test_following_changes_no_file(going: GoingRun) -> None:
    going.reply(1)
    before = {file: file.read_bytes() for file in sorted(going.folder.rglob("*")) if file.is_file()}
    LiveRun(going.folder).state()
    assert {file: file.read_bytes() for file in sorted(going.folder.rglob("*")) if file.is_file()} == before


def test_the_command_serves_it_until_the_run_has_rows(going: GoingRun, run: Path) -> None:
    going.reply(1)
    code = "import sys; from groundtrace.pipelines.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "view", str(going.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = opener.open(address).read().decode()
        assert "uncommitted" in page
        url = address.partition("/?")[0] + "/api/live"
        assert json.load(opener.open(url))["calls"][0]["requests"] == 1
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url)
        shutil.copy(run / "run.json", going.folder)
        assert json.load(opener.open(url))["is_finished"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "has no finished run" in process.stderr.read()


@pytest.mark.browser
def test_the_page_follows_the_run(browser: Any, going: GoingRun, serve_app: Any) -> None:
    going.reply(1, "<img src=x onerror=alert(1)> is the first")
    guard = Guard()
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    printed = list[str]()
    page.on("console", lambda message: printed.append(message.text))
    page.on("pageerror", lambda error: printed.append(str(error)))
    page.goto(f"{serve_app(live_app(going.folder, guard))}/?token={guard.token}")
    page.wait_for_selector("#replies summary")
    assert "The run has not finished." in page.inner_text("#about")
    page.click("#replies summary")
    assert "<img src=x onerror=alert(1)> is the first" in page.inner_text("#replies pre")
    going.reply(2, "second", "teacher")
    page.wait_for_selector("td:text('teacher')")
    assert page.locator("#replies summary").count() == 1, "the list stays while a reply is read"
    page.click("#replies summary")
    going.reply(3, "third")
    limit_s = time.monotonic() + 15
    while page.locator("#replies summary").count() < 3:
        assert time.monotonic() < limit_s
        time.sleep(0.1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert printed == []
    page.close()


@pytest.mark.parametrize("name", ["ledger", "ledger/20260101T000000-aa", "cache/log", "cache"])
def test_nothing_is_followed_through_a_link_out_of_the_run(going: GoingRun, tmp_path: Path, name: str) -> None:
    going.reply(1)
    (tmp_path / "private").mkdir()
    (going.folder / name).rename(tmp_path / "private/data")
    (going.folder / name).symlink_to(tmp_path / "private/data")
    state = LiveRun(going.folder).state()
    assert (state["calls"] if "ledger" in name else state["replies"]) == []
