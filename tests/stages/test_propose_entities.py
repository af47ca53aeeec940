"""Proposals: what is read of the teacher's reply, and which attempt it is shown."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from apache_beam.coders.typecoders import registry
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.grounding import BadReply
from inference.runtime import runtime
from inference.settings import EndpointSettings, ModelsSettings
from pipelines.settings import embedded_endpoints, embedded_roles
from schemas.records import Attempt, Draft
from stages.propose_entities import MAX_ENTITY_CHARS, ProposeEntities, ProposeSettings, entities_of_reply


class Chat(BaseHTTPRequestHandler):
    """A server that speaks OpenAI's chat API; ``server.says`` gives the replies to a prompt's text."""

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")
        texts = [self.server.says(prompt, sample) for sample in range(body["n"])]
        messages = [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"} for text in texts]
        choices = [{"index": index} | message for index, message in enumerate(messages)]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        self.wfile.write(json.dumps(reply).encode())


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Callable[..., ModelsSettings]]:
    """Settings: the embedded engine in every role, but the server, which ``says``, in the ``roles`` named."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        server = EndpointSettings("openai", "m", base_url=f"http://127.0.0.1:{http.server_port}/v1", max_retries=0)
        folders = str(tmp_path / "replies.sqlite"), str(tmp_path), str(tmp_path / "run")

        def build(*roles: str, says: Callable[[str, int], str] = str) -> ModelsSettings:
            http.says = says  # type: ignore[attr-defined]
            played = embedded_roles() | {"policy": "colour"} | dict.fromkeys(roles, "server")
            return ModelsSettings((*embedded_endpoints().items(), ("server", server)), tuple(played.items()), *folders)

        yield build
        runtime().close_all()
        http.shutdown()


REPLIES = [
    ('{"entities": ["red square", "dog"]}', ("red square", "dog")),
    ('```json\n{"entities": ["dog"]}\n```', ("dog",)),
    ('Here: {"entities": ["dog"]} as asked.', ("dog",)),
    ('{"entities": []}', ()),
    ('{"entities": ["", "  ", "\\n"]}', ()),
    ('{"entities": [" red\\n square ", "red square", "dog"]}', ("red square", "dog")),
    ('{"entities": ["a", "b", "c", "d"], "more": 1}', ("a", "b", "c")),
    ('{"entities": ["a", "a", "b", "b", "c"]}', ("a", "b", "c")),
    (json.dumps({"entities": ["x" * 500]}), ("x" * MAX_ENTITY_CHARS,)),
]


@pytest.mark.parametrize(("text", "entities"), REPLIES)
def test_the_entities_of_a_reply(text: str, entities: tuple[str, ...]) -> None:
    assert entities_of_reply(text, 3) == entities


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("a dog and a cat", "not JSON"),
        ('{"entities": ["dog"', "not JSON"),
        ('["dog"]', "not JSON"),
        ("{}", "expected a list of phrases, got None"),
        ('{"entities": "dog"}', "expected a list of phrases, got 'dog'"),
        ('{"entities": [1]}', "expected a list of phrases"),
        ('{"entities": [["dog"]]}', "expected a list of phrases"),
        ('{"entities": null}', "expected a list of phrases"),
    ],
)
def test_replies_of_the_wrong_form(text: str, said: str) -> None:
    with pytest.raises(BadReply, match=said):
        entities_of_reply(text, 3)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=12), st.integers(1, 10))
def test_entities_are_clean_and_different(names: list[str], most: int) -> None:
    found = entities_of_reply(json.dumps({"entities": names}), most)
    assert len(set(found)) == len(found) <= most
    assert all(name and name == " ".join(name.split()) for name in found)
    assert set(found) <= {" ".join(name.split()) for name in names}


def test_at_least_one_entity() -> None:
    with pytest.raises(ValueError, match=r"propose\.max_entities must be at least 1"):
        ProposeSettings(max_entities=0)


ATTEMPTS = (Attempt("first", "4", False, "numeric", ""), Attempt("unsure", None, None, "judge", ""))
RIGHT = (Attempt("good", "3", True, "numeric", ""), Attempt("better", "3", True, "numeric", ""))


@pytest.fixture
def drafts(tmp_path: Path, make_draft: Callable[..., Draft], write_scene: Callable[..., Path]) -> Callable[..., Draft]:
    """A draft about three squares with attempts, with changes to its question."""
    write_scene(tmp_path / "a.png", width=400, height=100)
    return lambda name, attempts=ATTEMPTS + RIGHT, **fields: replace(
        make_draft(name, tmp_path, ("a.png",), **fields), attempts=attempts
    )


def test_the_embedded_engine_names_what_it_sees(
    run_beam: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    asked = [
        drafts("all"),
        drafts("red", question="How many red squares are there?"),
        drafts("unread", question="What does the sign say?"),
    ]
    run_beam(
        ProposeEntities(ProposeSettings(), models()),
        asked,
        [("all", {"black square", "blue square", "red square"}, 1), ("red", {"red square"}, 1)],
        [("unread", "no_entities", "the teacher named no visible thing", 64)],
        show=lambda draft: (draft.id, set(draft.entities), len(draft.calls)),
        show_rejected=lambda found: (found.id, found.reason, found.detail, len(found.cache_key)),
    )


def test_odd_teachers(
    run_beam: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        shown = prompt.split("ATTEMPT: ")[1].split("\n")[0]
        replies = {"prose": "I see a dog.", "nothing": '{"entities": [" "]}', "half": '{"entities": ["\\ud83d dog"]}'}
        return replies.get(shown, json.dumps({"entities": [f"saw {shown}"]}))

    asked = {name: (Attempt(name, "3", True, "numeric", ""),) for name in ("prose", "nothing", "half")}
    asked |= {"first right": ATTEMPTS + RIGHT, "none right": ATTEMPTS}
    run_beam(
        ProposeEntities(ProposeSettings(), models("teacher", says=says)),
        [drafts(name, attempts) for name, attempts in asked.items()],
        [("first right", ("saw good",)), ("none right", ("saw first",)), ("half", ("\ud83d dog",))],
        [
            ("prose", "propose", "unparsable_reply", "not JSON: 'I see a dog.'"),
            ("nothing", "propose", "no_entities", "the teacher named no visible thing"),
        ],
        show=lambda draft: (draft.id, draft.entities),
        show_rejected=lambda found: (found.id, found.stage, found.reason, found.detail),
    )


@pytest.mark.parametrize("name", ["\ud83d dog", "dog\0", "<points>", "🐕"])
def test_any_entity_can_cross_a_shuffle(name: str, make_draft: Callable[..., Draft]) -> None:
    draft = replace(make_draft("q"), entities=entities_of_reply(json.dumps({"entities": [name]}), 3))
    coder = registry.get_coder(Draft)
    assert coder.decode(coder.encode(draft)) == draft
