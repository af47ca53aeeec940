"""A second judge, which gets the same questions as the first judge, so that the run can measure their agreement.

A judge's verdict cannot be checked against pixels, so the judge's errors are visible only in comparison with another
judge. If the role ``second_judge`` has an endpoint, it also judges each trace's reasoning that the first judge has
judged. The second verdict decides nothing. Its value is stored in the verdict's evidence, and the run reports Cohen's κ
(:mod:`groundtrace.rewards.agreement`).
"""

import json
from dataclasses import replace

from groundtrace.schemas.records import Verdict

ROLE = "second_judge"
YES, NO, UNSCORED = "yes", "no", "unscored"


def with_second(verdict: Verdict, second: Verdict) -> Verdict:
    """Return the first judge's verdict with the second judge's value and reason as evidence."""
    evidence = json.dumps({ROLE: second.value, "reason": second.reason}, ensure_ascii=False)
    return replace(verdict, evidence=(*verdict.evidence, evidence))


def labels_of(verdict: Verdict) -> tuple[str, str] | None:
    """Return the verdicts of both judges as labels, yes from a value of 0.5; None if there is no second verdict."""
    found = [fields for fields in map(json.loads, verdict.evidence) if ROLE in fields]
    return (_label(verdict.value), _label(found[0][ROLE])) if found else None


def _label(value: float | None) -> str:
    if value is None:
        return UNSCORED
    return YES if value >= 0.5 else NO
