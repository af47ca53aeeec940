"""The server of a view over HTTP: who may use it, what it returns, and what it keeps."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.filters import OUTDATED, Filters
from groundtrace.publishing.view.guard import HEADERS, Guard
from groundtrace.publishing.view.images import NoImage, RowImages
from groundtrace.publishing.view.replays import Replays
from groundtrace.publishing.view.reviews import FILE, Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.publishing.view.server import ViewServer, state_of
from groundtrace.vision.media import MediaStore

from .viewed import sft_row, write_run

TRACE: dict[str, Any] = {"text": "", "answer": "1", "score": 0.5, "verdicts": []}
Client = TestClient[web.Request, web.Application]
Use = Callable[[Client, Guard], Awaitable[Any]]


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Callable[[Use], Any]:
    """Serves a copy of a real run, and gives a client and the guard to a coroutine function."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("cache"))

    async def use(work: Use) -> Any:
        rows, guard = ViewedRows(folder), Guard()
        images = RowImages(MediaStore(rows.summary.input, str(folder), cache_bytes=0))
        app = ViewServer(folder, rows, images, Reviews(folder), guard).app()
        async with TestClient(TestServer(app)) as client:
            return await work(client, guard)

    return lambda work: asyncio.run(use(work))


def rewrite_shard(folder: Path) -> None:
    """Write a shard again, as a repeated run does."""
    shard = next((folder / "sft").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes())


async def enter(client: Client, guard: Guard) -> None:
    response = await client.get(f"/?set=sft&token={guard.token}", allow_redirects=False)
    assert (response.status, response.headers["Location"]) == (303, "/?set=sft")
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and guard.token not in cookie


