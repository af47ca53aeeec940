"""Exports in polars and in webdataset."""

import json

import pytest

from tests.publishing.exports.loaders.conftest import Export

pytestmark = pytest.mark.loaders


@pytest.mark.parametrize(("form", "name"), [("trl", "sft"), ("verl", "rl"), ("easyr1", "rl"), ("swift", "rl")])
def test_polars_reads_parquet(form: str, name: str, export: Export) -> None:
    import polars

    counts = json.loads((export(form) / "export.json").read_text("utf-8"))["counts"]
    frame = polars.read_parquet(export(form) / f"{name}.parquet")
    assert len(frame) == counts[name]["written"]
    assert frame["images"][0][0]["bytes"].startswith(b"\x89PNG")


def test_polars_reads_lines(export: Export) -> None:
    import polars

    frame = polars.read_ndjson(export("jsonl") / "sft.jsonl")
    assert frame["messages"][0][1]["role"] == "assistant"


@pytest.mark.parametrize("side", ["sft", "rl"])
def test_webdataset_pairs_images_with_their_rows(side: str, export: Export) -> None:
    import webdataset

    folder = export("webdataset")
    counts = json.loads((folder / "export.json").read_text("utf-8"))["counts"]
    files = [str(file) for file in sorted(folder.glob(f"{side}-*.tar"))]
    rows = list(webdataset.WebDataset(files, shardshuffle=False).decode("pil"))
    assert len(rows) == counts[side]["written"]
    for row in rows:
        assert row["json"]["images"] == ["png"]
        assert row["png"].size == (400, 100)
        assert row["json"]["messages" if side == "sft" else "prompt"]
