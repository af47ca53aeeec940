"""Computes the reward that a policy earns on a run's RL rows if it answers without using the images.

The rows are read from the shards (Parquet files) of the run. A policy is the model in training.
:mod:`groundtrace.rewards.blindness` defines the policy that answers without images. The run writes the computed rewards
to ``run.json``. The data card, the report and the output of `beam run` show them to the user.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.publishing.reading import BATCH_ROWS
from groundtrace.rewards.blindness import COLUMNS, RewardedQuestion, blind_figures, rewarded_question
from groundtrace.rewards.recipes.registry import RECIPES
from groundtrace.schemas.blind_figures import BlindFigures


def blind_baseline(shards: Iterable[Path], reward: str) -> BlindFigures | None:
    """Return the rewards that a policy (the model in training) earns on RL rows if it answers without using the images.

    ``shards`` are the paths of the Parquet files that hold the RL rows. ``reward`` is the name of the reward recipe
    (the code that computes the rewards of one paper), such as ``argos``. Return None if the shards have no rows, if
    ``reward`` is empty, or if the recipe does not define the reward for an answer without looking at the images.
    """
    if not reward:
        return None
    figures = blind_figures(rewarded_questions(shards), RECIPES.named(reward))
    return figures if figures is not None and figures.rows else None


def rewarded_questions(shards: Iterable[Path]) -> Iterator[RewardedQuestion]:
    """Yield the question of each RL row, with the data that a reward needs (e.g. the gold answer), without images.

    ``shards`` are the paths of the Parquet files with the rows. They are read in the order of their paths.
    """
    for path in sorted(shards):
        with pq.ParquetFile(path) as file:
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                for row in batch.to_pylist():
                    yield rewarded_question(row)
