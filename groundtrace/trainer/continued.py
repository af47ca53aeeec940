"""Finds the settings that changed between two commands of the same training, for the user who continues a training."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from groundtrace.config.flat import default_values, flat_values
from groundtrace.config.settings import to_toml
from groundtrace.schemas.safe_files import read_regular
from groundtrace.schemas.text import printable
from groundtrace.schemas.toml_text import MAX_CONFIG_BYTES, read_toml
from groundtrace.trainer.identity import FREE
from groundtrace.trainer.settings import TrainerSettings

MAX_NAMED = 5
"""The maximum number of changed settings that the line of a continued training names."""
PRIVATE = ("rollout.base_url", "log.project")
"""Settings whose values are not recorded, because the records may be sent to other people."""


def changed_settings(output: Path, settings: TrainerSettings) -> dict[str, list[Any]]:
    """Return the settings that differ from those of the command that wrote ``config.toml`` to the folder ``output``.

    Each dotted key has a list with the earlier and the present value; a value is None if the setting is left out. Only
    settings that may change in a training are compared (:data:`groundtrace.trainer.identity.FREE`). The result is empty
    if the file is missing or cannot be read. Raises UnsafeFile if the file is a pipe or a device.
    """
    try:
        earlier = read_toml(read_regular(output / "config.toml", MAX_CONFIG_BYTES).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    was = {**default_values(TrainerSettings), **dict(flat_values(earlier))}  # an earlier version lacks new settings
    was, now = dict(_free(was)), dict(_free(dict(flat_values(read_toml(to_toml(settings))))))
    return {key: [was.get(key), now.get(key)] for key in dict.fromkeys((*now, *was)) if was.get(key) != now.get(key)}


def _free(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if (key in FREE or key.partition(".")[0] in FREE) and key not in PRIVATE:
            yield key, value


def changes_note(changed: Mapping[str, Sequence[Any]]) -> str:
    """Return a text that names changed settings, such as ", with changed settings: sft.epochs 300 -> 60"; "" for none.

    ``changed`` has the earlier and the present value of each setting (:func:`changed_settings`). At most
    :data:`MAX_NAMED` settings are named.
    """
    named = [f"{key} {_value(was)} -> {_value(now)}" for key, (was, now) in list(changed.items())[:MAX_NAMED]]
    more = f" and {len(changed) - MAX_NAMED} more (see train.html)" if len(changed) > MAX_NAMED else ""
    return f", with changed settings: {', '.join(named)}{more}" if named else ""


def _value(value: Any) -> str:
    return "unset" if value is None else printable(f"{value:.60}" if isinstance(value, str) else str(value))


def finished_note(step: int, steps: int, rate: float, last_rate: float | None) -> str:
    """Return a note on a finished training of ``step`` steps that is continued until it has ``steps`` steps.

    ``rate`` is the learning rate of the next step, and ``last_rate`` is that of the last step in metrics.jsonl; None if
    it is unknown. The note names the learning rate only if it rises.
    """
    note = f"the training was finished: steps {step} -> {steps}, model/ is replaced"
    if last_rate is None or rate <= last_rate * (1 + 1e-9):
        return note
    return f"{note}, and the learning rate goes back up from {last_rate:.3g} to {rate:.3g}"
