"""``executable_cot`` against a real vLLM server whose model writes noise: each reply is typed, nothing crashes.

The noise is no call, so that no code runs here; tests/pipelines/test_executable_cot.py executes code.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from groundtrace.pipelines.commands import cli

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data/sample"
RECORDS = 8


@pytest.fixture
def config(vllm_server: VllmServer, tmp_path: Path) -> Path:
    path = tmp_path / "vllm.toml"
    path.write_text(
        f"""
        max_failed = 1.0

        [endpoints.tiny]
        kind = "openai"
        base_url = "{vllm_server.base_url}"
        model = "{vllm_server.model}"
        frame = "norm1000"
        max_concurrency = 8
        max_tokens_limit = 192
        repair_attempts = 1

        [roles]
        policy = "tiny"
        teacher = "tiny"
        judge = "tiny"

        [attempt]
        max_tokens = 64

        [split]
        sft_ratio = 1.0
        """,
        "utf-8",
    )
    return path


def run(config: Path, data: Path, output: Path, *overrides: str) -> dict:
    arguments = ["run", str(ROOT / "pipelines/executable_cot.py"), "--input", str(data), "--output", str(output)]
    arguments += ["--config", str(config), "--limit", str(RECORDS)]
    for override in overrides:
        arguments += ["--set", override]
    assert cli.main(arguments) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def ends(summary: dict) -> int:
    counts = summary["counts"]
    return counts["sft"] + counts["rl"] + sum(sum(reasons.values()) for reasons in counts["rejected"].values())


def reasons_of(output: Path) -> set[tuple[str, str]]:
    return set(duckdb.sql(f"SELECT DISTINCT stage, reason FROM '{output}/rejected/*.parquet'").fetchall())


@pytest.mark.parametrize("route", ["trajectories", "rewritten"])
def test_noise_about_questions_is_typed(config: Path, tmp_path: Path, route: str) -> None:
    """Attempts, then turns of trajectories, or solutions in text for the sources that are rewritten."""
    source = json.loads((SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[0])["source"]
    overrides = [f'trajectory.rewritten_sources=["{source}"]'] if route == "rewritten" else []
    summary = run(config, SAMPLE, tmp_path / "run", *overrides)
    assert summary["counts"]["input"] == ends(summary) == RECORDS
    assert summary["ledger"]["policy"]["requests"] > 0
    assert summary["ledger"]["teacher"]["requests"] > 0, "hard questions reach the teacher"
    written = {
        *(("attempt", "ungradable"), ("attempt", "unparsable_reply")),
        *(("trajectory", reason) for reason in ("malformed", "no_answer", "truncated", "forged_result")),
        *(("reason", reason) for reason in ("malformed", "wrong_answer", "truncated", "ungradable")),
    }
    assert reasons_of(tmp_path / "run") <= written

    again = run(config, SAMPLE, tmp_path / "run", *overrides)
    assert sum(role["requests"] for role in again["ledger"].values()) == 0
    assert again["counts"] == summary["counts"]


def test_noise_about_images_is_typed(config: Path, tmp_path: Path) -> None:
    """The judge of images answers noise, so that each image is rejected before a question is written."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for image in sorted(SAMPLE.rglob("*.png"))[:RECORDS]:
        shutil.copy(image, photos / image.name)
    summary = run(config, photos, tmp_path / "run")
    assert summary["counts"]["input"] == ends(summary) == RECORDS
    assert summary["ledger"]["judge"]["requests"] >= RECORDS
    assert {stage for stage, _ in reasons_of(tmp_path / "run")} == {"judge_images"}
