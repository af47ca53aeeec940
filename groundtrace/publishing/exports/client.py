"""The client of our reward server. Exports write it beside the RL rows for trainers that load a reward from a file."""

from collections.abc import Mapping
from importlib.resources import files

FILE = "groundtrace_client.py"


def reward_client(written: Mapping[str, int]) -> Mapping[str, str]:
    """Return the client's file name and its text from this package; empty if no RL rows were written."""
    return {FILE: (files("groundtrace.publishing.rewards") / FILE).read_text("utf-8")} if written.get("rl") else {}
