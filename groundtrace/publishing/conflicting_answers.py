"""Finds questions that are asked about the same images in several rows, but with different answers.

In reinforcement learning, such rows contradict each other: for the same prompt, each row rewards a different answer.
Usually one of these answers is wrong.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.publishing.reading import BATCH_ROWS
from groundtrace.schemas.text import counted

_COLUMNS = ("id", "question", "choices", "answer", "images.list.element.path")


def conflicting_answers(shards: Iterable[Path]) -> str:
    """Return a warning for the user if a question has different answers in several rows; "" otherwise.

    Two rows have the same question if the wording (apart from case and spaces), the choices and the images are the
    same. ``shards`` are the Parquet files with the rows of one output set, such as rl.
    """
    answers: dict[object, dict[str, str]] = {}
    for path in sorted(shards):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(_COLUMNS)):
                for row in batch.to_pylist():
                    images = tuple(image["path"] for image in row["images"] or ())
                    key = " ".join(row["question"].lower().split()), tuple(row["choices"] or ()), images
                    answers.setdefault(key, {}).setdefault(row["answer"], row["id"])
    found = [tuple(ids.values()) for ids in answers.values() if len(ids) > 1]
    if not found:
        return ""
    first, second = found[0][:2]
    return (
        f"{counted(len(found), 'question')} {'has' if len(found) == 1 else 'have'} different answers in records with "
        f"the same images, such as {first!r} and {second!r}: remove the records with a wrong answer"
    )
