"""Replies taken over from another run are named, and ``--fresh`` uses none from before its command.

A server gave broken replies and was mended: what it said before is in the caches of earlier runs, and is not to come
into a run that was begun with ``--fresh``, which nevertheless pays for nothing twice.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.plan.freshness import (
    FRESH,
    FreshnessError,
    begin_fresh,
    fresh_since,
    is_unfinished_fresh,
)
from groundtrace.publishing.run_text import beside

from ..far_server import asking, right, said, serving

RECORDS, K = 4, 4
NAMED = "m-2026-01-01"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("data"), RECORDS)


def told(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text("utf-8"))


def broken(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A reply of no use, by another model than the one asked for."""
    status, reply = right(number, body)
    for choice in reply["choices"]:
        choice["message"]["content"] = "I cannot see"
    return status, reply | {"model": NAMED}


def halting(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return right(number, body) if number < 2 else said(401, "expired")


@pytest.mark.slow
def test_replies_of_another_run_are_named_and_refused(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(broken) as server:
        words, port = asking(server.url, max_concurrency=1), server.server_port
        first = run_beam(data, Path("runs/look0"), *words)
        assert (first.code, len(server.seen)) == (0, RECORDS), first.err
        note = f"note: far was asked for m, but its replies name {NAMED} ({RECORDS * K} replies)"
        assert note in first.out.splitlines()
        assert told(tmp_path / "runs/look0")["taken_over"] == {}

        copied = run_beam(data, Path("runs/copied"), *words)
        assert (copied.code, len(server.seen)) == (0, RECORDS), copied.err
        run = told(tmp_path / "runs/copied")
        from_look0 = run["taken_over"]["look0"]
        assert from_look0 == RECORDS * K
        assert f"{from_look0} replies from runs/look0 (--fresh ignores earlier replies)" in copied.out.splitlines()
        assert note in copied.out.splitlines(), "a reply from a cache is another model's as well"
        assert run["answered"] == {"far": {"asked": "m", "answered": {NAMED: RECORDS * K}}}

    with serving(halting, port=port) as server:
        halted = run_beam(data, Path("runs/copied"), "--fresh", *words)
        assert halted.code == 2 and len(server.seen) > 2, "it begins anew, whatever its folder has"
        assert "; --fresh goes on with the replies since 20" in halted.err

    with serving(right, port=port) as server:
        done = run_beam(data, Path("runs/copied"), "--fresh", *words)
        assert (done.code, len(server.seen)) == (0, RECORDS - 2), "what it paid for before it stopped is not paid again"
        run = told(tmp_path / "runs/copied")
        assert (run["taken_over"], run["answered"]) == ({}, {})
        assert f"fresh: no reply from before {run['fresh_since']} was used" in done.out.splitlines()

        taken = run_beam(data, Path("runs/full"), *words)
        assert (taken.code, len(server.seen)) == (0, RECORDS - 2), taken.err
        assert list(told(tmp_path / "runs/full")["taken_over"]) == ["copied"], "the fresh ones are the newest"
        assert told(tmp_path / "runs/full")["answered"] == {}

        anew = run_beam(data, Path("runs/copied"), "--fresh", "--cache", "runs/copied/cache", *words)
        assert (anew.code, len(server.seen)) == (0, 2 * RECORDS - 2), "a finished one is begun anew, in any cache"


def finish(run: Path, since: str, **more: Any) -> None:
    (run / "run.json").write_text(json.dumps({"fresh_since": since, **more}), "utf-8")


def test_when_a_fresh_run_goes_on(tmp_path: Path) -> None:
    assert (fresh_since(tmp_path), is_unfinished_fresh(tmp_path)) == ("", False)
    finish(tmp_path, "")
    begin_fresh(tmp_path)
    first = fresh_since(tmp_path)
    begin_fresh(tmp_path)
    assert first and fresh_since(tmp_path) == first, "the run that stands there is an earlier one"
    finish(tmp_path, first, budget={"used_up": True})
    begin_fresh(tmp_path)
    assert fresh_since(tmp_path) == first, "a larger budget goes on"
    finish(tmp_path, first, budget={"used_up": False})
    begin_fresh(tmp_path)
    assert fresh_since(tmp_path) > first
    (tmp_path / "run.json").write_text("[", "utf-8")
    assert is_unfinished_fresh(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"since": 3}', '{"since": "yesterday"}', "\xff"])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FRESH).write_bytes(text.encode("latin-1"))
    for ask in (fresh_since, begin_fresh):
        with pytest.raises(FreshnessError, match=rf"{FRESH} is damaged \(.+\): remove this file"):
            ask(tmp_path)


def test_the_name_of_a_run_is_as_the_user_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs/new").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert beside("runs/new", "look0") == "runs/look0"
    assert beside("runs/new/", "look0") == "runs/look0"
    assert beside(str(tmp_path / "runs/new"), "look0") == str(tmp_path / "runs/look0")
    monkeypatch.chdir(tmp_path / "runs/new")
    assert beside(".", "look0") == "../look0"
