"""The shard schemas: as written down in golden files, and as `datasets` reads them."""

import io
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from groundtrace.schemas.arrow import (
    CORE,
    EARLIER,
    REJECTED_SCHEMA,
    RL_SCHEMA,
    SFT_SCHEMA,
    added_columns,
    rejected_schema,
    rl_schema,
    sft_schema,
)
from groundtrace.schemas.columns import Column
from tests.added import EARLIER_RL

LIGHT = Column("light", pa.float32(), "how light the image is", for_training=False)
PARTS = Column("parts", pa.list_(pa.string()), "what it is made of", is_class=True)
GOLDEN = Path(__file__).parent / "golden"
SCHEMAS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}


def described(schema: pa.Schema) -> str:
    """The columns one a line, then the metadata."""
    columns = [f"{field.name}: {field.type}" for field in schema]
    features = json.loads(schema.metadata[b"huggingface"])
    return "\n".join([*columns, json.dumps(features, indent=1), ""])


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_the_golden_one(name: str) -> None:
    assert described(SCHEMAS[name]) == (GOLDEN / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("make", [sft_schema, rl_schema, rejected_schema])
def test_added_columns_come_behind_the_core_ones_and_say_what_they_are(make: Any, tmp_path: Path) -> None:
    schema = make((LIGHT, PARTS))
    assert schema.names == [*make().names, "light", "parts"]
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features["light"] == {"dtype": "float32", "_type": "Value"}
    assert features["parts"] == {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}
    pq.write_table(schema.empty_table(), tmp_path / "shard.parquet")
    assert added_columns(pq.read_schema(tmp_path / "shard.parquet")) == [LIGHT, PARTS]


def test_a_recipe_that_adds_nothing_has_core_columns_alone() -> None:
    for schema in SCHEMAS.values():
        assert added_columns(schema) == []
        assert set(schema.names) <= CORE.keys()
    assert all(column.meaning for column in CORE.values())


def test_shards_of_earlier_code_are_known_by_the_names_of_their_columns() -> None:
    found = {column.name: column for column in added_columns(EARLIER_RL)}
    assert set(found) == set(EARLIER)
    assert all(column.meaning for column in found.values())
    assert {name for name, column in found.items() if column.is_class} == {"complexity", "domain", "streams", "stratum"}
    assert {name for name, column in found.items() if not column.for_training} == {"crop_attempts"}


def test_columns_of_other_peoples_shards_have_no_meaning() -> None:
    assert added_columns(pa.schema([("id", pa.string()), ("mood", pa.int8())])) == [Column("mood", pa.int8(), "")]


@pytest.mark.parametrize(
    "written",
    [
        "5",
        "{",
        "[" * 100_000,
        '["x"]',
        '[{"meaning": "m"}]',
        '[{"name": "x", "colour": "red"}]',
        '[{"name": 5}]',
        '[{"name": "x", "is_class": "yes"}]',
    ],
    ids=lambda text: text[:40],
)
def test_damaged_descriptions_of_columns(written: str) -> None:
    schema = pa.schema([("x", pa.string())], metadata={"groundtrace.added": written})
    with pytest.raises(ValueError, match="the descriptions of the columns are damaged"):
        added_columns(schema)


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


def test_both_sides_begin_with_the_same_columns() -> None:
    common = [field for field in SFT_SCHEMA if field.name not in ("messages", "verdicts")]
    assert list(RL_SCHEMA)[: len(common)] == common
    assert all(field.nullable for schema in SCHEMAS.values() for field in schema)
