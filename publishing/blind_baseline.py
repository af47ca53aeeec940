"""What a policy earns on a run's RL rows that never looks: read from the shards, and put in words.

The figures are those of :mod:`rewards.blindness`. run.json holds them; card, report, what `beam run` prints and the
forecast of a preview have them in the same words.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from publishing.figures import BATCH_ROWS
from rewards.blindness import RewardedQuestion, blind_figures
from rewards.recipes.registry import RECIPES
from schemas.geometry import Box
from schemas.records import Question
from schemas.run_summary import BlindFigures

_COLUMNS = ("question", "answer", "answer_type", "choices", "gold_boxes", "entities", "pointable", "streams")


def blind_baseline(shards: Iterable[Path], reward: str) -> BlindFigures | None:
    """The figures of the rows in RL shards under the reward of that name; None without rows or without a reward."""
    if not reward:
        return None
    figures = blind_figures(rewarded_questions(shards), RECIPES[reward])
    return figures if figures.rows else None


def rewarded_questions(shards: Iterable[Path]) -> Iterator[RewardedQuestion]:
    """The questions of RL shards, without their images."""
    for path in sorted(shards):
        with pq.ParquetFile(path) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                for row in batch.to_pylist():
                    yield _question(row)


def _question(row: dict) -> RewardedQuestion:
    choices, boxes, entities = (row.get(name) for name in ("choices", "gold_boxes", "entities"))
    gold = tuple(Box(box["label"], box["x1"], box["y1"], box["x2"], box["y2"]) for box in boxes or ())
    question = Question(
        "",
        "",
        "",
        (),
        row["question"],
        row["answer"],
        row["answer_type"],
        tuple(choices) if choices else None,
        gold_boxes=gold or None,
    )
    known = None if entities is None else tuple(entities)
    return RewardedQuestion(question, known, tuple(row.get("pointable") or ()), tuple(row.get("streams") or ()))


def blind_text(figures: BlindFigures) -> str:
    """One or two sentences: what not looking earns, on which rows, by which answers; and a warning where it is much."""
    ungraded = figures.rows - figures.counted
    if figures.share is None:
        return "What a policy earns that never looks is not computed: only a judge can grade these rows."
    types = ", ".join(f"{each.kind} {each.answer!r} {each.earned:.2f}" for each in figures.types.values())
    left = f"; the other {ungraded} of {figures.rows} rows only a judge can grade" if ungraded else ""
    text = f"A policy that never looks earns up to {figures.share:.2f} of what looking earns ({types}){left}."
    if figures.is_high:
        text += " That is much: a rising reward need not mean that the policy looks. Lower rl.max_same_answer or "
        text += "rl.max_absent, or add questions with other answers."
    return text
