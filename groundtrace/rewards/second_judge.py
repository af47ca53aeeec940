"""A second judge beside the first: it is asked the same and decides nothing; the run counts how often both agree.

A judge's word cannot be checked against pixels, so that its errors show only against another judge. Where the role
``second_judge`` has an endpoint, each verdict that a judge gave on a trace's reasoning is asked of it too; its value
stands in the verdict's evidence, and the run reports Cohen's κ (:mod:`groundtrace.rewards.agreement`).
"""

import json
from dataclasses import replace

from groundtrace.schemas.records import Verdict

ROLE = "second_judge"
YES, NO, UNSCORED = "yes", "no", "unscored"


def with_second(verdict: Verdict, second: Verdict) -> Verdict:
    """The first judge's verdict with the second one's value and reason as evidence."""
    said = json.dumps({ROLE: second.value, "reason": second.reason}, ensure_ascii=False)
    return replace(verdict, evidence=(*verdict.evidence, said))


def labels_of(verdict: Verdict) -> tuple[str, str] | None:
    """What both judges said, as labels, or None where only one was asked. A probability is a yes from 0.5."""
    found = [fields for fields in map(json.loads, verdict.evidence) if ROLE in fields]
    return (_label(verdict.value), _label(found[0][ROLE])) if found else None


def _label(value: float | None) -> str:
    if value is None:
        return UNSCORED
    return YES if value >= 0.5 else NO
