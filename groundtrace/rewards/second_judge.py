"""A second judge: it gets the same questions as the first but does not decide; the run measures their agreement.

A judge's verdict cannot be checked against pixels, so its errors show only in comparison with another judge. If the
role ``second_judge`` has an endpoint, it also judges each trace's reasoning that the judge has judged. Its value is
stored in the verdict's evidence, and the run reports Cohen's κ (:mod:`groundtrace.rewards.agreement`).
"""

import json
from dataclasses import replace

from groundtrace.schemas.records import Verdict

ROLE = "second_judge"
YES, NO, UNSCORED = "yes", "no", "unscored"


def with_second(verdict: Verdict, second: Verdict) -> Verdict:
    """The first judge's verdict with the second judge's value and reason as evidence."""
    evidence = json.dumps({ROLE: second.value, "reason": second.reason}, ensure_ascii=False)
    return replace(verdict, evidence=(*verdict.evidence, evidence))


def labels_of(verdict: Verdict) -> tuple[str, str] | None:
    """The verdicts of both judges as labels; None if there is no second verdict. A value of at least 0.5 is a yes."""
    found = [fields for fields in map(json.loads, verdict.evidence) if ROLE in fields]
    return (_label(verdict.value), _label(found[0][ROLE])) if found else None


def _label(value: float | None) -> str:
    if value is None:
        return UNSCORED
    return YES if value >= 0.5 else NO
