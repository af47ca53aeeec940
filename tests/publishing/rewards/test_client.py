"""The client's file: it needs nothing but Python, and no fault of a server makes it score a response wrong."""

import base64
import html
import importlib.metadata
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.publishing.rewards import client_server as servers
from tests.publishing.rewards.client_server import FILE, good, reference, right, says, score, scripted

PREFIX = "GROUNDTRACE_REWARD_"
TEXTS = ["a", "four", "", "a longer one"]
WANTED = [0.01, 0.04, 0.0, 0.12]
REFERENCES = [reference(f"q-{number}") for number in range(4)]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.16.0")
    return servers.loaded()


def by_verl(client: Any, **given: Any) -> list[float]:
    found = client.compute_score(
        data_sources=["nlvr"] * 4, solution_strs=TEXTS, ground_truths=REFERENCES, extra_infos=[{}] * 4, **given
    )
    return [each["score"] for each in found]


def by_easyr1(client: Any, **given: Any) -> list[float]:
    pairs = zip(TEXTS, REFERENCES, strict=True)
    inputs = [{"response": text, "response_length": 1, "ground_truth": each} for text, each in pairs]
    return [each["overall"] for each in client.compute_score_easyr1(inputs, **given)]


def by_trl(client: Any, **given: Any) -> list[float | None]:
    turns = [[{"role": "assistant", "content": text}] for text in TEXTS]
    [reward] = client.reward_funcs(**given)
    return reward(
        prompts=[[]] * 4, completions=turns, completion_ids=[[1]] * 4, trainer_state=None, groundtrace=REFERENCES
    )


def test_it_needs_python_alone(tmp_path: Path) -> None:
    """Without site-packages, the variables of the environment and the folder that it is started from."""
    (tmp_path / "groundtrace_client.py").write_bytes(FILE.read_bytes())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import groundtrace_client as client\n"
        "others = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(sorted(others)); import json\n"
        "given = {'solution_str': 'four', 'ground_truth': json.dumps({'id': 'q'}), 'url': sys.argv[2]}\n"
        "print(client.compute_score(**given))\n"
    )
    with scripted() as server:
        command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path), server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    expected = {"score": 0.04, "outcome_or_0": 1.0, "outcome_scored": 1.0}
    assert done.stdout == f"['groundtrace_client']\n{expected}\n", done.stderr


