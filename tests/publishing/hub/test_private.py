"""What concerns the maker alone does not go out."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.card import public_name
from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.private import public_artifact, without_private_facts
from groundtrace.publishing.hub.upload import _is_ours
from groundtrace.schemas.arrow import REJECTED_SCHEMA

BOTH, ONE = ["grounded", "textual"], ["textual"]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    (tmp_path / "out/rl").mkdir(parents=True)
    rows = pa.table({"streams": pa.array([BOTH, BOTH, ONE, None], pa.list_(pa.string()))})
    pq.write_table(rows, tmp_path / "out/rl/train-00000-of-00001.parquet")
    return tmp_path / "out"


def test_a_plan_counts_what_is_published(tmp_path: Path, published: Path) -> None:
    parts = [{"streams": BOTH, "share": 0.9, "rows": 34}, {"streams": ONE, "share": 0.1, "rows": 6}]
    (tmp_path / "batch_plan.json").write_text(json.dumps({"parts": parts}))
    found = json.loads(public_artifact(tmp_path / "batch_plan.json", published))
    assert [part["rows"] for part in found["parts"]] == [2, 1]
    assert [part["share"] for part in found["parts"]] == [0.9, 0.1]


def test_servers_words_stay(tmp_path: Path, published: Path) -> None:
    (tmp_path / "judges.json").write_text(json.dumps({"traces": 6, "problems": ["cannot connect to 10.0.0.5"]}))
    assert json.loads(public_artifact(tmp_path / "judges.json", published)) == {"traces": 6}


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_a_damaged_file(tmp_path: Path, published: Path, text: str) -> None:
    (tmp_path / "batch_plan.json").write_text(text)
    with pytest.raises(PublishError, match=r"batch_plan\.json is damaged"):
        public_artifact(tmp_path / "batch_plan.json", published)


def test_rejected_rows_say_nothing_of_servers_costs_and_places() -> None:
    media = [{"uri": "/home/me/a.png"}, {"uri": "input:clients-of-mine/b.png"}, {"uri": "C:\\me\\c.png"}, {"uri": None}]
    media += [{"uri": "input:https://example.org/me/d.png?signature=key/of/it"}, {"uri": "input:me/e?f.png"}]
    row = {"id": "q", "detail": "cannot connect to 10.0.0.5", "cost_usd": 0.5, "media": media}
    [found] = without_private_facts(pa.RecordBatch.from_pylist([row], REJECTED_SCHEMA)).to_pylist()
    assert (found["id"], found["detail"], found["cost_usd"]) == ("q", None, None)
    assert [medium["uri"] for medium in found["media"]] == ["a.png", "b.png", "c.png", "", "d.png", "e?f.png"]


OTHERS = [
    "README.md.old",
    "run.json.bak",
    "sft/notes.txt",
    "sft/mine.parquet",
    "judges.json5",
    "rl/x/train-0-of-1.parquet",
]


@pytest.mark.parametrize("path", OTHERS)
def test_a_file_beside_ours_is_not_ours(path: str) -> None:
    assert not _is_ours(path)
    assert all(map(_is_ours, ("README.md", "run.json", "rejected/train-00000-of-00001.parquet")))


NAMES = [
    ("org/model", "org/model"),
    ("https://host/x?token=abc", "x"),
    ("clients/acme/secret", "secret"),
    ("C:\\Users\\me\\model", "model"),
]


@pytest.mark.parametrize(("name", "public"), NAMES)
def test_of_a_path_only_the_last_part_is_public(name: str, public: str) -> None:
    assert public_name(name) == public
