"""The reward server: our own trainer's scores over HTTP, and an error wherever there is no score."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from inference.runtime import runtime
from pipelines.commands.serve_reward import started
from publishing.rewards import server
from publishing.rewards.row_reward import RowReward
from publishing.rewards.server import Bounds
from publishing.rewards.settings import load_reward_settings

from ...trainer.runs import Judge
from .worlds import WORLDS, Written

Write = Callable[..., Written]
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Served:
    """A server on the loopback interface."""

    port: int

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers of the answer; a body that is no bytes is sent as JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, JSON | headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found, {name.lower(): value for name, value in answer.getheaders()}

    def health(self) -> dict[str, Any]:
        """What ``/health`` says."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/health")
        found = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def wait_until(self, **counts: int) -> None:
        """Wait until ``/health`` says so."""
        until = time.monotonic() + 10
        while not counts.items() <= self.health().items():
            assert time.monotonic() < until, self.health()
            time.sleep(0.01)

    def together(self, path: str, bodies: Sequence[Any]) -> list[tuple[int, Any]]:
        """The answers to requests that are all sent at once."""

        async def all_of() -> list[tuple[int, Any]]:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", connector=connector) as session:

                async def one(body: Any) -> tuple[int, Any]:
                    async with session.post(path, json=body) as answer:
                        return answer.status, await answer.json()

                return await asyncio.gather(*map(one, bodies))

        return asyncio.run(all_of())


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serve the run of a world."""
    opened = []

    def served(found: Written, token: str = "", **bounds: Any) -> Served:
        reward = RowReward(load_reward_settings(str(found.config)), {"run": found.run})
        rows, _ = reward.open_run("run")
        runner, address = runtime().submit(started(reward, rows, Bounds(**bounds), token, "127.0.0.1", 0)).result()
        opened.append((runner, reward))
        return Served(int(address.rpartition(":")[2]))

    yield served
    for runner, reward in opened:
        runtime().submit(runner.cleanup()).result()
        reward.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A judge that answers when the event is set."""
    event, step = threading.Event(), Judge.step

    def waits(judge: Judge, body: dict[str, Any], key: str) -> tuple[int, str]:
        event.wait(20)
        return step(judge, body, key)

    monkeypatch.setattr(Judge, "step", waits)
    yield event
    event.set()


