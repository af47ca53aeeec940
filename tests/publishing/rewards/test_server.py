"""The reward server: our own trainer's scores over HTTP, and an error wherever there is no score."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.rewards import judge_watch

from .serving import items_of, raw_post
from .worlds import WORLDS, Written

Write = Callable[..., Written]


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


def test_64_clients_get_their_own_scores(write: Write, serve: Any, tmp_path: Path) -> None:
    found = write("argos")
    items = (items_of(found) * 2)[:64]
    [expected] = found.by_trainer(tmp_path / "own")
    wanted = [each.reward for each in expected * 2][:64]
    assert len(items) == 64
    answers = serve(found, max_scoring=8).together("/score", [{"items": [item]} for item in items])
    assert [status for status, _ in answers] == [200] * 64
    assert [said["scores"][0]["reward"] for _, said in answers] == pytest.approx(wanted, abs=1e-9)


def test_it_answers_while_long_responses_are_read(write: Write, serve: Any) -> None:
    """What is read at length keeps the loop of the models busy, not that of HTTP: its bounds of time hold."""
    found = write("argos")
    served = serve(found, timeout_s=0.5)
    right = items_of(found)[0]
    items = [right | {"response": right["response"].replace("<think>", "<think>" + "x = 1 y " * 12_000)}] * 3
    asked: list[tuple[int, float]] = []

    def ask() -> None:
        begun = time.monotonic()
        asked.append((served.post("/score", {"items": items})[0], time.monotonic() - begun))

    asking = threading.Thread(target=ask)
    asking.start()
    served.wait_until(scoring=1)
    asking.join()
    assert asked[0][0] == 504
    assert asked[0][1] < 4


def test_a_response_that_is_too_long_earns_nothing(write: Write, serve: Any) -> None:
    """It is the policy's fault: an error would end the training."""
    found = write("argos")
    right = items_of(found)[0]
    long = right | {"response": right["response"].replace("<think>", "<think>" + "so " * 70_000)}
    status, said, _ = serve(found).post("/score", {"items": [right, long]})
    assert (status, [each["reward"] for each in said["scores"]]) == (200, [1.0, 0.0])


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


class Switched:
    """A judge that can be taken away: then its list of models and its replies are a gateway's 503."""

    def __init__(self) -> None:
        self.is_there, self.asked = True, 0

    @contextmanager
    def serving(self, reply: str) -> Iterator[str]:
        switch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({"data": [{"id": "judge"}]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                switch.asked += 1
                self.answer({"choices": [{"message": {"content": reply}, "finish_reason": "stop"}]})

            def answer(self, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(200 if switch.is_there else 503)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/v1"
        finally:
            http.shutdown()
            thread.join()
            http.server_close()


def test_a_judge_that_goes_and_comes_back(
    write: Write, serve: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is away what needs it is refused at once, without a try, and what does not is scored."""
    monkeypatch.setattr(judge_watch, "CHECK_EVERY_S", 0.05)
    found, switch = write("sail_rl"), Switched()
    text = found.config.read_text("utf-8").replace("max_retries = 0", "max_retries = 8")
    with switch.serving(found.world.judge) as base_url:
        found.config.write_text(re.sub(r'base_url = ".+"', f'base_url = "{base_url}"', text), "utf-8")
        served = serve(found)
        items = items_of(found)
        first, wrong = items[:2]
        right = first | {"response": first["response"].replace("It is said.", "It is written.")}
        assert served.get("/health")[:2] == (200, served.health())
        assert served.health()["roles"] == {"judge": "ready"}
        status, before, _ = served.post("/score", {"items": [first]})
        assert status == 200
        switch.is_there = False
        served.wait_until(status="unready")
        status, health, headers = served.get("/health")
        assert (status, health["roles"], headers["retry-after"]) == (503, {"judge": "overloaded"}, "5")
        assert served.get("/health/live")[:2] == (200, {"status": "live"})
        asked = switch.asked
        begun = time.monotonic()
        answers = served.together("/score", [{"items": [item]} for item in [right] * 40 + [wrong, first]])
        took_s = time.monotonic() - begun
        assert [status for status, _ in answers] == [503] * 40 + [200, 200]
        assert answers[-1][1] == before, "what was answered comes from the cache"
        assert (switch.asked, answers[0][1]["error"]["type"]) == (asked, "judges_down")
        assert took_s < 5, "eight tries take twice as long"
        switch.is_there = True
        served.wait_until(status="ready")
        assert served.post("/score", {"items": [right]})[0] == 200
    away, back = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beam: ")]
    assert away.startswith("beam: endpoint judge (judge), model judge at http://127.0.0.1:")
    assert back == "beam: endpoint judge (judge) is back"


def test_a_reference_that_contradicts_its_row(write: Write, serve: Any) -> None:
    found = write("argos")
    row, text = found.references[0], found.said[0][0]
    other = json.loads(row.text()) | {"answer": "seventeen"}
    status, said, _ = serve(found).post("/score", {"items": [{"reference": other, "response": text}]})
    assert (status, said["error"]["type"], said["error"]["item"]) == (400, "bad_request", 0)
    assert (
        f"has the answer 'seventeen' in the exported reference, but the answer '{row.answer}' in the run"
        in said["error"]["message"]
    )
