"""The shard schemas: as written down in golden files, and as `datasets` reads them."""

import io
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA, rl_schema, sft_schema

GOLDEN = Path(__file__).parent / "golden"
FURTHER = {"sft": (SFT_SCHEMA, sft_schema), "rl": (RL_SCHEMA, rl_schema)}
SCHEMAS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}


def described(schema: pa.Schema) -> str:
    """The columns one a line, then the metadata."""
    columns = [f"{field.name}: {field.type}" for field in schema]
    features = json.loads(schema.metadata[b"huggingface"])
    return "\n".join([*columns, json.dumps(features, indent=1), ""])


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_the_golden_one(name: str) -> None:
    assert described(SCHEMAS[name]) == (GOLDEN / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", FURTHER)
def test_further_scores_stand_beside_the_scores(name: str) -> None:
    plain, make = FURTHER[name]
    assert make() == plain
    wider = make(extra_scores=True)
    after = wider.names.index("scores") + 1
    assert wider.names[after] == "extra_scores"
    assert str(wider.field("extra_scores").type) == "list<item: struct<name: string, value: double>>"
    assert [field for field in wider if field.name != "extra_scores"] == list(plain)
    features = json.loads(wider.metadata[b"huggingface"])["info"]["features"]
    values = {"name": {"dtype": "string", "_type": "Value"}, "value": {"dtype": "float64", "_type": "Value"}}
    assert features["extra_scores"] == {"feature": values, "_type": "List"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_metadata_and_the_columns_agree(name: str) -> None:
    schema = SCHEMAS[name]
    features = datasets.Features.from_dict(json.loads(schema.metadata[b"huggingface"])["info"]["features"])
    assert list(features) == schema.names
    assert features.arrow_schema.types == schema.types


def picture(colour: str) -> dict[str, object]:
    out = io.BytesIO()
    Image.new("RGB", (6, 4), colour).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": f"{colour}.png"}


@pytest.mark.parametrize("name", ["sft", "rl"])
def test_datasets_gives_images(name: str, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "images": [picture("red"), picture("blue")], "overlays": [picture("lime")]},
        {"id": "b", "images": [picture("red")], "overlays": []},
        {"id": "c", "images": [picture("red")], "overlays": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[name]), tmp_path / "shard.parquet")
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "shard.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    first, second, third = loaded
    assert [image.getpixel((0, 0)) for image in first["images"]] == [(255, 0, 0), (0, 0, 255)]
    assert [(type(image).__name__, image.size) for image in first["overlays"]] == [("PngImageFile", (6, 4))]
    assert first["overlays"][0].getpixel((5, 3)) == (0, 255, 0)
    assert (second["overlays"], third["overlays"]) == ([], None)
    assert first["messages" if name == "sft" else "prompt"] is None


def test_one_superset_for_both_sides() -> None:
    common = [field for field in SFT_SCHEMA if field.name != "messages"]
    assert list(RL_SCHEMA)[: len(common)] == common
    assert all(field.nullable for schema in SCHEMAS.values() for field in schema)
