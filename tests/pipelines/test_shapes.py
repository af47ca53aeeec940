"""A run over conversations: each record of a row ends once, bad ones too, and a limit counts records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SHAPE = ["shape=conversations", "constants.source=drawn", "constants.license=CC0-1.0"]
SET = [word for setting in SHAPE for word in ("--set", f"input.{setting}")]


def talk(*texts: str, **fields: Any) -> dict[str, Any]:
    turns = [{"from": "gpt" if n % 2 else "human", "value": text} for n, text in enumerate(texts)]
    return {"image": "a.png", "conversations": turns} | fields


def test_every_record_ends_once(run_beam: Callable[..., Any], write_scene: Callable[..., Path], tmp_path: Path) -> None:
    write_scene(tmp_path / "data/a.png")
    rows = [
        talk("<image>\nHow many squares are there?", "3", "How many red squares are there?", "1", id="a"),
        talk("<image><image>\nHow many?", "3", id="b"),
        talk("How many squares are there?", "3", id="c", image="none.png"),
        talk("How many blue squares are there?", "1", "And?", id="d"),
        talk("How many?", "3", "Why?", "so", id=[1]),
        talk("How many squares are there?", "3", id="b"),
        {"id": "e"},
    ]
    (tmp_path / "data/llava.json").write_text(json.dumps(rows), "utf-8")
    ran = run_beam(tmp_path / "data/llava.json", tmp_path / "run", *SET, "--set", "difficulty.include_low=true")
    assert ran.code == 0, ran.err
    ran.check_balance(10)
    reasons = {key: end for key, end in ran.ends.items() if end not in ("sft", "rl")}
    assert reasons.pop("c") == "media_missing"
    assert reasons.pop("b") == "duplicate"  # of a-1
    bad = ("b#3", "d-2", "line#7", "line#8", "e")
    assert {reasons[key] for key in bad} == {"invalid_record"}
    assert {"a-1", "a-2", "d-1"} <= ran.ends.keys()


def test_a_limit_counts_questions_over_files(
    run_beam: Callable[..., Any], write_scene: Callable[..., Path], tmp_path: Path
) -> None:
    write_scene(tmp_path / "data/a.png")
    for name in ("1.parquet", "2.parquet"):
        asked = talk("How many squares are there?", "3", "How many red squares are there?", "1", "How many?", "3")
        pq.write_table(pa.Table.from_pylist([asked]), tmp_path / "data" / name)
    ran = run_beam(tmp_path / "data", tmp_path / "run", *SET, "--limit", "4")
    assert ran.code == 0, ran.err
    ran.check_balance(4)
    assert sorted(ran.ends) == ["row-1", "row-2", "row-3", "row-4"]
