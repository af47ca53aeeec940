import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from groundtrace.inference import endpoint
from groundtrace.inference.endpoint import Kind
from groundtrace.inference.serving import kinds_to_serve, started_servers
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

told: list[str] = []


@contextlib.contextmanager
def start(models: ModelsSettings, log_folder: str) -> Iterator[ModelsSettings]:
    """Serves every endpoint of the kind ``toy``."""
    told.append(f"started in {log_folder}")
    served = (
        (name, replace(settings, kind="classical") if settings.kind == "toy" else settings)
        for name, settings in models.endpoints
    )
    yield replace(models, endpoints=tuple(served))
    told.append("stopped")


@pytest.fixture(autouse=True)
def toy_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    told.clear()
    monkeypatch.setitem(endpoint.KINDS.ours, "toy", Kind("nowhere:Toy", server=f"{__name__}:start"))


def models(*roles: tuple[str, str]) -> ModelsSettings:
    endpoints = (("own", EndpointSettings("toy", "m")), ("small", EndpointSettings("classical", "colour")))
    return ModelsSettings(endpoints, roles, ":memory:", "in", "out")


@pytest.mark.parametrize(
    ("roles", "kinds"),
    [
        ((("judge", "own"), ("policy", "own")), ("toy",)),
        ((("judge", "small"),), ()),  # an endpoint without a role is not served
        ((), ()),
    ],
)
def test_only_what_a_role_uses_is_served(roles: tuple[tuple[str, str], ...], kinds: tuple[str, ...]) -> None:
    assert kinds_to_serve(models(*roles)) == kinds


def test_servers_run_while_the_body_does() -> None:
    with started_servers(models(("judge", "own")), "logs") as served:
        assert served.endpoint("judge").kind == "classical"
        assert told == ["started in logs"]
    assert told == ["started in logs", "stopped"]


def test_without_one_the_models_are_the_same() -> None:
    given = models(("judge", "small"))
    with started_servers(given, "logs") as served:
        assert served is given
    assert told == []
