"""Provides Groundtrace's verifier (the code that scores responses) as a reward of ms-swift.

ms-swift uses the reward with the option ``--reward_funcs groundtrace``. ms-swift (``swift.rewards.orm``) passes the
completions and the columns of the rows. The column ``groundtrace`` is the row's reference: JSON text by which the
reward finds the row. ms-swift counts a completion without a reward as 0. So an unscored completion raises an error,
unless the setting ``unscored`` gives its reward.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import lost_in, number_of, reward_of, scored_texts, unless_lost
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.rewards.row_reward import BadAnswer

REGISTRIES = ("swift.rewards", "swift.plugin")
"""The modules of swift 4 and swift 3 that hold the rewards by name."""


class Verified:
    """Computes the reward of each completion for ms-swift, which makes an instance and calls it.

    ``args`` are the arguments of the training. The environment variable ``GROUNDTRACE_REWARD`` names the config. The
    constructor checks the endpoints (model servers) of all models that the reward calls. It raises
    :class:`groundtrace.schemas.errors.UserError` if the reward cannot be used, e.g. if an endpoint is not ready.
    """

    def __init__(self, args: object = None, **_: Any) -> None:
        self.args = args
        reward_of("")

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float]:
        """Return the reward of each completion.

        ``columns`` are the columns of the rows, one value for each completion. The column ``groundtrace`` is needed.
        Raises BadAnswer if this column is missing or a completion cannot be scored. Raises
        :class:`groundtrace.publishing.rewards.plugin.Unscored` if a completion has no reward and the config has no
        reward for this case. Raises :class:`groundtrace.rewards.rows.reward.JudgesDown` if a model server does not
        answer.
        """
        references = columns.get(COLUMN)
        if references is None:
            raise BadAnswer(None, f"the rows have no column {COLUMN!r}: export the run with `beam export`")
        found = scored_texts("", references, list(completions), is_step=True)
        lost = map(lost_in, columns.get("rollout_infos") or [None] * len(found))
        return [number_of("", unless_lost(scored, why)) for scored, why in zip(found, lost, strict=True)]


def register() -> bool:
    """Register the reward with ms-swift under the name ``groundtrace``. Return False if ms-swift is not installed."""
    for name in REGISTRIES:
        if importlib.util.find_spec("swift") is not None and importlib.util.find_spec(name) is not None:
            importlib.import_module(name).orms[COLUMN] = Verified
            return True
    return False
