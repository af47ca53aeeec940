"""verl's Parquet: the question, the gold answer and the images out of the columns that they are nested in."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def row(text: str = "<image>How many? Put it in \\boxed{}.", **fields: Any) -> dict[str, Any]:
    made = {"data_source": "geo", "prompt": [{"role": "user", "content": text}], "images": [{"path": "a.png"}]}
    made |= {"reward_model": {"style": "rule", "ground_truth": "3"}, "ability": "math"}
    return made | {"extra_info": {"index": 0, "split": "train", "question": "<image>How many?"}} | fields


ASKED = row()["prompt"]


def read(records: Any, tmp_path: Path, made: dict[str, Any]) -> Any:
    pq.write_table(pa.Table.from_pylist([made]), tmp_path / "train.parquet")
    settings = {"columns": {"source": "data_source"}, "constants": {"license": "MIT"}}
    [found] = records(tmp_path / "train.parquet", shape="verl", **settings)
    return found


def test_a_row(records: Any, tmp_path: Path, image: bytes) -> None:
    found = read(records, tmp_path, row(images=[{"bytes": image, "path": None}]))
    assert (found.id, found.source, found.question, found.answer) == ("row-1", "geo", "How many?", "3")
    assert found.media[0].startswith("run:")
    assert read(records, tmp_path, row(images=[image])).media[0].startswith("run:")


def test_a_row_without_a_question_of_its_own(records: Any, tmp_path: Path) -> None:
    found = read(records, tmp_path, row(extra_info={"question": "Another one?"}, images=[{"image": "b.png"}]))
    assert (found.question, found.media) == ("How many? Put it in \\boxed{}.", ("input:b.png",))


def test_system_turns_are_not_read(records: Any, tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, *row()["prompt"]]
    assert read(records, tmp_path, row(prompt=turns)).question == "How many?"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reward_model": {"style": "rule", "ground_truth": None}}, "expected an object with 'ground_truth'"),
        ({"reward_model": {"ground_truth": ["3", "4"]}}, "answer: expected a text"),
        ({"prompt": [{"role": "user", "content": "<image><image>?"}]}, "the text has 2 marks <image> or <video>, but"),
        ({"prompt": "How many?"}, "expected a list of turns"),
        ({"images": []}, "prompt: the text has 1 marks <image> or <video>, but the row has 0 media"),
        ({"images": [{"bytes": None, "path": None}]}, "media: expected one or more paths"),
        ({"prompt": [*ASKED, {"role": "assistant", "content": "3"}, *ASKED]}, "user turn, got 2"),
    ],
)  # fmt: skip
def test_what_is_refused(fields: dict[str, Any], said: str, records: Any, tmp_path: Path) -> None:
    assert said in read(records, tmp_path, row(**fields))
