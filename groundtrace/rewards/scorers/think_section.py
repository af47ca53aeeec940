"""Checks that a trace has reasoning if and only if its question is complex (SAIL-RL App. A.1, Conditional Annotation).

A trace is a response of a teacher model. A policy is later trained on the traces. The think section is the part of a
response for its reasoning. Each question has a label, which states whether the question is simple or complex.

For a complex question, the value is 1 if the think section has reasoning in words. For a simple question, the value is
1 if the think section is empty. Otherwise the value is 0. The value is also 0 if the judge section (``<judge>``) is
missing or empty. The judge section states the decision to think or to answer directly. Invisible characters,
punctuation, markup, and text with fewer than :data:`MIN_WORDS` words ("N/A", "Hmm") are not reasoning.

The curation of training data rejects a trace with the value 0. The reason is that the policy is later rewarded for
thinking about complex questions, and for answering simple questions directly. A rejected trace would teach the policy
another behaviour. This scorer checks the think section, and :mod:`groundtrace.rewards.scorers.judging` checks the
decision in the judge section.
"""

import re

from groundtrace.rewards.case import Case
from groundtrace.rewards.complexity import COMPLEXITY, SIMPLE
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Verdict
from groundtrace.schemas.text import words_in

NAME = "think_section"
MIN_WORDS = 3
"""The minimum number of words of a thought that counts as reasoning. A thought with fewer words does not explain how
the answer is found.
"""
_MARKUP = re.compile(r"<!--.*?-->|<[^<>]{0,80}>|&#?\w{1,31};", re.DOTALL)


def reasons(thought: str) -> bool:
    """Return whether the text of a think section is reasoning in words.

    The text must have at least :data:`MIN_WORDS` words, and at least one of them must contain a letter. For example,
    the result is True for "The cup is red", and False for "Hmm" and "1 2 3". Markup is ignored.
    """
    words = words_in(visible(_MARKUP.sub(" ", thought)))
    return len(words) >= MIN_WORDS and any(any(map(str.isalpha, word)) for word in words)


async def _score(case: Case) -> Verdict:
    thought = (case.response.think or "").strip()
    if case.response.judge is None or not case.response.judge.strip():
        return Verdict(NAME, 0.0, "there is no judge section, or it is empty")
    if case.context.added(COMPLEXITY) == SIMPLE:
        return Verdict(
            NAME, float(not thought), "a thought for a simple question" if thought else "no thought, as asked"
        )
    thinks = reasons(thought)
    return Verdict(NAME, float(thinks), "a thought, as asked" if thinks else "no thought for a complex question")


SCORER = Scorer(
    NAME,
    "the question is labelled as simple or complex",
    _score,
    needs=((lambda case: case.context.added(COMPLEXITY) is not None, "the question has no complexity label"),),
    floor=1.0,
    is_gate=True,
)
