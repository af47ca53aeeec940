"""The main pipeline against a real vLLM server whose model writes noise: all records accounted for, no crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from groundtrace.pipelines.commands import cli

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).resolve().parents[2]
RECORDS, SAMPLES = 8, 4


@pytest.fixture
def config(vllm_server: VllmServer, tmp_path: Path) -> Path:
    path = tmp_path / "vllm.toml"
    path.write_text(
        f"""
        allow_embedded = true

        [endpoints.tiny]
        kind = "openai"
        base_url = "{vllm_server.base_url}"
        model = "{vllm_server.model}"
        frame = "norm1000"
        max_concurrency = 8
        max_tokens_limit = 256

        [roles]
        policy = "tiny"
        teacher = "tiny"
        pointer = "tiny"
        judge = "tiny"

        [attempt]
        k = {SAMPLES}
        max_tokens = 96

        [propose]
        max_tokens = 256

        [trace]
        n = 2
        max_tokens = 128
        """,
        "utf-8",
    )
    return path


def run(config: Path, output: Path, *overrides: str) -> dict:
    arguments = ["run", str(ROOT / "pipelines/grounded_cot.py"), "--input", str(ROOT / "data/sample")]
    arguments += ["--output", str(output), "--config", str(config), "--limit", str(RECORDS)]
    for override in overrides:
        arguments += ["--set", override]
    assert cli.main(arguments) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def ends(summary: dict) -> int:
    counts = summary["counts"]
    return counts["sft"] + counts["rl"] + sum(sum(reasons.values()) for reasons in counts["rejected"].values())


def test_no_noise_is_kept_and_every_record_is_accounted_for(config: Path, tmp_path: Path) -> None:
    """Most records are too hard, but noise may answer yes and no right, and may end at any limit of tokens."""
    summary = run(config, tmp_path / "run")
    assert summary["counts"]["input"] == ends(summary) == RECORDS
    assert summary["counts"]["sft"] == 0
    reasons = {reason for stage in summary["counts"]["rejected"].values() for reason in stage}
    assert reasons & {"too_hard", "ungradable"}
    policy = summary["ledger"]["policy"]
    # A sample that came back empty is asked for again, and how many do so is chance.
    assert RECORDS <= policy["requests"] < SAMPLES * RECORDS, "the four samples of a question come with one request"
    assert policy["tokens_out"] > 0

    again = run(config, tmp_path / "run")
    assert sum(role["requests"] for role in again["ledger"].values()) == 0
    assert again["counts"] == summary["counts"]


def test_noise_goes_through_every_stage_without_a_crash(config: Path, tmp_path: Path) -> None:
    everything = ("difficulty.include_low=true", "difficulty.include_high=true", "split.sft_ratio=0.7")
    summary = run(config, tmp_path / "run", *everything)
    assert summary["counts"]["input"] == ends(summary) == RECORDS
    assert {"policy", "teacher"} <= set(summary["ledger"])
    assert summary["ledger"]["teacher"]["requests"] > 0
    shards = str(tmp_path / "run/rejected/*.parquet")
    reasons = dict(duckdb.sql(f"SELECT reason, count(*) FROM '{shards}' GROUP BY 1").fetchall())
    typed = {"unparsable_reply", "no_entities", "wrong_answer", "call_failed", "low_grounding", "ungradable"}
    typed |= {"truncated", "unverifiable", "low_reasoning"}
    assert reasons, "noise cannot pass verification"
    assert set(reasons) <= typed
