"""Provides the client of our reward server as a file. Some trainers load their reward from a file, so exports write the
client beside the RL rows.
"""

from collections.abc import Mapping
from importlib.resources import files

FILE = "groundtrace_client.py"


def reward_client(written: Mapping[str, int]) -> Mapping[str, str]:
    """Return a mapping from the client's file name to the file's text; empty if no RL rows were written.

    ``written`` is the number of written rows of each side (sft or rl).
    """
    return {FILE: (files("groundtrace.publishing.rewards") / FILE).read_text("utf-8")} if written.get("rl") else {}
