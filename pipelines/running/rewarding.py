"""Provides the function ``reward`` of ``import groundtrace``: compute the rewards of responses without a training.

A user's mistake raises :class:`groundtrace.schemas.errors.UserError`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundtrace.inference.families.registry import DEFAULT
from groundtrace.pipelines.running.arguments import check_arguments
from groundtrace.publishing.rewards.reference import RowReference
from groundtrace.publishing.rewards.row_reward import SIDE, Answer, RowReward
from groundtrace.publishing.rewards.settings import load_reward_settings, reward_settings
from groundtrace.publishing.rows import Row
from groundtrace.rewards.rows.reward import Scored
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.module_search import search_beside


def reward(row: Row, responses: Sequence[str], config: str | Path | Mapping[str, Any]) -> list[Scored]:
    """Return the reward of each response to the question of an RL row, as a training with this config computes it.

    Args:
        row: A row of the set rl of a run, such as ``gt.open_run("runs/mine").rl[0]``.
        responses: The responses to the row's question. The config determines the coordinate frame (the units) of their
            points and boxes; for example, ``molmo100`` is 0 to 100 of each side. The first key that the config has is
            used: ``speech.frame``, then ``model.frame`` (in a trainer's config), then ``speech.family`` (a model family
            with its own frame). If the config has none of the three, coordinates are pixels of the original image.
        config: The config of the reward or of the trainer: a file, the name of a bundled config such as ``argos``, or a
            mapping such as ``{"reward": {"recipe": "argos"}}``.

    Returns:
        One object for each response, in order: ``reward`` (None if the response is unscored), ``outcome`` (1 if the
        final answer is right), ``verdicts`` and ``value(NAME)``, the value of one verdict. A verdict is the result of a
        scorer, i.e. of code that checks one property; NAME is the name of the scorer.

    Raises:
        UserError: An argument has a wrong type, the row is not a row of the set rl, the config cannot be used, or an
            endpoint (model server) that the reward needs is not ready. Also raised if the recipe needs data that the
            row lacks.
        JudgesDown: Endpoints did not answer for ``reward.wait_s`` seconds.
    """
    check_arguments("reward", reward, locals())
    if row.set != SIDE:
        raise UserError(f"reward() cannot use a row of the set {row.set}: use a row of the set {SIDE}, as opened.rl[0]")
    if isinstance(config, Mapping):
        search_beside(None)  # plug-ins beside the config of an earlier call are not found
        settings = reward_settings(config)
    else:
        settings = load_reward_settings(str(config))
    run = str(row.folder)
    with tempfile.TemporaryDirectory(prefix="groundtrace-") as folder:
        rewarded = RowReward(replace(settings, folder=settings.folder or folder), {run: row.folder})
        try:
            rewarded.check_endpoints()
            reference = RowReference(row.id, row["answer"], run, DEFAULT)
            return rewarded.score([Answer(reference, text) for text in responses])
        finally:
            rewarded.close()
