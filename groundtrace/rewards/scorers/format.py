"""Scores whether the response has the requested form (SAIL-RL Eq. 1, iVGR §3.2).

The result is a verdict, whose value is 1 if the response has this form, else 0. Some rewards, such as that of SAIL-RL,
add this value with a weight. In the score of Argos Eq. 9, the verdict is a gate: the value 0 makes the whole score of
the response 0.

Deviation: the papers' format rewards check only the sections of the response, such as the think section. Here the
value is also 0 if the response has content, such as points, in a part of the text that no other scorer (check of a
response) reads (:mod:`groundtrace.rewards.form`).
"""

from dataclasses import replace

from groundtrace.rewards.case import Case
from groundtrace.rewards.form import form_fault
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict

NAME = "format"


async def _score(case: Case) -> Verdict:
    question = case.question
    if case.answer is not None and (case.outcome is None or case.outcome.value != 1):
        question = replace(question, answer=case.answer)
    fault = form_fault(case.text, case.response, question, case.form)
    if fault is None:
        return Verdict(NAME, 1.0, "of the form asked for")
    return Verdict(NAME, 0.0, f"{fault}; {case.frame_fault}" if case.frame_fault else fault)


SCORER = Scorer(NAME, "every response has a form", _score, floor=1.0, is_gate=True)
