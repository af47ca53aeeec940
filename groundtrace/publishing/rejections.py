"""States why a run rejected most or all of its records, and which settings would keep them."""

import json
from collections.abc import Mapping
from typing import Any

from groundtrace.config.flat import flat_values
from groundtrace.schemas.loop_step import loop_section
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted

_INGEST = "ingest"
"""The name of the stage that reads the records of the input."""
_SETTINGS = {
    "too_hard": {"difficulty.low": 0, "difficulty.include_low": True},
    "too_easy": {"difficulty.high": 1, "difficulty.include_high": True},
}
"""The settings with which a run keeps the records that it has rejected for a reason."""
_EFFECT = {
    "too_hard": "but GRPO learns nothing from the answers to a question at which all attempts are wrong",
    "too_easy": "but GRPO learns nothing from the answers to a question at which all attempts are right",
}
"""The effect on training of keeping the records that a run has rejected for a reason."""


def key_prefix() -> str:
    """Return the prefix with which the user sets keys of the config of this run, such as ``rl.set.``.

    The config of ``beam loop`` holds the settings of the runs of the loop in sections such as ``rl.set``. The result is
    "" if this run is not one of the runs of a loop.
    """
    return f"{loop_section()}.set." if loop_section() else ""


def options_to_keep(reason: str, config: Mapping[str, Any], section: str | None = None) -> str:
    """Return the options of a command (``--set …``) that keep the records that were rejected for ``reason``.

    ``config`` is the complete config of the run, with a dict for each section; settings that already have the wanted
    value are left out. ``section`` is a prefix of the keys, such as ``rl.set.``; if it is None, the prefix of this run
    is used (:func:`key_prefix`). The result is "" if no such settings are known for the reason.
    """
    if section is None:
        section = key_prefix()
    values = dict(flat_values(config))
    wanted = {key: value for key, value in _SETTINGS.get(reason, {}).items() if values.get(key, value) != value}
    return " ".join(f"--set {section}{key}={json.dumps(value)}" for key, value in wanted.items())


def why_no_rows(summary: RunSummary, config: Mapping[str, Any]) -> str:
    """Return a text that states why a run made no SFT and no RL rows. For some causes, the text also states what the
    user can do.

    The text is "" if the run made rows, or if it rejected no record. ``summary`` holds the run's counts of records,
    rows and rejections, and ``config`` is its complete config.
    """
    counts = summary.counts
    if counts.kept or not counts.by_reason:
        return ""
    [(reason, records)] = counts.by_reason.most_common(1)
    options = options_to_keep(reason, config)
    advice = f": to see traces all the same, add {options}" if options else ""
    return f"all records were rejected, {records} of {counts.input} as {reason}{advice}"


def why_few_rows(summary: RunSummary, config: Mapping[str, Any]) -> str:
    """Return a text on the reason for which one stage (pipeline step) rejected most of the usable records, with the
    settings that keep them, and the effect of keeping them.

    A record is usable if the stage ``ingest`` did not reject it. "Most" means more than half. The text is "" if there
    is no such reason, if no settings are known for it, or if the run made no rows (:func:`why_no_rows`). ``summary``
    holds the run's counts of records, rows and rejections, and ``config`` is its complete config.
    """
    counts = summary.counts
    usable = counts.input - sum(counts.rejected.get(_INGEST, {}).values())
    for reasons in counts.rejected.values():
        for reason, records in reasons.items():
            options = options_to_keep(reason, config)
            if counts.kept and options and 2 * records > usable:
                were = f"{records} of {counted(usable, 'usable record')} were {reason}"
                return f"{were}: to keep them, add {options} ({_EFFECT[reason]})"
    return ""
