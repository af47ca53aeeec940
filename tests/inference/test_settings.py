"""What an endpoint's settings refuse, and what tokens cost."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from groundtrace.inference.settings import EndpointSettings, ModelsSettings


def endpoint(**changes: Any) -> EndpointSettings:
    return EndpointSettings(**{"kind": "openai", "model": "m", **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": ""}, "kind must have at least 1 character, got ''"),
        ({"model": ""}, "model must have at least 1 character"),
        ({"frame": "metres"}, "frame must be 'molmo100', .* or 'px', got 'metres'"),
        ({"family": "qwen"}, "family must be one of claude, .*, or one of your own as module:NAME, got 'qwen'"),
        ({"max_concurrency": 0}, "max_concurrency must be greater than 0, got 0"),
        ({"max_concurrency": 10**400}, "max_concurrency must be at most 100000, got"),
        ({"usd_per_million_tokens_in": -1.0}, "usd_per_million_tokens_in must be at least 0, got -1"),
        ({"usd_per_million_tokens_out": float("nan")}, "usd_per_million_tokens_out must be a finite number, got nan"),
        ({"usd_per_million_tokens_cached": float("inf")}, "tokens_cached must be a finite number, got inf"),
        ({"samples_per_request": 0}, "samples_per_request must be greater than 0, got 0"),
        ({"max_bytes_in_flight": 0}, "max_bytes_in_flight must be greater than 0, got 0"),
        ({"max_retries": -1}, "max_retries must be at least 0, got -1"),
        ({"repair_attempts": -1}, "repair_attempts must be at least 0, got -1"),
        ({"max_tokens_limit": -1}, "max_tokens_limit must be at least 0, got -1"),
        ({"requests_per_minute": -1}, "requests_per_minute must be at least 0, got -1"),
        ({"tokens_per_minute": -1}, "tokens_per_minute must be at least 0, got -1"),
        ({"hedge_after_s": -0.1}, "hedge_after_s must be at least 0, got -0.1"),
        ({"timeout_s": 0.0}, "timeout_s must be greater than 0, got 0.0"),
        ({"read_timeout_s": -1.0}, "read_timeout_s must be greater than 0, got -1.0"),
        ({"connect_timeout_s": 0.0}, "connect_timeout_s must be greater than 0, got 0.0"),
        ({"api_key_env": "A", "api_key_file": "b"}, "cannot be used together"),
        ({"base_url": "https://me:secret@host/v1"}, "must be a URL without a user, password or query"),
        ({"base_url": "https://token@host/v1"}, "must be a URL without a user, password or query"),
        ({"base_url": "https://host/v1?key=secret"}, "must be a URL without a user, password or query"),
        (
            {"base_url": "https://host/v1/chat/completions/"},
            "must be a URL without /chat/completions at its end, since each request adds this part",
        ),
        (
            {"api_key_env": "sk-secret"},
            "must be the name of an environment variable that holds the API key, such as MY_API_KEY",
        ),
    ],
)
def test_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        endpoint(**changes)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "name", "frame"),
    [
        ({}, "plain", "px"),
        ({"frame": "norm1000"}, "plain", "norm1000"),
        ({"family": "qwen2.5-vl"}, "qwen2.5-vl", "qwen2.5-resized-px"),
        ({"family": "qwen2.5-vl", "frame": "px"}, "qwen2.5-vl", "px"),  # what is given by hand wins
    ],
)
def test_the_family_says_the_frame_unless_it_is_given(changes: dict[str, str], name: str, frame: str) -> None:
    family = endpoint(**changes).model_family
    assert (family.name, family.frame.value) == (name, frame)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_retries": 0, "repair_attempts": 0, "max_tokens_limit": 0, "hedge_after_s": 0.0},
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"base_url": "https://host/v1/@me/models"},
        {"family": "qwen3-vl"},
        {"family": "their_module:THEIRS", "frame": "unit"},
        {"frame": "norm1000", "serve_args": ("--dtype", "float32")},
    ],
)
def test_allowed(changes: dict[str, Any]) -> None:
    assert hash(endpoint(**changes)) == hash(endpoint(**changes))
    assert pickle.loads(pickle.dumps(endpoint(**changes))) == endpoint(**changes)


@pytest.mark.parametrize(
    ("prices", "tokens", "usd"),
    [
        ((0.0, 0.0, None), (10**6, 10**6, 0), 0.0),
        ((2.0, 8.0, None), (10**6, 500_000, 0), 6.0),
        ((2.0, 8.0, None), (10**6, 500_000, 10**6), 6.0),
        ((2.0, 8.0, 0.5), (10**6, 500_000, 600_000), 0.8 + 0.3 + 4.0),
        ((2.0, 8.0, 0.0), (10**6, 0, 10**6), 0.0),
        ((2.0, 8.0, 0.5), (0, 0, 0), 0.0),
    ],
)
def test_cost(prices: tuple[float, float, float | None], tokens: tuple[int, int, int], usd: float) -> None:
    names = ("usd_per_million_tokens_in", "usd_per_million_tokens_out", "usd_per_million_tokens_cached")
    assert endpoint(**dict(zip(names, prices, strict=True))).cost_usd(*tokens) == pytest.approx(usd)


MODELS = ModelsSettings(
    (("small", endpoint()), ("large", endpoint(model="n"))),
    (("policy", "small"), ("teacher", "large"), ("judge", "large"), ("pointer", "gone")),
    "cache/replies.sqlite",
    "in",
    "run",
)


def test_the_endpoint_of_a_role() -> None:
    assert (MODELS.endpoint("policy").model, MODELS.endpoint("teacher").model) == ("m", "n")
    assert (MODELS.has_role("judge"), MODELS.has_role("detector")) == (True, False)
    assert hash(MODELS) == hash(replace(MODELS))


def test_a_role_without_endpoint_is_named() -> None:
    with pytest.raises(ValueError, match=r"role 'detector': add roles\.detector"):
        MODELS.endpoint("detector")
    with pytest.raises(ValueError, match=r"roles\.pointer names the endpoint 'gone'"):
        MODELS.endpoint("pointer")


@pytest.mark.parametrize(
    ("detector", "changes", "own"),
    [
        ("small", {}, True),  # the pointer's endpoint
        ("large", {}, False),
        ("other", {"max_retries": 1}, True),  # the same model by another name
        ("other", {"base_url": "http://elsewhere/v1"}, False),
        ("", {}, False),
    ],
)
def test_self_checking(detector: str, changes: dict[str, Any], own: bool) -> None:
    roles = (("pointer", "small"), *((("detector", detector),) if detector else ()))
    models = replace(MODELS, endpoints=(*MODELS.endpoints, ("other", endpoint(**changes))), roles=roles)
    assert models.self_checking is own


@pytest.mark.parametrize(("judge", "own"), [("large", True), ("small", False), (None, False)])
def test_self_judging(judge: str | None, own: bool) -> None:
    roles = tuple((role, name) for role, name in MODELS.roles if role != "judge")
    assert replace(MODELS, roles=roles + ((("judge", judge),) if judge else ())).self_judging is own


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8000/v1", "must be a URL such as"),
        ("localhost:8000/v1", "must be a URL such as"),
        ("ftp://h/v1", "http or https"),
        ("file:///etc/passwd", "must be a URL"),
        ("http:///v1", "a host"),
        ("http://h:99999/v1", "Port out of range"),
        ("http://h:0/v1", "a port must not be 0"),
        ("http://h:port/v1", "Port could not be cast"),
        ("http://[::1/v1", "Invalid IPv6"),
        ("http://h/v 1", "must be a URL"),
        ("http://h/v1#part", "must be a URL without a fragment"),
        ("http://u:p@h/v1", "must be a URL without a user"),
    ],
)
def test_a_url_that_nothing_can_be_sent_to_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"base_url .*{said}"):
        endpoint(base_url=url)


@pytest.mark.parametrize("url", ["", "http://h/v1", "https://h:8443/v1/", "http://[::1]:8000/v1", "HTTP://h"])
def test_a_url_that_is_one(url: str) -> None:
    assert endpoint(base_url=url).base_url == url
