"""What the reward server refuses: bad bodies, other runs, and who may ask."""

import gzip
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.rewards import server
from groundtrace.publishing.rewards.row_reward import RowReward

from .serving import items_of, raw_post
from .worlds import Written

Write = Callable[..., Written]


GOOD = {"id": "x", "response": "y"}
BAD_BODIES = [
    (b"", "the request's body is not JSON"),
    (b"{", "the request's body is not JSON"),
    (b"[" * 100_000, "the request's body is not JSON"),
    (b'{"items": "\xff"}', "the request's body is not UTF-8 text (byte 11"),
    (b"\xff\xfe{\x00}\x00", "the request's body is not UTF-8"),
    ([GOOD], "the request's body must be a JSON object"),
    ({}, 'the field "items" must be a list with at least one item'),
    ({"items": []}, 'the field "items" must be a list with at least one item'),
    ({"items": {}}, 'the field "items" must be a list with at least one item'),
    ({"items": [GOOD], "is_step": 1}, 'the field "is_step" must be true or false'),
    ({"items": [GOOD], "config": "/etc"}, "the field 'config' is unknown: the known fields are is_step, items"),
    ({"items": ["x"]}, "items[0]: the item must be a JSON object"),
    ({"items": [{"id": "x"}]}, 'items[0]: the item must have the field "response" with a text'),
    ({"items": [GOOD | {"folder": "/"}]}, "items[0]: the field 'folder' is unknown"),
    ({"items": [{"id": "x", "response": None}]}, 'items[0]: the item must have the field "response" with a text'),
    ({"items": [{"id": 3, "response": "y"}]}, 'items[0]: the field "id" must be a text'),
    ({"items": [{"response": "y"}]}, 'items[0]: the item must have exactly one of the fields "reference" and "id"'),
    (
        {"items": [GOOD | {"reference": "{}"}]},
        'items[0]: the item must have exactly one of the fields "reference" and "id"',
    ),
    ({"items": [{"reference": "B", "response": "y"}]}, "items[0]: the row's reference is not JSON"),
    (
        {"items": [{"reference": 7, "response": "y"}]},
        "items[0]: the row's reference must be a JSON object with a text in the field 'answer'",
    ),
    (
        b'{"items": [], "items": [{"id": "x", "response": "y"}]}',
        "an object in the request's body has the field 'items' twice",
    ),
    (
        b'{"items": [{"id": "a", "id": "x", "response": "y"}]}',
        "an object in the request's body has the field 'id' twice",
    ),
    (b'{"items": [{"id": "x", "response": "\\ud83d"}]}', 'items[0]: the field "response" has an unpaired surrogate'),
    (b'{"items": [{"id": "\\udc00", "response": "y"}]}', 'items[0]: the field "id" has an unpaired surrogate'),
    ({"items": [GOOD]}, "items[0]: cannot identify the row, because no row of rl has the id 'x'"),
    ({"items": [GOOD | {"id": "\0"}]}, "items[0]: cannot identify the row, because no row of rl has the id '\\x00'"),
    ({"items": [GOOD | {"stream": "up"}]}, "items[0]: cannot identify the row, because no row of rl has the id 'x'"),
    ({"items": [GOOD] * 9}, "the request has 9 responses, but at most 8 are allowed"),
]


@pytest.mark.parametrize(("body", "said"), BAD_BODIES, ids=[f"{n}-{said}" for n, (_, said) in enumerate(BAD_BODIES)])
def test_a_bad_request_says_what_is_wrong_with_which_item(body: Any, said: str, write: Write, serve: Any) -> None:
    status, found, _ = serve(write("argos"), max_batch=8).post("/score", body)
    assert status == (413 if "at most 8" in said else 400)
    assert said in found["error"]["message"]
    assert found["error"].get("item", "none") == (0 if said.startswith("items[0]") else "none")


BAD_QUERIES = [
    (
        {"query": ["ab"], "prompts": ["b"], "labels": ["{}"]},
        'items[0]: the text in "query" does not begin with the text in "prompts": send each query as its prompt, ',
    ),
    ({"query": ["ab"], "prompts": ["a"], "labels": ["B"]}, "items[0]: the row's reference is not JSON"),
    ({"query": ["ab"], "prompts": ["a"]}, 'the field "labels" must be a list of texts'),
    ({"query": "ab", "prompts": ["a"], "labels": ["B"]}, 'the field "query" must be a list of texts'),
    (
        {"query": ["ab"], "prompts": ["a", "a"], "labels": ["B"]},
        'the field "prompts" has 2 texts, but the field "query" has 1',
    ),
]


@pytest.mark.parametrize(("body", "said"), BAD_QUERIES, ids=[said for _, said in BAD_QUERIES])
def test_a_bad_request_in_openrlhfs_form(body: Any, said: str, write: Write, serve: Any) -> None:
    status, found, _ = serve(write("argos")).post("/get_reward", body)
    assert status == 400
    assert said in found["error"]["message"]


def test_a_body_of_ten_megabytes(write: Write, serve: Any) -> None:
    served = serve(write("argos"))
    status, found, _ = served.post("/score", b" " * 10_000_000)
    assert (status, found["error"]["type"]) == (413, "too_large")
    assert served.health()["status"] == "ready"


