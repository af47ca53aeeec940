"""OpenAI's own client against a server over real HTTP: what it says against it, and that it gives no key away."""

import asyncio
from dataclasses import replace

import pytest

from groundtrace.inference.endpoints.official_client import official_client_note
from groundtrace.inference.settings import EndpointSettings

LISTED = {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "us"}]}


@pytest.fixture
def settings(server, monkeypatch) -> EndpointSettings:
    monkeypatch.setenv("OFFICIAL_KEY", "sk-secret-1234567890")
    return EndpointSettings("openai", "m", base_url=f"{server.base_url}", api_key_env="OFFICIAL_KEY")


def note(settings: EndpointSettings) -> str:
    return asyncio.run(official_client_note(settings))


def test_a_list_with_the_model_is_fine(server, settings) -> None:
    server.raw(LISTED)
    assert note(settings) == ""
    assert server.seen[0].path.endswith("/models")
    assert server.seen[0].headers["authorization"] == "Bearer sk-secret-1234567890"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            401,
            {"error": {"message": "sk-secret-1234567890 is refused"}},
            "cannot list the server's models: AuthenticationError",
        ),
        (500, {"error": {"message": "no"}}, "cannot list the server's models: InternalServerError"),
        (302, {}, "cannot list the server's models"),
        (200, b"<html>", "cannot"),
        (200, {"data": [{"id": "other"}]}, "does not find m among the server's models"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line_without_the_key(server, settings, status, body, said) -> None:
    server.raw(body, status=status)
    found = note(settings)
    assert said in found
    assert "secret" not in found
    assert "\n" not in found


def test_another_model_is_no_fault_where_the_config_says_so(server, settings) -> None:
    server.raw({"data": [{"id": "other"}]})
    assert note(replace(settings, check_model=False)) == ""


def test_a_server_that_is_not_there(settings) -> None:
    assert "APIConnectionError" in note(replace(settings, base_url="http://127.0.0.1:9/v1"))
