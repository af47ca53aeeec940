import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.extras import MissingExtra
from groundtrace.inference.endpoint import (
    KINDS,
    EndpointError,
    check_access,
    is_embedded,
    is_real,
    kind_of,
    open_endpoint,
)
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.registry import load
from groundtrace.vision.media import MediaStore


def open_kind(tmp_path: Path, kind: str):
    return open_endpoint(EndpointSettings(kind, "m"), MediaStore(str(tmp_path), str(tmp_path)), 1)


@pytest.fixture(autouse=True)
def own_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module ``mine`` with the class of an endpoint, a Kind, and what is neither."""
    code = """
    from groundtrace.inference.endpoint import Kind

    class Own:
        def __init__(self, settings, media, threads):
            self.settings = settings

        async def generate(self, request): ...

    KIND = Kind("mine:Own", needs_url=True)
    class Silent: ...
    """
    (tmp_path / "mine.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("name", KINDS)
def test_each_line_of_the_registry_names_a_class_with_the_interface(name: str) -> None:
    endpoint = load(KINDS[name].endpoint)
    for method in ("generate", "check", "close", "revision"):
        assert hasattr(endpoint, method)
    if KINDS[name].server:
        assert callable(load(KINDS[name].server))


def test_what_is_known_of_the_kinds() -> None:
    assert [name for name in KINDS if KINDS[name].in_process] == ["classical", "transformers", "transformers_chat"]
    assert [name for name in KINDS if KINDS[name].server] == ["vllm"]
    assert [name for name in KINDS if KINDS[name].own_form] == ["classical", "transformers"]
    assert [name for name in KINDS if KINDS[name].embedded] == ["classical"]
    assert [name for name in KINDS if KINDS[name].uses_seed] == ["openai", "vllm"]


@pytest.mark.parametrize(
    ("kind", "embedded", "real"),
    [("classical", True, False), ("openai", False, True), ("transformers", False, True), ("mine:Own", False, False)],
)
def test_what_stands_behind_an_endpoint(kind: str, embedded: bool, real: bool) -> None:
    settings = EndpointSettings(kind, "m")
    assert (is_embedded(settings), is_real(settings)) == (embedded, real)


ALLOWED: list[tuple[str, str, dict[str, Any]]] = [
    ("pointer", "classical", {}),
    ("detector", "transformers", {}),
    ("detector", "transformers", {"frame": "norm1000"}),
    ("detector", "classical", {"family": "plain"}),
    ("pointer", "openai", {"family": "qwen3-vl"}),
    ("pointer", "openai", {"family": "internvl"}),
    ("pointer", "openai", {"family": "molmo"}),
    ("detector", "vllm", {"frame": "px"}),
    ("detector", "gemini", {"family": "plain", "frame": "gemini"}),
    ("segmenter", "openai", {}),
    ("teacher", "openai", {}),
    ("judge", "mine:Own", {}),
    ("judge", "openai", {"seed": 0}),
    ("judge", "vllm", {"seed": 7}),
    ("judge", "mine:Own", {"seed": 7}),
]
IGNORED = "endpoints.e.seed must not be set, since endpoints of the kind {} ignore it: remove this key (it is for"
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "pointer",
        "openai",
        {},
        "endpoints.e.family is not set, and the pointer writes coordinates: set it to one of claude, ",
    ),
    (
        "detector",
        "vllm",
        {},
        "endpoints.e.family is not set, and the detector writes coordinates: set it to one of claude, ",
    ),
    ("detector", "gemini", {}, "or set endpoints.e.frame for a model of another family"),
    ("pointer", "mine:Own", {}, "endpoints.e.family is not set, and the pointer"),
    (
        "detector",
        "openai",
        {"family": "molmo"},
        "roles.detector: the model family molmo of the endpoint 'e' can only write points",
    ),
    (
        "detector",
        "openai",
        {"family": "molmo2", "frame": "px"},
        "roles.detector: the model family molmo2 of the endpoint 'e' can only",
    ),
    (
        "pointer",
        "classical",
        {"family": "gemini"},
        "endpoints.e.family must not be set, since the kind classical has its own form of",
    ),
    (
        "judge",
        "vlm",
        {},
        "endpoints.e.kind is wrong: the endpoint kind must be one of classical, ",
    ),
    (
        "judge",
        "mine:Silent",
        {},
        "endpoints.e.kind is wrong: the endpoint kind names the endpoint kind mine:Silent, which must be a class with",
    ),
    ("judge", "mine:KIND", {}, "endpoints.e.base_url is not set"),
    ("judge", "openai", {}, "endpoints.e.base_url is not set: set it to the server's URL, such as http://127"),
    ("judge", "classical", {"seed": 0}, IGNORED.format("classical")),
    ("judge", "gemini", {"seed": 7}, IGNORED.format("gemini")),
    ("detector", "transformers", {"seed": 7}, IGNORED.format("transformers")),
    ("policy", "transformers_chat", {"seed": 7}, IGNORED.format("transformers_chat")),
]


@pytest.mark.parametrize(("role", "kind", "changes"), ALLOWED)
def test_roles_that_their_endpoints_can_play(role: str, kind: str, changes: dict[str, Any]) -> None:
    there = {"base_url": "http://127.0.0.1:8000/v1"} if kind == "openai" else {}
    check_access({"e": EndpointSettings(kind, "m", **there, **changes)}, {role: "e"})


@pytest.mark.parametrize(("role", "kind", "changes", "said"), REFUSED)
def test_roles_that_their_endpoints_cannot_play(role: str, kind: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        check_access({"e": EndpointSettings(kind, "m", **changes)}, {role: "e"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["vlm", "", "a:", ":B", "a b:C", "a:b c", "a..b:C"])
def test_an_unknown_kind_is_refused_with_the_known_ones(name: str, tmp_path: Path) -> None:
    said = f"must be one of {', '.join(KINDS)}, or one of your own as module:NAME, got {name!r}"
    with pytest.raises(EndpointError, match=re.escape(said)):
        kind_of(name)


@pytest.mark.parametrize("kind", ["mine:Own", "mine:KIND"])
def test_a_class_elsewhere_is_a_kind(kind: str, tmp_path: Path) -> None:
    assert open_kind(tmp_path, kind).settings.model == "m"


@pytest.mark.parametrize("kind", ["no_such_module:Echo", "groundtrace.inference.endpoint:NoSuchClass"])
def test_a_class_that_is_not_there_is_one_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(
        EndpointError, match=f"names the endpoint kind {kind}, but {kind} cannot be imported .*: (put|correct)"
    ):
        open_kind(tmp_path, kind)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "groundtrace.inference.endpoints.gemini", raising=False)
    monkeypatch.setitem(sys.modules, "google.genai", None)
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(MissingExtra, match=r"kind gemini needs the extra gemini: pip install 'groundtrace\[gemini\]'"):
        open_kind(tmp_path, "gemini")


def test_the_registry_imports_no_kind() -> None:
    code = """
    import sys
    import groundtrace.inference.endpoint, groundtrace.inference.serving
    groundtrace.inference.endpoint.kind_of("vllm")
    heavy = {"aiohttp", "openai", "torch", "transformers", "google.genai"} & set(sys.modules)
    sys.exit(", ".join(heavy) or 0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)