def test_a_body_that_does_not_come(write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.1)
    served = serve(write("argos"))
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(b"{" + b" " * 8)[:-8])
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x"])
def test_a_packed_body_is_not_unpacked(encoding: str, write: Write, serve: Any) -> None:
    """A bomb of 300 KB held the server for seconds, and broken packing was taken for a defect of ours."""
    served = serve(write("argos"))
    for body in (gzip.compress(b" " * 10_000_000), b"no gzip"):
        status, found, _ = served.post("/score", body, **{"Content-Encoding": encoding})
        assert (status, found["error"]["type"]) == (415, "not_json")


def test_a_head_that_does_not_end(write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.3)
    served = serve(write("argos"))
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(b"POST /score HTTP/1.1\r\nHost: ")
        assert client.recv(100) == b""


def test_the_bodies_that_are_held_are_bounded(write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that do not come to their end; afterwards there is room again."""
    monkeypatch.setattr(server, "MAX_HELD_BYTES", 3000)
    found = write("argos")
    served = serve(found)
    body = json.dumps({"items": items_of(found)[:1]}).encode()
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(b"{" + b" " * 2990)[:-100])
        served.wait_until(held_bytes=2991)
        status, said, headers = served.post("/score", body)
        assert (status, said["error"]["type"], headers["retry-after"]) == (429, "busy", "1")
    served.wait_until(held_bytes=0)
    assert served.post("/score", body)[0] == 200


def test_what_is_no_http_leaves_no_trace_in_the_log(write: Write, serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    served = serve(write("argos"))
    for junk in (b"GET /\0 HTTP/1.1\r\n\r\n", b"POST /score HTTP/1.1\r\nContent-Length: my-key\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port), 10) as client:
            client.sendall(junk)
            assert client.recv(100).startswith(b"HTTP/1.0 400 ")
    assert caplog.text == ""


def test_a_client_that_goes_within_its_body_is_no_defect(
    write: Write, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(write("argos"))
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(b"{" + b" " * 80)[:-20])
        served.wait_until(held_bytes=81)
    served.wait_until(held_bytes=0)
    assert "a request failed" not in caplog.text


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_no_page_in_a_browser_can_post(content_type: str, write: Write, serve: Any) -> None:
    status, found, _ = serve(write("argos")).post("/score", {"items": [GOOD]}, **{"Content-Type": content_type})
    assert (status, found["error"]["type"]) == (415, "not_json")


@pytest.mark.parametrize("path", ["/", "/scores", "/health", "/../etc/passwd"])
def test_another_path(path: str, write: Write, serve: Any) -> None:
    status, found, _ = serve(write("argos")).post(path, {"items": [GOOD]})
    assert (status, found["error"]["type"]) == (405 if path == "/health" else 404, "http")


@pytest.mark.parametrize("run", ["other", "../other", "run/../other", "/etc", "~", "\0", "file:///", "OTHER"])
def test_only_the_servers_runs_are_read(run: str, write: Write, serve: Any, tmp_path: Path) -> None:
    """Also a run that stands beside them, and whose folder a client knows."""
    found, other = write("argos"), write("argos", "qwen2.5-vl")
    named = str(other.run) if run == "OTHER" else run
    item = {"id": found.references[0].id, "run": named, "response": "x"}
    status, said, _ = serve(found).post("/score", {"items": [item]})
    assert status == 400
    assert said["error"]["message"].startswith("items[0]: the run ")
    advice = "Add the folder of the unknown run to the section [runs] of the reward's config"
    assert said["error"]["message"].endswith(f"is unknown: the known runs are run. {advice}")


@pytest.mark.parametrize(
    ("name", "said"), [("ivgr", "compares all responses"), ("rucl", "learns from whole training steps")]
)
@pytest.mark.parametrize("path", ["/score", "/get_reward"])
def test_a_recipe_that_needs_a_step_is_refused_without_one(
    path: str, name: str, said: str, write: Write, serve: Any
) -> None:
    found = write(name)
    reference, text = found.items[0]
    body: Any = {"items": items_of(found)}
    if path == "/get_reward":
        body = {"query": [text], "prompts": [""], "labels": [reference]}
    status, answer, _ = serve(found).post(path, body)
    assert (status, answer["error"]["type"]) == (400, "recipe")
    assert said in answer["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer no"}, 401), ({"Authorization": "Bearer é"}, 401),
     ({"Authorization": "Bearer s3cret"}, 200)],
)  # fmt: skip
def test_a_token(headers: dict[str, str], status: int, write: Write, serve: Any) -> None:
    found = write("argos")
    served = serve(found, token="s3cret")
    answered, said, _ = served.post("/score", {"items": items_of(found)[:1]}, **headers)
    assert answered == status
    assert "s3cret" not in json.dumps(said)
    assert served.health()["rows"] == len(found.prompts)


def test_a_defect_is_an_error_and_never_a_number(
    write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client learns its type, and the server's own output where it is."""

    async def breaks(*_: object) -> None:
        raise ZeroDivisionError("of something private")

    monkeypatch.setattr(RowReward, "attempt", breaks)
    found = write("argos")
    status, said, _ = serve(found).post("/score", {"items": items_of(found)[:1]})
    assert (status, said["error"]["type"]) == (500, "internal")
    assert "ZeroDivisionError" in said["error"]["message"]
    assert "private" not in said["error"]["message"]
    assert "private" in caplog.text