def raw_post(body: bytes) -> bytes:
    """A request for ``/score`` as it goes over the wire."""
    lines = (
        "POST /score HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


def items_of(found: Written) -> list[dict[str, str]]:
    return [{"reference": reference, "response": text} for reference, text in found.items]


@pytest.mark.parametrize("name", WORLDS)
def test_the_same_scores_as_in_our_own_trainer(name: str, write: Write, serve: Any, tmp_path: Path) -> None:
    found = write(name, "qwen2.5-vl")
    served = serve(found)
    for step in found.by_trainer(tmp_path / "own", steps=2):
        status, said, _ = served.post("/score", {"items": items_of(found), "is_step": True})
        assert (status, said["recipe"], len(said["scores"])) == (200, name, len(step))
        for each, scored in zip(said["scores"], step, strict=True):
            assert abs(each["reward"] - scored.reward) <= 1e-9
            assert (each["outcome"], set(each["verdicts"])) == (scored.outcome, {v.name for v in scored.verdicts})


def test_an_item_may_name_its_row_by_id(write: Write, serve: Any) -> None:
    found = write("argos")
    row, [text, *_] = found.references[0], found.said[0]
    for item in (
        {"reference": json.loads(row.text()), "response": text},
        {"id": row.id, "family": "qwen3-vl", "response": text},
        {"id": row.id, "family": "qwen3-vl", "response": text, "run": "run"},
        {"id": row.id, "family": "qwen3-vl", "response": text, "run": str(found.run)},
    ):
        status, said, _ = serve(found).post("/score", {"items": [item]})
        assert (status, said["scores"][0]["reward"]) == (200, 1.0)
    status, said, _ = serve(found).post("/score", {"items": [{"id": row.id, "response": text}]})
    assert said["scores"][0]["reward"] != 1.0, "without a family it is read as pixels"


PAD = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.mark.parametrize("end", ["", "<|im_end|>", "<|im_end|>\n"])
def test_openrlhfs_form(end: str, write: Write, serve: Any, tmp_path: Path) -> None:
    """Its query repeats the mark of an image for each of its tokens, and ends as the model's answer did."""
    found = write("argos")
    prompt = f"<|im_start|>user\n{PAD}How many?<|im_end|>\n<|im_start|>assistant\n"
    seen = prompt.replace("<|image_pad|>", "<|image_pad|>" * 20)
    body = {
        "query": [seen + text + end for _, text in found.items],
        "prompts": [prompt] * len(found.items),
        "labels": [reference for reference, _ in found.items],
    }
    status, said, _ = serve(found).post("/get_reward", body)
    [expected] = found.by_trainer(tmp_path / "own")
    assert (status, said["extra_logs"]) == (200, {})
    assert said["rewards"] == pytest.approx([each.reward for each in expected], abs=1e-9)
    assert said["scores"] == [each.outcome for each in expected]


GOOD = {"id": "x", "response": "y"}
BAD_BODIES = [
    (b"", "the body is not JSON"),
    (b"{", "the body is not JSON"),
    (b"[" * 100_000, "the body is not JSON"),
    (b'{"items": "\xff"}', "the body is not UTF-8: byte 11"),
    (b"\xff\xfe{\x00}\x00", "the body is not UTF-8"),
    ([GOOD], "the body must be a JSON object"),
    ({}, '"items" must be a list that is not empty'),
    ({"items": []}, '"items" must be a list that is not empty'),
    ({"items": {}}, '"items" must be a list that is not empty'),
    ({"items": [GOOD], "is_step": 1}, '"is_step" must be true or false'),
    ({"items": [GOOD], "config": "/etc"}, "unknown field 'config'; known are is_step, items"),
    ({"items": ["x"]}, "items[0]: it must be an object"),
    ({"items": [{"id": "x"}]}, 'items[0]: it has no text "response"'),
    ({"items": [GOOD | {"folder": "/"}]}, "items[0]: unknown field 'folder'"),
    ({"items": [{"id": "x", "response": None}]}, 'items[0]: it has no text "response"'),
    ({"items": [{"id": 3, "response": "y"}]}, 'items[0]: its "id" is no text'),
    ({"items": [{"response": "y"}]}, 'items[0]: it must have either "reference" or "id"'),
    ({"items": [GOOD | {"reference": "{}"}]}, 'items[0]: it must have either "reference" or "id"'),
    ({"items": [{"reference": "B", "response": "y"}]}, "items[0]: the row's reference is not JSON"),
    ({"items": [{"reference": 7, "response": "y"}]}, "items[0]: the row's reference has no text 'answer'"),
    ({"items": [GOOD | {"response": "y" * 200_001}]}, "items[0]: its response has 200001 characters"),
    (b'{"items": [{"id": "x", "response": "\\ud83d"}]}', 'items[0]: its "response" holds half a character at 0'),
    (b'{"items": [{"id": "\\udc00", "response": "y"}]}', 'items[0]: its "id" holds half a character at 0'),
    ({"items": [GOOD]}, "items[0]: no row of rl has the id 'x'"),
    ({"items": [GOOD | {"id": "\0"}]}, "items[0]: no row of rl has the id '\\x00'"),
    ({"items": [GOOD | {"stream": "up"}]}, "items[0]: no row of rl has the id 'x'"),
    ({"items": [GOOD] * 9}, "9 responses in one request, at most 8 are taken"),
]


@pytest.mark.parametrize(("body", "said"), BAD_BODIES, ids=[f"{n}-{said}" for n, (_, said) in enumerate(BAD_BODIES)])
def test_a_bad_request_says_what_is_wrong_with_which_item(body: Any, said: str, write: Write, serve: Any) -> None:
    status, found, _ = serve(write("argos"), max_batch=8).post("/score", body)
    assert status == (413 if "at most 8" in said else 400)
    assert said in found["error"]["message"]
    assert found["error"].get("item", "none") == (0 if said.startswith("items[0]") else "none")


BAD_QUERIES = [
    ({"query": ["ab"], "prompts": ["b"], "labels": ["{}"]}, "items[0]: the query does not begin with its prompt"),
    ({"query": ["ab"], "prompts": ["a"], "labels": ["B"]}, "items[0]: the row's reference is not JSON"),
    ({"query": ["ab"], "prompts": ["a"]}, '"labels" must be a list of texts'),
    ({"query": "ab", "prompts": ["a"], "labels": ["B"]}, '"query" must be a list of texts'),
    ({"query": ["ab"], "prompts": ["a", "a"], "labels": ["B"]}, '"prompts" has 2 texts, and "query" 1'),
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
    assert served.health()["status"] == "ok"


def test_a_body_that_does_not_come(write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.1)
    served = serve(write("argos"))
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(b"{" + b" " * 8)[:-8])
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")


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
    assert said["error"]["message"].startswith("items[0]: there is no run ")
    assert said["error"]["message"].endswith("here; known are run")


def test_64_clients_get_their_own_scores(write: Write, serve: Any, tmp_path: Path) -> None:
    found = write("argos")
    items = (items_of(found) * 2)[:64]
    [expected] = found.by_trainer(tmp_path / "own")
    wanted = [each.reward for each in expected * 2][:64]
    assert len(items) == 64
    answers = serve(found, max_scoring=8).together("/score", [{"items": [item]} for item in items])
    assert [status for status, _ in answers] == [200] * 64
    assert [said["scores"][0]["reward"] for _, said in answers] == pytest.approx(wanted, abs=1e-9)


def test_the_same_call_of_two_clients_is_made_once(write: Write, serve: Any, gate: threading.Event) -> None:
    found = write("sail_rl")
    served = serve(found)
    [first, *_] = items_of(found)
    threading.Timer(0.3, gate.set).start()
    answers = served.together("/score", [{"items": [first]}] * 8)
    assert {json.dumps(answer) for answer in answers} == {json.dumps(answers[0])}
    assert answers[0][0] == 200


def test_more_requests_than_may_wait(write: Write, serve: Any, gate: threading.Event) -> None:
    """Two are scored, three wait, the others are told to ask again; those that wait get their scores."""
    found = write("sail_rl")
    served = serve(found, max_scoring=2, max_waiting=3)
    threading.Timer(0.5, gate.set).start()
    answers = served.together("/score", [{"items": [item]} for item in items_of(found)[:8]])
    assert sorted(status for status, _ in answers) == [200] * 5 + [429] * 3
    refused = next(said for status, said in answers if status == 429)
    assert refused["error"]["type"] == "busy"
    assert served.post("/score", {"items": items_of(found)[:1]})[0] == 200


def test_a_client_is_told_when_to_come_back(write: Write, serve: Any, gate: threading.Event) -> None:
    found = write("sail_rl")
    served = serve(found, max_scoring=1, max_waiting=0)
    asking = threading.Thread(target=served.post, args=("/score", {"items": items_of(found)[:1]}))
    asking.start()
    served.wait_until(scoring=1)
    status, _, headers = served.post("/score", {"items": items_of(found)[:1]})
    gate.set()
    asking.join()
    assert (status, headers["retry-after"]) == (429, "1")


def test_a_client_that_goes_while_it_waits_is_not_scored(write: Write, serve: Any, gate: threading.Event) -> None:
    found = write("sail_rl")
    served = serve(found, max_scoring=1)
    asking = threading.Thread(target=served.post, args=("/score", {"items": items_of(found)[:1]}))
    asking.start()
    served.wait_until(scoring=1)
    body = json.dumps({"items": items_of(found)[1:3]}).encode()
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(body))
        served.wait_until(waiting=1)
    gate.set()
    asking.join()
    served.wait_until(waiting=0, scoring=0)
    assert served.health()["scored"] == 1