@pytest.mark.parametrize("status", [None, 200, 503])
def test_it_says_whether_a_server_is_there(status: int | None) -> None:
    port = servers.free_port()
    environment = {f"{PREFIX}URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "-I", "-S", str(FILE)]
    if status is None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Connection refused" in done.stderr
        assert "start beam serve-reward" in done.stderr
        assert "Traceback" not in done.stderr
        return
    with scripted(port=port) as server:
        server.RequestHandlerClass.do_GET = lambda handler: handler.answer(status, {"status": "x"})  # type: ignore[attr-defined]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (status != 200)
    assert done.stdout == f'http://127.0.0.1:{port}: HTTP {status}: {{"status": "x"}}\n'


MISTAKES = {
    "URL must be a URL such as http://": {"URL": "nonsense"},
    "URL must be a URL such as http://127.0.0.1:8500, got 'http://127.0.0.1:99999', with a port": {
        "URL": "http://127.0.0.1:99999"
    },
    "URL must be a URL such as http://127.0.0.1:8500, got 'http://[::1', with an invalid host": {"URL": "http://[::1"},
    "URL must have no user name, password or query": {"URL": "http://user:PASS/WORD@127.0.0.1:8500"},
    "TOKEN must be printable ASCII characters in one line": {"TOKEN": "PASS\nWORD"},
}


@pytest.mark.parametrize(("said", "environment"), MISTAKES.items())
def test_it_says_which_setting_is_wrong(said: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-I", "-S", str(FILE)]
    env = {f"{PREFIX}{name}": value for name, value in environment.items()}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"groundtrace_client: {PREFIX}{said}")
    assert done.stderr.count("\n") == 1
    assert "WORD" not in done.stderr


AGAIN = {
    "killed before it answers": servers.dies,
    "killed while it answers": servers.dies_within,
    "killed while it answers, no length": servers.dies_within_without_length,
    "slow": servers.hangs,
    "byte by byte": servers.drips,
    "not ready": says(503, Retry_After="0"),
    "full": says(429, Retry_After="1"),
    "a date to ask again at": says(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"),
    "its own time-out": says(504),
    "a proxy without its server": says(502, b"<html>Bad Gateway</html>"),
    "a defect": says(500),
    "half an answer": says(200, b'{"scores": ['),
    "a chunk of 16 exabytes": servers.sends(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}"
    ),
    "more than a client reads": servers.floods(200),
}


@pytest.mark.parametrize("fault", AGAIN.values(), ids=AGAIN.keys())
def test_a_server_that_fails_once_is_asked_again(fault: servers.Step, client: Any) -> None:
    with scripted(fault, good) as server:
        assert by_verl(client, url=server.url, request_timeout_s=0.5) == WANTED
        (_, first, _), (_, second, _) = server.seen
        assert first == second


REFUSED = {
    "bad request": (says(400), "HTTP 400: some: it is so"),
    "no token": (says(401), "HTTP 401"),
    "another server": (says(404, b"not here"), "HTTP 404: 'not here'"),
    "too large": (says(413), "HTTP 413"),
    "moved": (says(307, b"", Location="/x"), "HTTP 307"),
    "a defect that stays": (says(500), "failed 3 times (HTTP 500: some: it is so)"),
    "no JSON": (says(200, b"hello"), "failed 3 times (HTTP 200: 'hello')"),
    "no scores": (says(200, {"rewards": [1.0] * 4}), "did not send 4 scores"),
    "too few": (says(200, {"scores": [score()]}), "did not send 4 scores"),
    "of other rows": (
        says(200, {"scores": [score()] * 4}),
        "sent the score of 'q', but the score of 'q-0' was expected",
    ),
    "NaN": (says(200, {"scores": [score(reward=math.nan)] * 4}), "an invalid score"),
    "a number that no float holds": (says(200, {"scores": [score(reward=10**400)] * 4}), "an invalid score"),
    "an error beside scores": (
        says(200, {"scores": [score()] * 4, "error": {"type": "x"}}),
        "sent an error with HTTP 200",
    ),
    "a text": (says(200, {"scores": [score(reward="1")] * 4}), "an invalid score"),
    "true": (says(200, {"scores": [score(reward=True)] * 4}), "an invalid score"),
    "no reward": (says(200, {"scores": [{"id": "q-0", "outcome": 1.0, "verdicts": {}}] * 4}), "an invalid score"),
    "an infinite verdict": (says(200, {"scores": [score(spatial=math.inf)] * 4}), "an invalid score"),
}


@pytest.mark.parametrize(("fault", "said"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("trainer", [by_verl, by_trl])
def test_what_asking_again_would_not_change_is_an_error_at_once(
    fault: servers.Step, said: str, trainer: Callable[..., Any], client: Any
) -> None:
    """Also where responses may be left out: that is for a server that is away."""
    with scripted(fault) as server, pytest.raises(client.RewardRefused) as error:
        trainer(client, url=server.url, on_timeout="leave_out", timeout_s=20)
    assert said in str(error.value)
    assert len(server.seen) == (3 if "3 times" in said else 1)


@pytest.mark.parametrize(
    "fault", [None, servers.hangs, servers.drips, servers.continues, says(503, Retry_After="3600")]
)
def test_a_server_that_stays_away_is_an_error_in_time(fault: servers.Step | None, client: Any) -> None:
    with scripted(fault or good) as server:
        url = server.url if fault else f"http://127.0.0.1:{servers.free_port()}"
        began = time.monotonic()
        with pytest.raises(client.RewardUnavailable, match=r"sent no reward within 0.6 s"):
            by_verl(client, url=url, timeout_s=0.6)
        assert 0.5 < time.monotonic() - began < 2.5


def test_a_host_whose_name_is_looked_up_for_long_is_an_error_in_time(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3))
    began = time.monotonic()
    with pytest.raises(client.RewardUnavailable, match=r"sent no reward within 0.4 s"):
        by_verl(client, url="http://rewards.invalid", timeout_s=0.4)
    assert time.monotonic() - began < 2


def test_timeouts_that_no_socket_can_hold(client: Any) -> None:
    with scripted() as server:
        assert by_verl(client, url=server.url, timeout_s=1e300, request_timeout_s=1e300) == WANTED
        with pytest.raises(ValueError, match="TIMEOUT_S must be a number"):
            by_verl(client, url=server.url, timeout_s=10**400)


LARGE = {
    "blanks without end": servers.floods(200),
    "in chunks": servers.floods(200, is_chunked=True),
    "from a proxy": servers.floods(503),
    "a length of 100 terabytes": servers.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}"),
}


@pytest.mark.parametrize("fault", LARGE.values(), ids=LARGE.keys())
def test_a_reply_without_end_is_not_read(fault: servers.Step, client: Any) -> None:
    with (
        scripted(fault) as server,
        pytest.raises(client.RewardRefused, match=r"3 times .the server sent a reply of more than 16777216 bytes"),
    ):
        by_verl(client, url=server.url)
    assert server.sent < 3 * 32, "16 MiB are read, and some more fill the buffers of the sockets"


def test_a_large_reply_is_read(client: Any) -> None:
    with scripted(lambda handler, body: handler.answer(200, right(body) | {"more": "x" * 15 * 2**20})) as server:
        assert by_verl(client, url=server.url) == WANTED


TOKEN = 's3cr+t/to"ken<&42'
CODED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "where a message ends": lambda token: " " * 70 + token,
    "for a path": urllib.parse.quote,
    "for a query": urllib.parse.quote_plus,
    "for a query, in small letters": lambda token: urllib.parse.quote_plus(token).replace("%2F", "%2f"),
    "JSON": json.dumps,
    "HTML": html.escape,
    "hexadecimal": lambda token: token.encode().hex(),
    "base64": lambda token: base64.b64encode(token.encode()).decode(),
    "Basic, one byte behind a group": lambda token: base64.b64encode(f"abc:{token}".encode()).decode(),
    "Basic, two bytes behind a group": lambda token: base64.b64encode(f"user:{token}".encode()).decode(),
    "base64 for URLs": lambda token: base64.urlsafe_b64encode(f"user:{token}:x".encode()).decode(),
}


