"""Exports as datasets, DuckDB and pandas read them."""

import json
from pathlib import Path

import datasets
import duckdb
import pandas as pd
import pytest
from PIL import Image

from tests.publishing.exports.made_runs import exported

PARQUET = [("trl", "sft"), ("trl", "rl"), ("verl", "sft"), ("verl", "rl"), ("easyr1", "rl"), ("dpo", "dpo")]
LINES = [("jsonl", "sft"), ("jsonl", "rl"), ("openrlhf", "rl"), ("llamafactory", "sft")]


def rows_of(folder: Path, name: str) -> int:
    """How many rows ``export.json`` counts for a file."""
    counts = json.loads((folder / "export.json").read_text("utf-8"))["counts"]
    return counts["sft" if name == "dpo" else name]["written"]


@pytest.mark.parametrize(("form", "name"), PARQUET)
def test_parquet(form: str, name: str, sample_run: Path, tmp_path: Path) -> None:
    exported(sample_run, form, tmp_path / "out")
    file = str(tmp_path / f"out/{name}.parquet")
    expected = rows_of(tmp_path / "out", name)
    found = datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == expected
    assert isinstance(found[0]["images"][0], Image.Image)
    assert duckdb.sql(f"SELECT count(*), min(len(images)) FROM '{file}'").fetchall() == [(expected, 1)]
    frame = pd.read_parquet(file)
    assert len(frame) == expected
    assert frame["images"][0][0]["bytes"].startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["sft", "rl"])
def test_parquet_with_bytes_alone(name: str, sample_run: Path, tmp_path: Path) -> None:
    exported(sample_run, "swift", tmp_path / "out")
    file = str(tmp_path / f"out/{name}.parquet")
    found = datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == rows_of(tmp_path / "out", name)
    assert found[0]["images"][0]["bytes"].startswith(b"\x89PNG")


@pytest.mark.parametrize(("form", "name"), LINES)
def test_json_lines(form: str, name: str, sample_run: Path, tmp_path: Path) -> None:
    exported(sample_run, form, tmp_path / "out")
    file = str(tmp_path / f"out/{name}.jsonl")
    expected = rows_of(tmp_path / "out", name)
    found = datasets.load_dataset("json", data_files=file, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == len(pd.read_json(file, lines=True)) == expected
    assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall() == [(expected,)]
    with Image.open(tmp_path / "out" / found[0]["images"][0]) as image:
        assert image.size == (400, 100)


def test_tar_files_as_datasets_reads_them(sample_run: Path, tmp_path: Path) -> None:
    exported(sample_run, "webdataset", tmp_path / "out")
    files = [str(file) for file in (tmp_path / "out").glob("sft-*.tar")]
    found = datasets.load_dataset("webdataset", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == rows_of(tmp_path / "out", "sft")
    assert isinstance(found[0]["png"], Image.Image)
    assert found[0]["json"]["images"] == ["png"]
