"""The truncated replies of a run, with the settings that allow longer ones."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from groundtrace.pipelines.running.plan import Plan
from groundtrace.schemas.run_summary import TruncatedReplies

_SETTING = "max_tokens"


def truncated_replies(
    found: Mapping[tuple[str, str], tuple[int, int, int]], plan: Plan
) -> dict[str, dict[str, TruncatedReplies]]:
    """The truncated replies by role and stage, from :attr:`groundtrace.pipelines.running.counts.Figures.truncated`.

    A larger ``max_tokens_limit`` of the endpoint always helps. A larger ``max_tokens`` of the stage helps if the
    replies were requested with no more than that: replies that must be parsed were requested again with more.
    """
    told: dict[str, dict[str, TruncatedReplies]] = {}
    for (role, stage), (replies, truncated, max_tokens) in found.items():
        section, own = _max_tokens_of(plan, stage)
        settings = [f"{section}.{_SETTING}"] if own == max_tokens else []
        settings.append(f"endpoints.{plan.roles[role]}.max_tokens_limit")
        told.setdefault(role, {})[stage] = TruncatedReplies(replies, truncated, max_tokens, tuple(settings))
    return told


def _max_tokens_of(plan: Plan, stage: str) -> tuple[str, int | None]:
    """The config section of a stage and its ``max_tokens``; "" and None without a section."""
    described = plan.stages.stage(stage)
    kind: type | None = None if described is None else described.settings
    for each in fields(plan.settings):
        section: Any = getattr(plan.settings, each.name)
        if kind is not None and isinstance(section, kind):
            return each.name, getattr(section, _SETTING, None)
    return "", None