def shown_by(call: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> str:
    """What a user sees of the error of a call: the log, and the traceback with the messages of its causes."""
    with pytest.raises(RuntimeError) as error:
        call()
    messages = [line for line in traceback.format_exception(error.value) if not line.startswith("  File")]
    return "".join([*caplog.messages, *messages])


@pytest.mark.parametrize(("name", "status"), [*((name, 401) for name in CODED), ("plain", 403), ("plain", 503)])
def test_a_token_that_comes_back_is_not_shown(
    name: str, status: int, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write = CODED[name]
    with scripted(servers.echoes(status, write)) as server:
        shown = shown_by(lambda: by_verl(client, url=server.url, token=TOKEN, timeout_s=2), caplog)
    assert f"HTTP {status}: 'No entry for" in shown
    assert "***" in shown
    coded = write(TOKEN).strip()
    assert not [part for at in range(len(coded) - 7) if (part := coded[at : at + 8]) in shown]


LINES = {
    "no HTTP": lambda token: f"{token} is wrong\r\n",
    "an error": lambda token: http(400, {"error": {"type": token, "message": f"{token}?"}}),
    "an error with HTTP 200": lambda token: http(200, {"error": token}),
    "an invalid score": lambda token: http(200, {"scores": [{"id": token}] * 4}),
    "another row": lambda token: http(200, {"scores": [score(token)] * 4}),
    "an unscored response": lambda token: http(
        200, {"scores": [score(f"q-{number}", None, None, **{token: None}) for number in range(4)]}
    ),
}


def http(status: int, content: Any) -> str:
    data = json.dumps(content)
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(data)}\r\n\r\n{data}"


@pytest.mark.parametrize("write", LINES.values(), ids=LINES.keys())
@pytest.mark.parametrize("text", ["s3cret-token", "s3\x1b[2J\x00cret", "s3\nret", "s3\u2028\u202eret"])
def test_no_text_of_the_server_reaches_a_message_as_it_is(
    text: str, write: Callable[[str], str], client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    token = text if text.isprintable() else "another-token"
    with scripted(servers.sends(write(text).encode())) as server:
        shown = shown_by(lambda: by_verl(client, url=server.url, token=token, timeout_s=1), caplog)
    assert text not in shown
    assert shown.replace("\n", "").isprintable()
    assert ("***" if text == token else "s3") in shown


@pytest.mark.parametrize("text", ["\ud800", "\x1b[2J"])
def test_half_a_character_of_the_server_is_shown_in_ascii(text: str, client: Any) -> None:
    content = {"error": {"type": text, "message": f"a {text} b"}}
    with scripted(says(400, content)) as server, pytest.raises(client.RewardRefused) as error:
        by_verl(client, url=server.url)
    coded = text.encode("unicode_escape").decode()
    assert str(error.value).endswith(f"HTTP 400: {coded}: a {coded} b")


def test_a_value_of_too_many_levels_and_a_token_in_the_settings(client: Any) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    settings = client.settings_of({"token": TOKEN})
    assert client._shown(settings, repr, deep, 80) == "a value of too many levels"
    assert TOKEN not in repr(settings)
    assert "token='***'" in repr(settings)


def test_trl_leaves_out_the_responses_of_a_server_that_stays_away_if_told_so(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"url": f"http://127.0.0.1:{servers.free_port()}", "timeout_s": 0.2}
    assert by_trl(client, **given, on_timeout="leave_out") == [None] * 4
    with pytest.raises(client.RewardUnavailable):
        by_trl(client, **given)
    with pytest.raises(client.RewardUnavailable):
        by_verl(client, **given, on_timeout="leave_out")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.5.1")  # which counts None as 0
    with pytest.raises(client.RewardUnavailable):
        by_trl(client, **given, on_timeout="leave_out")


def test_a_server_that_is_started_later(client: Any) -> None:
    port = servers.free_port()
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.append(by_trl(client, url=f"http://127.0.0.1:{port}", timeout_s=20)))
    asking.start()
    time.sleep(0.4)
    with scripted(port=port):
        asking.join(15)
    assert found == [WANTED]


def unscored(handler: servers.Handler, body: dict[str, Any]) -> None:
    answer = right(body)
    answer["scores"][1] = score("q-1", None, None)
    handler.answer(200, answer)


def test_an_unscored_response_is_none_for_trl_and_an_error_elsewhere(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(unscored) as server:
        left_out = [0.01, None, 0.0, 0.12]
        assert by_trl(client, url=server.url) == by_trl(client, url=server.url, unscored=-0.25) == left_out
        for ask in (by_verl, by_easyr1):
            with pytest.raises(client.Unscored, match=r"'q-1' is unscored .outcome: outcome.*set .*UNSCORED"):
                ask(client, url=server.url)
            assert ask(client, url=server.url, unscored=-0.25) == [0.01, -0.25, 0.0, 0.12]
        monkeypatch.setenv(f"{PREFIX}URL", server.url)
        with pytest.raises(client.Unscored):
            client.Verified()(TEXTS, groundtrace=REFERENCES)
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.24.0")  # which counts None as 0
        with pytest.raises(client.Unscored):
            by_trl(client, url=server.url)
        assert by_trl(client, url=server.url, unscored=-0.25) == [0.01, -0.25, 0.0, 0.12]


LOST = "the state of this trajectory is gone"


def test_a_response_whose_sandbox_failed_is_unscored(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As TRL's environments, verl's tool and swift's scheduler note it; the others of the group keep their rewards."""
    environments = [SimpleNamespace(lost=LOST if number == 1 else "") for number in range(4)]
    infos = [{"groundtrace_lost": each.lost} for each in environments]
    with scripted() as server:
        [reward] = client.reward_funcs(url=server.url)
        turns = [[{"role": "assistant", "content": text}] for text in TEXTS]
        assert reward(completions=turns, environments=environments, groundtrace=REFERENCES) == [0.01, None, 0.0, 0.12]
        given = {"ground_truths": REFERENCES, "solution_strs": TEXTS, "extra_infos": np.array(infos), "url": server.url}
        found = client.compute_score(**given, unscored=-0.25)
        assert [each["score"] for each in found] == [0.01, -0.25, 0.0, 0.12]
        monkeypatch.setenv(f"{PREFIX}URL", server.url)
        monkeypatch.setenv(f"{PREFIX}UNSCORED", "-0.25")
        assert client.Verified()(TEXTS, groundtrace=REFERENCES, rollout_infos=infos) == [0.01, -0.25, 0.0, 0.12]
        monkeypatch.delenv(f"{PREFIX}UNSCORED")
        with pytest.raises(client.Unscored, match=f"'q-1' is unscored .sandbox: {LOST}"):
            client.compute_score(solution_str="a", ground_truth=REFERENCES[1], extra_info=infos[1], url=server.url)


def test_a_result_in_place_of_an_answer_is_no_answer(client: Any) -> None:
    """TRL drops a turn for which there is no room, so that the result of a call is the last turn."""
    result = {"role": "tool", "name": "execute_python_code", "content": [{"type": "text", "text": "four"}]}
    with scripted() as server:
        [reward] = client.reward_funcs(url=server.url)
        assert reward(completions=[[{"role": "assistant", "content": ""}, result]], groundtrace=REFERENCES[1:2]) == [0]
    assert [item["response"] for _, body, _ in server.seen for item in body["items"]] == [""]


def test_verl_gets_the_same_names_for_each_response_and_no_nan(client: Any) -> None:
    with scripted(unscored) as server:
        found = client.compute_score(
            solution_strs=TEXTS, ground_truths=REFERENCES, url=server.url, unscored=0.0, reward_router_address="x"
        )
    assert found[0] == {"score": 0.01, "outcome_or_0": 1.0, "outcome_scored": 1.0}
    assert found[1] == {"score": 0.0, "outcome_or_0": 0.0, "outcome_scored": 0.0}
    assert {tuple(each) for each in found} == {("score", "outcome_or_0", "outcome_scored")}


def test_a_long_list_is_cut_and_is_then_no_step(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server:
        assert by_verl(client, url=server.url) == WANTED
        assert by_verl(client, url=server.url, batch=3) == WANTED
        monkeypatch.setattr(client, "MAX_BODY_BYTES", 300)
        assert by_verl(client, url=server.url) == WANTED
    sizes = [(len(body["items"]), body["is_step"]) for _, body, _ in server.seen]
    assert sizes == [(4, True), (3, False), (1, False), (2, False), (2, False)]
    told = {"error": {"type": "recipe", "message": "use an interface that hands over lists"}}
    with (
        scripted(says(400, told)) as server,
        pytest.raises(client.RewardRefused, match=f"2 requests: see {PREFIX}BATCH"),
    ):
        by_verl(client, url=server.url, batch=3)


def test_a_single_response_is_no_step(client: Any) -> None:
    with scripted() as server:
        client.compute_score("nlvr", "four", REFERENCES[0], {}, url=server.url)
        client.compute_score_easyr1({"response": "four", "ground_truth": REFERENCES[0]}, url=server.url)
    assert [body["is_step"] for _, body, _ in server.seen] == [False, False]


def test_half_a_character_does_not_end_a_training(client: Any) -> None:
    """A server refuses it, for no file can hold it; it is a fault of the response alone."""
    with scripted() as server:
        client.compute_score(solution_strs=["a\ud800b", "\ud83d\ude00"], ground_truths=REFERENCES[:2], url=server.url)
        assert [each["response"] for each in server.seen[0][1]["items"]] == ["a\ufffdb", "\U0001f600"]


def test_no_response_needs_no_server(client: Any) -> None:
    assert client.verified([], groundtrace=[]) == []


BAD = [
    (lambda client: client.verified(["x"]), "no column 'groundtrace'"),
    (lambda client: client.Verified()(["x"]), "no column 'groundtrace'"),
    (
        lambda client: client.verified(["x"], groundtrace=["B"]),
        "the reference of response 0 does not name a row, but is 'B'",
    ),
    (
        lambda client: client.verified(["x"], groundtrace=[None]),
        "the reference of response 0 does not name a row, but is None",
    ),
    (lambda client: client.verified(["x"] * 2, groundtrace=REFERENCES), "2 responses have 4 references"),
    (lambda client: client.verified([0.5], groundtrace=REFERENCES[:1]), "response 0 is a float, but has to be a text"),
    (lambda client: client.verified([[{"content": 3}]], groundtrace=REFERENCES[:1]), "is a int, but has to be a text"),
]


@pytest.mark.parametrize(("call", "said"), BAD)
def test_what_a_trainer_hands_over_is_checked_before_a_server_is_asked(call: Any, said: str, client: Any) -> None:
    with pytest.raises(client.RewardRefused, match=said):
        call(client)


WRONG = [
    ({"URL": "127.0.0.1:8500"}, "URL must be a URL such as http"),
    ({"URL": "ftp://x"}, "URL must be a URL"),
    ({"URL": "http://127.0.0.1:99999"}, "URL must be .*, with a port that is not a number from 1 to 65535"),
    ({"URL": "http://127.0.0.1:0"}, "URL must be .*, with a port"),
    ({"URL": "http://127.0.0.1:abc"}, "URL must be .*, with a port"),
    ({"URL": "http://[::1"}, "URL must be .*, with an invalid host"),
    ({"URL": "http://a..b"}, "URL must be .*, with an invalid host"),
    ({"URL": f"http://{'a' * 70}.org"}, "URL must be .*, with an invalid host"),
    ({"URL": "http://a b"}, "URL must be .*, with a space or an unprintable character"),
    ({"URL": "http://a/\x01"}, "URL must be .*, with a space or an unprintable character"),
    ({"URL": "http://a\nb"}, "URL must be .*, with a space or an unprintable character"),
    ({"URL": "http://a/équipe"}, "URL must be .*, with a path that is not ASCII"),
    ({"URL": "http://user:word@a"}, "URL must have no user name, password or query.*: remove them"),
    ({"URL": "http://a?key=word"}, "URL must have no user name, password or query"),
    ({"TOKEN": "se\ncret"}, "TOKEN must be printable ASCII characters in one line"),
    ({"TOKEN": "secret”"}, "TOKEN must be printable ASCII"),
    ({"TOKEN": "sécret"}, "TOKEN must be printable ASCII"),
    ({"TIMEOUT_S": "soon"}, "TIMEOUT_S must be a number, got 'soon'"),
    ({"TIMEOUT_S": "0"}, "TIMEOUT_S must be above 0"),
    ({"REQUEST_TIMEOUT_S": "inf"}, "REQUEST_TIMEOUT_S must be a number"),
    ({"BATCH": "1.5"}, "BATCH must be a whole number of at least 1"),
    ({"ON_TIMEOUT": "skip"}, "ON_TIMEOUT must be 'raise' or 'leave_out'"),
    ({"UNSCORED": "nan"}, "UNSCORED must be a number"),
]


@pytest.mark.parametrize(("environment", "said"), WRONG)
def test_a_wrong_setting(environment: dict[str, str], said: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    with pytest.raises(ValueError, match=said) as error:
        client.reward_funcs()
    assert "word@" not in str(error.value)
    assert "key=" not in str(error.value)
    assert "cret" not in str(error.value)
    assert str(error.value).isprintable()


def test_the_config_of_a_plug_in_is_refused(client: Any) -> None:
    """A reward.toml that was given to the reward in the trainer's own process would have no effect here."""
    with pytest.raises(ValueError, match="the setting 'config' belongs to the server"):
        by_verl(client, config="argos")


def test_the_environment_and_arguments_that_go_before_it(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}URL", "https://rewards.example.org:8443/team/")
    monkeypatch.setenv(f"{PREFIX}TIMEOUT_S", " 30 ")
    monkeypatch.setenv(f"{PREFIX}UNSCORED", "")
    found = client.settings_of({"timeout_s": 5, "batch": None, "extra_info": {}})
    assert (found.url, found.timeout_s, found.batch) == ("https://rewards.example.org:8443/team/", 5.0, 1024)
    assert found.unscored is None


def test_a_path_and_a_token(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server:
        monkeypatch.setenv(f"{PREFIX}URL", f"{server.url}/team/")
        monkeypatch.setenv(f"{PREFIX}TOKEN", "secret")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which does not stand between the two
        by_verl(client)
    [(path, _, headers)] = server.seen
    assert (path, headers["Authorization"]) == ("/team/score", "Bearer secret")


def test_trl_logs_the_verdicts_means(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [score(f"q-{number}", spatial=value) for number, value in enumerate((0.5, None, 1.0, None))]
    with scripted(says(200, {"scores": scores})) as server:
        monkeypatch.setenv(f"{PREFIX}URL", server.url)
        logged: dict[str, float] = {}
        client.verified(TEXTS, groundtrace=REFERENCES, log_metric=logged.__setitem__)
        assert logged == {"groundtrace/outcome": 1.0, "groundtrace/spatial": 0.75}
        logged.clear()
        monkeypatch.setenv("WORLD_SIZE", "2")
        client.verified(TEXTS, groundtrace=REFERENCES, log_metric=logged.__setitem__)
        assert logged == {"groundtrace/outcome": 1.0}, "TRL waits until each process has logged the same names"


def test_the_mean_of_verdicts_that_no_float_holds_together(client: Any) -> None:
    scores = [score(f"q-{number}", large=value) for number, value in enumerate((10**308, 10**308, 0.5, None))]
    logged: dict[str, float] = {}
    with scripted(says(200, {"scores": scores})) as server:
        [reward] = client.reward_funcs(url=server.url)
        reward(completions=TEXTS, groundtrace=REFERENCES, log_metric=logged.__setitem__)
    assert logged["groundtrace/large"] == math.inf


def test_openrlhf(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"rewards": [0.5], "scores": [1.0], "extra_logs": {}}
    with scripted(servers.dies, says(200, told), says(200, {"rewards": [None], "scores": [1.0]})) as server:
        monkeypatch.setenv(f"{PREFIX}URL", server.url)
        assert client.reward_func(["PQ"], ["P"], [REFERENCES[0]]) == told
        with pytest.raises(client.RewardRefused, match="no list 'rewards' of 1 numbers"):
            client.reward_func(["PQ"], ["P"], [REFERENCES[0]])
    path, body, _ = server.seen[0]
    assert (path, body) == ("/get_reward", {"query": ["PQ"], "prompts": ["P"], "labels": [REFERENCES[0]]})


def test_the_file_names_each_of_its_settings(client: Any) -> None:
    for name in client.Settings._fields:
        assert f"{PREFIX}{name.upper()}" in client.__doc__
    assert json.loads(reference())["id"] == "q"
