"""Provides the client of Groundtrace's reward server as a file. The server scores the responses of a model in training.

Some trainers load their reward function from a file, so exports write the client next to the RL rows.
"""

from collections.abc import Mapping
from importlib.resources import files

FILE = "groundtrace_client.py"


def reward_client(written: Mapping[str, int]) -> Mapping[str, str]:
    """Return the file with the client of Groundtrace's reward server, as a mapping from its name to its text.

    The server scores the responses of a model in training. The mapping is empty if the export has no RL rows, because
    only these need a reward. ``written`` is the number of written rows of each training set (sft, rl).
    """
    return {FILE: (files("groundtrace.publishing.rewards") / FILE).read_text("utf-8")} if written.get("rl") else {}
