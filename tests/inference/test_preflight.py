"""Endpoints that cannot play their roles are found before the first call, with one line that says which and why."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from groundtrace.inference.errors import Failure
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.models import Models
from groundtrace.inference.preflight import NotServed, check_roles, healths, unfit_for
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

JUDGE, DETECTOR = Asks("judge", ("judge_answer.v1",)), Asks("detector", (PLAIN.box_prompt,), required=False)
SEGMENTER = Asks("segmenter", ("segment.v1", "segment_points.v1"), required=False)


@pytest.fixture
def check(models_settings: Callable[..., ModelsSettings]) -> Callable[..., None]:
    """Check what is asked of endpoints; others than the server's stand for a role where ``changes`` name it."""

    def checked(*asks: Asks, **changes: Any) -> None:
        base = models_settings(family="plain", max_retries=0)
        roles = dict(base.roles) | {role: role for role in changes}
        settings = replace(base, roles=tuple(roles.items()), endpoints=(*base.endpoints, *changes.items()))

        async def main() -> None:
            models = Models(settings, cached=False)
            try:
                await check_roles(models, asks, "reward.")
            finally:
                await models.close()

        asyncio.run(main())

    return checked


@pytest.fixture
def closed_url() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def openai(url: str, **changes: Any) -> EndpointSettings:
    return EndpointSettings(kind="openai", model="tiny", base_url=url, family="plain", **changes)


def test_what_serves_passes(check: Any, server: Any) -> None:
    server.lists_models = True
    edges = EndpointSettings(kind="classical", model="edges")
    check(JUDGE, DETECTOR, SEGMENTER, detector=edges, segmenter=edges)
    assert server.seen == [], "nothing is generated"


def test_a_server_without_a_list_of_models_passes(check: Any, server: Any) -> None:
    server.fail(404)
    check(JUDGE)


def test_a_role_that_is_not_asked_is_not_looked_at(check: Any, server: Any) -> None:
    server.lists_models = True
    check(JUDGE, detector=EndpointSettings(kind="classical", model="colour"))


@pytest.mark.parametrize(
    ("role", "ask", "model"),
    [("detector", DETECTOR, "colour"), ("segmenter", SEGMENTER, "colour"), ("judge", JUDGE, "edges")],
)
def test_an_engine_that_does_something_else(role: str, ask: Asks, model: str, check: Any) -> None:
    with pytest.raises(NotServed) as refusal:
        check(ask, **{role: EndpointSettings(kind="classical", model=model)})
    said = str(refusal.value)
    assert said.startswith(f"endpoint {role} ({role}), model {model}: it cannot answer ")
    assert said.endswith(f"a prompt of the {role}. Name another endpoint in reward.roles.{role}")
    assert not refusal.value.can_wait


def test_nobody_listens(check: Any, closed_url: str) -> None:
    with pytest.raises(NotServed) as refusal:
        check(JUDGE, judge=openai(closed_url))
    said = str(refusal.value)
    assert said.startswith(f"endpoint judge (judge), model tiny at {closed_url}: cannot be reached: connection: ")
    assert said.endswith("Start the server, or correct reward.endpoints.judge.base_url")
    assert refusal.value.can_wait


def test_another_model(check: Any, server: Any) -> None:
    server.raw({"data": [{"id": "other"}]})
    with pytest.raises(NotServed, match=r"not 'tiny'.*correct reward\.endpoints\.scripted\.model") as refusal:
        check(JUDGE)
    assert not refusal.value.can_wait


def test_a_key_that_is_not_there(check: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(NotServed, match="NO_SUCH_KEY"):
        check(JUDGE, judge=openai(server.base_url, api_key_env="NO_SUCH_KEY"))


def test_all_that_is_wrong_is_one_line(check: Any, server: Any, closed_url: str) -> None:
    """What has to be changed comes first: nobody waits for the rest."""
    server.fail(401)
    colour = EndpointSettings(kind="classical", model="colour")
    with pytest.raises(NotServed) as refusal:
        check(JUDGE, DETECTOR, SEGMENTER, Asks("teacher", ("propose.v2",)), judge=openai(closed_url), segmenter=colour)
    said = str(refusal.value)
    begins = ("endpoint segmenter (segmenter)", "endpoint scripted (detector, teacher)", "endpoint judge (judge)")
    assert [said.index(each) for each in begins] == sorted(said.index(each) for each in begins)
    assert "\n" not in said
    assert not refusal.value.can_wait


def test_a_server_that_only_a_run_starts(check: Any) -> None:
    with pytest.raises(NotServed, match=r"start the server yourself, set reward.endpoints.judge.kind to"):
        check(JUDGE, judge=EndpointSettings(kind="vllm", model="m"))


def test_a_kind_of_the_users_own_is_taken_at_its_word(models_settings: Any) -> None:
    own = EndpointSettings(kind="groundtrace.inference.endpoints.openai_compatible:OpenAIEndpoint", model="m")
    settings = replace(models_settings(), endpoints=(("own", own),), roles=(("judge", "own"),))
    assert unfit_for(settings, [JUDGE]) == []


def test_health_ends_and_comes_back(models_settings: Any, server: Any) -> None:
    server.fail(503)
    server.raw({"data": [{"id": "tiny"}]})
    settings = replace(models_settings(max_retries=0), fails_fast=True)

    async def main() -> None:
        models = Models(settings, cached=False)
        [found] = await healths(models, [JUDGE])
        assert (found.name, found.roles, found.is_away) == ("scripted", ("judge",), True)
        assert found.fault is not None
        assert found.fault.failure is Failure.OVERLOADED
        [found] = await healths(models, [JUDGE])
        assert (found.fault, found.message) == (None, "")
        await models.close()

    asyncio.run(main())
