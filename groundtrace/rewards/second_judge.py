"""Adds the verdict (decision) of a second judge, so that a run can measure how often the two judges agree.

A judge is a model that grades texts. Its verdict cannot be checked against the pixels of an image. So the errors of a
judge become visible only if another judge gives a verdict on the same text. If the role ``second_judge`` has an
endpoint (a model server), the model of this role judges the same reasoning as the first judge. The second verdict has
no effect on the score. The value of the second verdict is stored in the evidence of the first verdict. The run (a
pipeline's execution) reports Cohen's κ of the two judges (:mod:`groundtrace.rewards.agreement`).
"""

import json
from dataclasses import replace

from groundtrace.schemas.records import Verdict

ROLE = "second_judge"
YES, NO, UNSCORED = "yes", "no", "unscored"


def with_second(verdict: Verdict, second: Verdict) -> Verdict:
    """Return the first judge's verdict, with the value and the reason of the second judge's verdict as evidence.

    ``verdict`` is the verdict of the first judge, and ``second`` is that of the second judge on the same reasoning.
    """
    evidence = json.dumps({ROLE: second.value, "reason": second.reason}, ensure_ascii=False)
    return replace(verdict, evidence=(*verdict.evidence, evidence))


def labels_of(verdict: Verdict) -> tuple[str, str] | None:
    """Return what both judges of a response decided, as two labels: that of the first judge, then that of the second.

    A label is ``yes`` for a value of at least 0.5, ``no`` for a lower value, and ``unscored`` for no value. ``verdict``
    is the first judge's result. The function returns None if the verdict holds no decision of a second judge
    (:func:`with_second`).
    """
    found = [fields for fields in map(json.loads, verdict.evidence) if ROLE in fields]
    return (_label(verdict.value), _label(found[0][ROLE])) if found else None


def _label(value: float | None) -> str:
    if value is None:
        return UNSCORED
    return YES if value >= 0.5 else NO
