"""The replies of a run that were cut off, with the settings that give them room."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from groundtrace.pipelines.running.plan import Plan
from groundtrace.schemas.run_summary import TruncatedReplies

_SETTING = "max_tokens"


def truncated_replies(
    found: Mapping[tuple[str, str], tuple[int, int, int]], plan: Plan
) -> dict[str, dict[str, TruncatedReplies]]:
    """By role and stage, what :attr:`groundtrace.pipelines.running.counts.Figures.truncated` has found.

    An endpoint's ``max_tokens_limit`` helps always. The stage's own ``max_tokens`` helps where the replies were asked
    for with no more than that: those that must be read were asked for again with more.
    """
    told: dict[str, dict[str, TruncatedReplies]] = {}
    for (role, stage), (replies, truncated, max_tokens) in found.items():
        section, own = _max_tokens_of(plan, stage)
        settings = [f"{section}.{_SETTING}"] if own == max_tokens else []
        settings.append(f"endpoints.{plan.roles[role]}.max_tokens_limit")
        told.setdefault(role, {})[stage] = TruncatedReplies(replies, truncated, max_tokens, tuple(settings))
    return told


def _max_tokens_of(plan: Plan, stage: str) -> tuple[str, int | None]:
    """The section of the config that a stage has, and the ``max_tokens`` in it; "" and None where there is none."""
    described = plan.recipe.stage(stage)
    kind: type | None = None if described is None else described.settings
    for each in fields(plan.settings):
        section: Any = getattr(plan.settings, each.name)
        if kind is not None and isinstance(section, kind):
            return each.name, getattr(section, _SETTING, None)
    return "", None
