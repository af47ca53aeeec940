"""The kind ``vllm``: a run that starts a real vLLM server itself, and leaves none behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundtrace.pipelines.commands import cli

from .conftest import REPLY_LIMIT, processes

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 6


def test_a_run_starts_and_stops_its_own_server(
    server_variables: dict[str, str],
    tiny_qwen3vl_dir: Path,
    serve_arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (server_variables | {"XDG_RUNTIME_DIR": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "vllm.toml"
    arguments = ", ".join(json.dumps(argument) for argument in (*serve_arguments, *REPLY_LIMIT))
    roles = "\n".join(f'{role} = "tiny"' for role in ("policy", "teacher", "pointer", "judge"))
    config.write_text(
        f"""
        allow_embedded = true

        [endpoints.tiny]
        kind = "vllm"
        model = {json.dumps(str(tiny_qwen3vl_dir))}
        serve_args = [{arguments}]
        frame = "norm1000"
        max_tokens_limit = 256

        [roles]
        {roles}

        [attempt]
        max_tokens = 48
        """,
        "utf-8",
    )
    output = tmp_path / "run"
    run = [
        "run",
        str(ROOT / "pipelines/grounded_cot.py"),
        "--input",
        str(ROOT / "data/sample"),
        "--limit",
        str(RECORDS),
    ]
    before = set(processes())  # another test's server of the same model may be among them
    assert cli.main([*run, "--output", str(output), "--config", str(config)]) == 0
    summary = json.loads((output / "run.json").read_text("utf-8"))
    assert summary["counts"]["input"] == RECORDS
    assert summary["ledger"]["policy"]["requests"] > 0
    log = (output / "logs/vllm-tiny.log").read_text("utf-8", "replace")
    assert "Application startup complete" in log
    marks = ("VLLM", str(tiny_qwen3vl_dir))
    started = [command for pid, command in processes().items() if pid not in before]
    assert not [command for command in started if any(mark in command for mark in marks)]
