"""Questions about the same images with different answers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.conflicting_answers import conflicting_answers
from groundtrace.schemas.arrow import RL_SCHEMA


def row(row_id: str, answer: str, question: str = "How many?", image: str = "a.png", choices: Any = None) -> Any:
    return {
        "id": row_id, "question": question, "answer": answer, "choices": choices,
        "images": [{"bytes": b"-", "path": image}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        ([], ""),
        ([row("a", "3"), row("b", "4", image="b.png")], ""),
        ([row("a", "3"), row("b", "3")], ""),
        ([row("a", "3"), row("b", "4", "How many red?")], ""),
        ([row("a", "3", choices=["3", "4"]), row("b", "4")], ""),
        (
            [row("a", "3"), row("b", "4", "how  many?"), row("c", "3")],
            "1 question has different answers in records with the same images, such as 'a' and 'b': remove the records "
            "with a wrong answer",
        ),
    ],
)
def test_a_question_with_two_answers(rows: list[Any], warning: str, tmp_path: Path) -> None:
    files = []
    for number, part in enumerate((rows[:1], rows[1:])):
        full = [{name: each.get(name) for name in RL_SCHEMA.names} for each in part]
        files.append(tmp_path / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(full, schema=RL_SCHEMA), files[-1])
    assert conflicting_answers(files) == warning
