from pathlib import Path

import pytest

from groundtrace.inference.endpoint import Endpoint, open_endpoint
from groundtrace.inference.endpoints.vllm_server import VllmServerError
from groundtrace.inference.request import Request, Sampling
from groundtrace.inference.runtime import runtime
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore


def opened(tmp_path: Path, **settings: object) -> Endpoint:
    made = EndpointSettings("vllm", "tiny", **settings)  # type: ignore[arg-type]
    return open_endpoint(made, MediaStore(str(tmp_path), str(tmp_path)), 1)


def test_an_endpoint_that_nobody_served_says_so(tmp_path: Path, text_prompt) -> None:
    asked = Request(text_prompt(), Sampling(), (0,))
    with pytest.raises(
        VllmServerError,
        match=r"'tiny' has no server, because a run starts a server only if its workers are on this machine",
    ):
        runtime().submit(opened(tmp_path).generate(asked)).result()


@pytest.mark.parametrize(("seed", "revision"), [(None, "r1"), (7, "r1#seed=7")])
def test_its_cache_keys_are_those_of_its_server(tmp_path: Path, seed: int | None, revision: str) -> None:
    settings = EndpointSettings("openai", "tiny", revision="r1", seed=seed, base_url="http://127.0.0.1:1/v1")
    served = open_endpoint(settings, MediaStore(str(tmp_path), str(tmp_path)), 1)
    assert opened(tmp_path, revision="r1", seed=seed).revision == served.revision == revision


def test_the_check_looks_for_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "vllm"
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(command))
    with pytest.raises(VllmServerError, match="not an executable file"):
        runtime().submit(opened(tmp_path).check()).result()
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    assert runtime().submit(opened(tmp_path).check()).result() == f"a run starts tiny with {command}"