def test_a_client_that_goes_while_it_is_scored_harms_no_other(write: Write, serve: Any, gate: threading.Event) -> None:
    """Both wait for one call of the judge; the first asked for it."""
    found = write("sail_rl")
    served = serve(found)
    body = json.dumps({"items": items_of(found)[:1]}).encode()
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(raw_post(body))
        served.wait_until(scoring=1)
        threading.Timer(0.3, gate.set).start()
    status, said, _ = served.post("/score", body)
    assert (status, said["scores"][0]["outcome"]) == (200, 1.0)


def test_a_judge_that_takes_too_long(write: Write, serve: Any, gate: threading.Event) -> None:
    """The client is told to come back, and then has its score, for which nothing is asked again."""
    found = write("sail_rl")
    served = serve(found, timeout_s=0.2)
    status, said, headers = served.post("/score", {"items": items_of(found)[:1]})
    assert (status, said["error"]["type"], headers["retry-after"]) == (504, "timeout", "5")
    assert "scores" not in said
    gate.set()
    served.wait_until(scoring=0)
    status, said, _ = served.post("/score", {"items": items_of(found)[:1]})
    assert (status, said["scores"][0]["outcome"]) == (200, 1.0)


@pytest.fixture
def closed_port() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@pytest.mark.parametrize("path", ["/score", "/get_reward"])
@pytest.mark.parametrize("away", ["broken", "refusing", "gone"])
def test_a_judge_that_is_away_is_an_error_and_never_a_number(
    away: str, path: str, write: Write, serve: Any, closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the answer hold the judge's key, which the judge's own error does."""
    monkeypatch.setenv("JUDGE_KEY", "sk-secret-1234")
    found = write("sail_rl", "qwen3-vl", (401 if away == "refusing" else 500, "broken"))
    text = found.config.read_text("utf-8").replace('api_key_env = ""', 'api_key_env = "JUDGE_KEY"')
    assert "JUDGE_KEY" in text
    if away == "gone":
        [base_url] = {line for line in text.splitlines() if line.startswith("base_url")}
        text = text.replace(base_url, f'base_url = "{closed_port}"')
    found.config.write_text(text, "utf-8")
    reference, response = found.items[0]
    body: Any = {"items": items_of(found)[:1]}
    if path == "/get_reward":
        body = {"query": [f"ask{response}"], "prompts": ["ask"], "labels": [reference]}
    status, said, headers = serve(found).post(path, body)
    assert (status, set(said), said["error"]["type"]) == (503, {"error"}, "judges_down")
    assert headers["retry-after"] == "5"
    assert "sk-secret-1234" not in json.dumps(said)


def test_what_needs_no_judge_is_scored_while_it_is_away(write: Write, serve: Any) -> None:
    """A wrong answer earns what it does without anybody being asked."""
    found = write("sail_rl", "qwen3-vl", (500, "broken"))
    served = serve(found)
    right, wrong = items_of(found)[:2]
    answers = served.together("/score", [{"items": [right]}, {"items": [wrong]}])
    assert [status for status, _ in answers] == [503, 200]
    assert answers[1][1]["scores"][0]["outcome"] == 0.0


@pytest.mark.parametrize(("name", "said"), [("ivgr", "compares the responses"), ("rucl", "learns from whole steps")])
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


def test_an_unscored_response_is_null_or_an_error(write: Write, serve: Any) -> None:
    found = write("sail_rl", "qwen3-vl", (200, "I cannot say."))
    served = serve(found)
    reference, text = found.items[0]
    status, said, _ = served.post("/score", {"items": items_of(found)[:1]})
    assert (status, said["scores"][0]["reward"]) == (200, None)
    status, said, _ = served.post("/get_reward", {"query": [text], "prompts": [""], "labels": [reference]})
    assert (status, said["error"]["type"], said["error"]["item"]) == (422, "unscored", 0)
    found.config.write_text("unscored = 0.5\n" + found.config.read_text("utf-8"), "utf-8")
    status, said, _ = serve(found).post("/get_reward", {"query": [text], "prompts": [""], "labels": [reference]})
    assert (status, said["rewards"], said["scores"]) == (200, [0.5], [1.0])


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