def test_only_the_browser_with_the_token_gets_in(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> None:
        paths = ("/", "/page.js", "/api/run", "/api/rows", "/image/0/images/0", "/thumbnail/0", "/api/ids", "/no")
        for path in paths:
            assert (await client.get(path)).status == 403, path
        for token in ("", "x", guard.token[:-1], guard.token + "x"):
            assert (await client.get(f"/?token={token}", allow_redirects=False)).status == 403
        await enter(client, guard)
        for path in paths[:-1]:
            response = await client.get(path)
            assert response.status == 200, path
            assert {name: response.headers[name] for name in HEADERS} == HEADERS

    served(work)


def test_a_repeated_run_is_not_mixed_with_the_rows_that_were_read(served: Callable[[Use], Any], tmp_path: Path) -> None:
    """The places of the rows are those of the first run, so the page would show the images of other records."""
    summary = tmp_path / "run" / "run.json"

    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        text = summary.read_text("utf-8")
        summary.write_text(text, "utf-8")  # the same run, for example fetched again from a store
        assert (await client.get("/api/rows")).status == 200
        assert (await client.get("/api/changed")).status == 204
        rewrite_shard(tmp_path / "run")
        for path in ("/api/changed", "/api/rows", "/api/record?id=x", "/image/0/images/0", "/thumbnail/0"):
            response = await client.get(path)
            assert response.status == 410, path
            assert "was changed after `beam view` had read it: reload this page" in await response.text()
        assert (await client.get("/page.js")).status == 200

    served(work)


def test_a_page_of_an_earlier_opening_gets_nothing(served: Callable[[Use], Any]) -> None:
    """Another tab may have had the run read again: the numbers of rows on the first page are those of other files."""

    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        opening = (await (await client.get("/api/run")).json())["opening"]
        for path in ("/api/rows?set=sft&", "/thumbnail/0?", "/image/0/images/0?"):
            assert (await client.get(f"{path}opening={opening}")).status == 200, path
            response = await client.get(f"{path}opening=0123")
            assert response.status == 410 and (await response.text()).endswith("had been loaded: reload this page")
        assert (await client.get("/page.js?opening=0123")).status == 200

    served(work)


@pytest.mark.parametrize("error", [None, NoImage("gone"), InspectError("cannot read")])
def test_what_was_read_while_the_run_was_replaced_is_not_shown(
    served: Callable[[Use], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    def thumbnail(*_: Any) -> tuple[str, bytes]:
        rewrite_shard(tmp_path / "run")
        if error is not None:
            raise error
        return "image/png", b"of another run"

    monkeypatch.setattr(RowImages, "thumbnail", thumbnail)

    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        response = await client.get("/thumbnail/0")
        assert response.status == 410 and "reload this page" in await response.text()

    served(work)


def test_a_replay_of_a_run_that_was_replaced_meanwhile_is_not_shown(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("cache"))

    async def replayed(*_: Any) -> dict[str, Any]:
        rewrite_shard(folder)
        return {"set": "rejected"}

    monkeypatch.setattr(Replays, "of", replayed)

    async def work() -> None:
        rows, guard = ViewedRows(folder), Guard()
        images = RowImages(MediaStore("", str(folder), cache_bytes=0))
        app = ViewServer(folder, rows, images, Reviews(folder), guard, replays=Replays(folder)).app()
        async with TestClient(TestServer(app)) as client:
            await enter(client, guard)
            (record_id, *_) = rows.ids(Filters())
            headers = {"Origin": f"http://{client.host}:{client.port}"}
            response = await client.post("/api/replay", json={"id": record_id}, headers=headers)
            assert response.status == 410 and "reload this page" in await response.text()
        rows.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:80", 403),
        ("10.0.0.1", 403),
        ("", 403),
        ("[", 403),
        ("localhost:9000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
    ],
)
def test_the_host_header_must_name_this_machine(served: Callable[[Use], Any], host: str, status: int) -> None:
    async def work(client: Client, guard: Guard) -> int:
        await enter(client, guard)
        return (await client.get("/api/run", headers={"Host": host})).status

    assert served(work) == status


def test_changes_come_from_the_page_alone(served: Callable[[Use], Any], tmp_path: Path) -> None:
    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        origin = str(client.make_url("/")).rstrip("/")
        ids = (await (await client.get("/api/ids")).text()).splitlines()
        body = {"ids": [json.loads(ids[0])], "flagged": True}
        for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            assert (await client.post("/api/mark", json=body, headers=headers)).status == 403
        plain = {"Origin": origin, "Content-Type": "text/plain"}
        assert (await client.post("/api/mark", data=json.dumps(body), headers=plain)).status == 403
        assert not (tmp_path / "run" / FILE).exists()
        response = await client.post("/api/mark", json=body, headers={"Origin": origin})
        assert response.status == 200 and [each["flagged"] for each in await response.json()] == [True]
        rows = await (await client.get("/api/rows?flagged=true")).json()
        assert [row["id"] for row in rows["rows"]] == body["ids"]
        note = {"ids": body["ids"], "note": "look", "tags": ["odd"]}
        await client.post("/api/mark", json=note, headers={"Origin": origin})
        mark = Reviews(tmp_path / "run").of(body["ids"][0])
        assert (mark.flagged, mark.note, mark.tags) == (True, "look", ("odd",))
        for wrong in (
            {"ids": body["ids"] * 10_001, "flagged": True},
            {"ids": ["none"]},
            {"ids": body["ids"], "flagged": 1},
            {"ids": body["ids"], "tags": [1]},
            [],
            {"ids": body["ids"], "tags": "ab"},
            {"ids": body["ids"], "tags": ["\ud83d"]},
            {"ids": body["ids"], "note": "half \ud83d"},
            {"ids": body["ids"][0], "flagged": True},
            *({"ids": [each], "flagged": True} for each in (105, {}, [1], True, None, "\ud83d")),
        ):
            assert (await client.post("/api/mark", json=wrong, headers={"Origin": origin})).status == 400
        for wrong, said in (
            ({}, "the request has no key ids: add it"),
            ({**body, "flag": True}, "the request has unknown keys (flag): use only ids, fla"),
        ):
            response = await client.post("/api/mark", json=wrong, headers={"Origin": origin})
            assert response.status == 400 and said in await response.text()
        known = [json.loads(each) for each in ids]
        for asked in ([*known, "none"], known):
            response = await client.post("/api/mark", json={"ids": asked, "flagged": True}, headers={"Origin": origin})
            assert response.status == (200 if asked is known else 400)
        assert [each["id"] for each in await response.json()] == known
        assert len((tmp_path / "run" / FILE).read_text("utf-8").splitlines()) == 2 + len(known)

    served(work)


def test_a_mark_of_a_row_that_has_changed_is_shown_as_such_and_can_be_filtered(run: Path, tmp_path: Path) -> None:
    """Flags that were set in the list, too, and those of rows that moved to another set."""
    ids, rejected = ["moved", "changed", "same"], {"stage": "verify", "reason": "low_score", "media": []}
    first = write_run(tmp_path / "run", run, {"sft": [sft_row(each) for each in ids]})
    moved = rejected | {"id": "moved", "traces": [TRACE | {"text": sft_row("x")["messages"][-1]["content"]}]}
    sets = {"sft": [sft_row("same"), sft_row("changed", trace="<answer>2</answer>")], "rejected": [moved]}
    second = write_run(tmp_path / "again", run, sets)

    async def marked(folder: Path, changed: list[str]) -> tuple[list[str], dict[str, str]]:
        rows, guard, reviews = ViewedRows(folder), Guard(), Reviews(folder)
        rows.mark(reviews)
        images = RowImages(MediaStore("", str(folder), cache_bytes=0))
        async with TestClient(TestServer(ViewServer(folder, rows, images, reviews, guard).app())) as client:
            await enter(client, guard)
            headers = {"Origin": f"http://{client.host}:{client.port}"}
            if changed:
                response = await client.post("/api/mark", json={"ids": changed, "flagged": True}, headers=headers)
                assert response.status == 200
            found = await (await client.get("/api/rows", params={OUTDATED: "true"})).json()
            records = [await (await client.get("/api/record", params={"id": each})).json() for each in ids]
        rows.close()
        return [row["id"] for row in found["rows"]], {each["id"]: each["mark"]["outdated"] for each in records}

    assert asyncio.run(marked(first, ids)) == ([], dict.fromkeys(ids, ""))
    shutil.copytree(first / "reviews", second / "reviews")
    outdated, said = asyncio.run(marked(second, []))
    assert outdated == ["changed", "moved"] and said["same"] == ""
    assert said["moved"] == "The flag was set on another version of this row, which was in sft."
    assert said["changed"] == "The flag was set on another version of this row, which had another trace."
    assert asyncio.run(marked(second, ["moved"]))[0] == ["changed"]


def test_without_an_audit_there_are_no_routes_of_one(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> int:
        await enter(client, guard)
        return (await client.get("/api/audit")).status

    assert served(work) == 404


def test_errors_are_one_line_with_a_status(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> dict[str, tuple[int, str]]:
        await enter(client, guard)
        found = {}
        for path in (
            "/api/rows?colour=red",
            "/api/rows?offset=-1",
            "/api/rows?q=a&q=b",
            "/api/record?id=none",
            "/thumbnail/999999",
            "/image/0/images/9",
        ):
            response = await client.get(path)
            found[path] = response.status, await response.text()
        return found

    found = served(work)
    assert [status for status, _ in found.values()] == [400, 400, 400, 404, 404, 404]
    assert all(text and "\n" not in text and "Traceback" not in text for _, text in found.values())


def test_replies_of_a_run_without_its_cache_are_refused_in_one_line(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> list[tuple[int, str]]:
        await enter(client, guard)
        rows = (await (await client.get("/api/rows?set=sft")).json())["rows"]
        asked = [await client.get("/api/replies", params={"id": each}) for each in (rows[0]["id"], "none", "")]
        return [(each.status, await each.text()) for each in asked]

    found = served(work)
    assert [status for status, _ in found] == [409, 404, 404]
    assert "the run used another cache (--cache)" in found[0][1] and "\n" not in found[0][1]


def test_a_record_has_its_neighbours_and_its_images(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        rows = (await (await client.get("/api/rows?set=sft&sort=-k")).json())["rows"]
        record = await (
            await client.get("/api/record", params={"id": rows[1]["id"], "set": "sft", "sort": "-k"})
        ).json()
        assert (record["position"], record["before"], record["after"]) == (2, rows[0]["id"], rows[2]["id"])
        for image in record["images"]:
            response = await client.get(f"/image/{record['n']}/{image['column']}/{image['index']}")
            assert (response.status, response.content_type) == (200, "image/png")

    served(work)


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ("", []),
        ("set=rl&id=a%26b", [("set", "rl"), ("id", "a&b")]),
        ("http://127.0.0.1:8600/?q=%3F&view=table", [("q", "?"), ("view", "table")]),
        ("?reason=", [("reason", "")]),
        ("set=rejected&q=How many?", [("set", "rejected"), ("q", "How many?")]),
        ("?q=a/?://&set=rl", [("q", "a/?://"), ("set", "rl")]),
        ("/?set=rl&q=what?", [("set", "rl"), ("q", "what?")]),
        ("http://127.0.0.1:8600/", []),
        ("file:///x/copy/index.html#set=rejected", [("set", "rejected")]),
        ("set=rejected&q=http://a/b?c", [("set", "rejected"), ("q", "http://a/b?c")]),
    ],
)
def test_a_state_is_read_from_an_address(given: str, items: list[tuple[str, str]]) -> None:
    assert state_of(given) == items


@pytest.mark.slow
def test_a_replay_needs_a_known_record_and_the_origin_of_the_page(run: Path) -> None:
    async def work() -> None:
        rows, guard = ViewedRows(run), Guard()
        images = RowImages(MediaStore("", str(run), cache_bytes=0))
        app = ViewServer(run, rows, images, Reviews(run), guard, replays=Replays(run, "/no_such_pipeline.py")).app()
        async with TestClient(TestServer(app)) as client:
            await enter(client, guard)
            (row, *_) = (await (await client.get("/api/rows")).json())["rows"]
            origin = f"http://{client.host}:{client.port}"
            about = await (await client.get("/api/run")).json()
            assert about["has_replay"] and about["floors"]["spatial"] == 1.0
            assert (await client.post("/api/replay", json={"id": row["id"]})).status == 403
            assert (await client.get(f"/api/replay?id={row['id']}")).status == 405
            for body, status in (
                ({}, 400),
                ([], 400),
                ({"id": "nobody"}, 404),
                ({"id": "\ud800"}, 404),
                ({"id": row["id"]}, 409),
            ):
                response = await client.post("/api/replay", json=body, headers={"Origin": origin})
                assert response.status == status, body
            said = await response.text()
            assert (
                "cannot be repeated for this record, because there is no file '/no_such_pipeline.py'" in said
                and "\n" not in said
            )
        rows.close()

    asyncio.run(work())


def test_a_view_without_replays_has_no_such_path(served: Callable[[Use], Any]) -> None:
    async def work(client: Client, guard: Guard) -> None:
        await enter(client, guard)
        assert not (await (await client.get("/api/run")).json())["has_replay"]
        headers = {"Origin": f"http://{client.host}:{client.port}"}
        assert (await client.post("/api/replay", json={"id": "x"}, headers=headers)).status == 404

    served(work)
