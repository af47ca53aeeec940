"""The verifier as a reward of ms-swift (``swift.rewards.orm``): ``--reward_funcs groundtrace``.

swift hands over the completions with the columns of the rows; the column ``groundtrace`` is the row's reference. It
counts a completion that no function scores as 0, so an unscored one is an error here unless the settings say what it
counts.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from groundtrace.publishing.rewards.plugin import number_of, reward_of, scored_texts
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.rewards.row_reward import BadAnswer

REGISTRIES = ("swift.rewards", "swift.plugin")
"""Where versions 4 and 3 keep their rewards by name."""


class Verified:
    """The reward; its config is the one that the environment names. swift makes it with the arguments of the run, when
    the endpoints of all roles are looked at: raises as :func:`groundtrace.publishing.rewards.plugin.reward_of` does.
    """

    def __init__(self, args: object = None, **_: Any) -> None:
        self.args = args
        reward_of("")

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float]:
        """Returns the reward of each completion. Raises as :func:`groundtrace.publishing.rewards.verl.compute_score`
        does.
        """
        references = columns.get(COLUMN)
        if references is None:
            raise BadAnswer(0, f"the rows have no column {COLUMN!r}: export the run with its references")
        found = scored_texts("", references, list(completions), is_step=True)
        return [number_of("", scored) for scored in found]


def register() -> bool:
    """Puts the reward where swift finds it by the name ``groundtrace``; returns False where swift is not installed."""
    for name in REGISTRIES:
        if importlib.util.find_spec("swift") is not None and importlib.util.find_spec(name) is not None:
            importlib.import_module(name).orms[COLUMN] = Verified
            return True
    return False
