"""What makes two commands the same run: the data, and the settings that change what comes of it.

A run may go on with more steps, other log settings, threads, waits and addresses. A setting counts unless it is named
here, so that a new one is never overlooked.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.shards import Shards

UNUSED = {"sft": ("grpo", "rollout", "reward", "eval"), "grpo": ("sft", "eval")}
"""The sections that a command does not read."""
FREE = {
    *("threads", "log", "max_idle_steps", "sft.steps", "sft.epochs", "grpo.steps", "grpo.epochs"),
    *("model.gradient_checkpointing", "reward.wait_s"),
    *("rollout.base_url", "rollout.served_name", "rollout.timeout_s"),
}
"""Keys and sections that change how a run goes, not what comes of it."""
FREE_OF_ENDPOINTS = {
    *("base_url", "api_key_env", "api_key_file", "max_concurrency", "adaptive", "requests_per_minute"),
    *("tokens_per_minute", "max_bytes_in_flight", "connect_timeout_s", "read_timeout_s", "timeout_s", "hedge_after_s"),
    *("max_retries", "usd_per_million_tokens_in", "usd_per_million_tokens_out", "usd_per_million_tokens_cached"),
}
"""The same, of each of ``reward.endpoints``."""


def identity(command: str, settings: TrainerSettings, shards: Shards, plan: str = "") -> dict[str, Any]:
    """The command, the data with its batch plan, and each setting that counts by its dotted key; plain values that two
    runs compare.

    A model's folder stands there in full, so that it is the same from wherever the command is given; endpoints that
    play no role do not.
    """
    values: Any = TypeAdapter(TrainerSettings).dump_python(settings, mode="json")
    path = Path(settings.model.path)
    values["model"]["path"] = str(path.resolve()) if path.is_dir() else settings.model.path
    played = set(settings.reward.played.values())
    values["reward"]["endpoints"] = {name: v for name, v in values["reward"]["endpoints"].items() if name in played}
    kept = {name: value for name, value in values.items() if name not in UNUSED[command]}
    data = f"{len(shards)} rows, ids sha256 {shards.sha256[:12]}"
    planned = {"batch_plan": plan} if plan else {}
    return {"command": command, "data": data, **planned, **dict(_leaves(kept, ()))}


def difference(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first key in which two identities differ, with both values; None where they are the same."""
    for key in [*now, *saved]:
        if saved.get(key) != now.get(key):
            return f"{key} was {_shown(saved.get(key))} and is now {_shown(now.get(key))}"
    return None


def _leaves(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        at = (*path, name)
        of_endpoint = at[:2] == ("reward", "endpoints") and len(at) == 4
        if ".".join(at) in FREE or (of_endpoint and name in FREE_OF_ENDPOINTS):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, at)
        elif value is not None:
            yield ".".join(at), value


def _shown(value: Any) -> str:
    return "left out" if value is None else repr(value)
