"""Run folders whose shards are written here, row by row."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import SHARDS

MakeRun = Callable[..., Path]


def write_run(folder: Path, rows: Mapping[str, Sequence[Mapping[str, Any]]], config: str = "", **changes: Any) -> Path:
    """Write a run folder with these rows of its sets, and its ``run.json`` with these changes."""
    folder.mkdir()
    for name, schema in SHARDS.items():
        (folder / name).mkdir()
        if rows.get(name):
            table = pa.Table.from_pylist([dict(row) for row in rows[name]], schema=schema)
            pq.write_table(table, folder / name / "train-00000-of-00001.parquet")
    rejected: dict[str, Counter[str]] = {}
    for row in rows.get("rejected", ()):
        rejected.setdefault(row["stage"], Counter())[row["reason"]] += 1
    summary: dict[str, Any] = {
        "recipe": "grounded_cot",
        "input": "/data/questions",
        "counts": {
            "input": sum(map(len, rows.values())),
            "sft": len(rows.get("sft", ())),
            "rl": len(rows.get("rl", ())),
            "rejected": rejected,
        },
        "stages": {},
        "ledger": {"teacher": {"stages": {"trace": {"calls": 5, "cost_usd": 0.25}}}},
        "roles": {"teacher": "big-model"},
        "prompts": {"trace.v1": "0" * 64},
        "self_judged": False,
        "config_sha256": "c0ffee",
        "revision": "abc123",
        "finished": "2026-01-02T03:04:05+00:00",
        "wall_s": 1.5,
    }
    (folder / "run.json").write_text(json.dumps(summary | changes), "utf-8")
    (folder / "config.toml").write_text(config, "utf-8")
    return folder


def sft(row_id: str, final: float | None = 1.0, trace: str = "one", **more: Any) -> dict[str, Any]:
    """Return an SFT row."""
    messages = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": trace}]
    return {"id": row_id, "question": "How many?", "messages": messages, "scores": {"final": final}} | more


def out(row_id: str, reason: str = "too_easy", **more: Any) -> dict[str, Any]:
    """Return a rejected row."""
    return {"id": row_id, "stage": "difficulty", "reason": reason, "detail": f"{reason} by far"} | more


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run folder of this name below the test's folder."""
    return lambda name, rows, config="", **changes: write_run(tmp_path / name, rows, config, **changes)
