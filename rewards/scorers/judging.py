"""The judging reward of SAIL-RL (§3.2, §3.3): was the choice to think or not to think the right one?

The paper has a model read the ``<judge>`` section and label the question at the same time. Deviation: the label comes
with the question, and the section is read by rules, so that the reward costs no call and does not change with a judge.
"""

import re

from rewards.case import COMPLEX, SIMPLE, Case
from rewards.judge_guard import visible
from rewards.scorer import Scorer
from schemas.records import Verdict
from schemas.responses.response import Response

NAME = "judging"
MAX_JUDGE_CHARS = 2000

_WORDS_ALONE = {"direct": SIMPLE, "no thinking": SIMPLE, "no reasoning": SIMPLE, "think": COMPLEX, "thinking": COMPLEX}
_THOUGHT = r"(?:reason(?:ing)?|think(?:ing)?|thought|inference|deduction|calculation|analysis)"
_NEED = r"(?:need(?:s|ed)?|requir(?:e|es|ed|ing)|(?:un)?necessary)"
_GAP = r"(?:[ \-]+[\w']+){0,4}?[ \-]+"
_CLAIM = re.compile(
    rf"(?P<think>\b{_THOUGHT}\b{_GAP}{_NEED}\b|\b{_NEED}\b{_GAP}{_THOUGHT}\b|\b(?:complex|complicated|difficult)\b)"
    rf"|(?P<direct>\bwithout{_GAP}{_THOUGHT}\b|\b(?:simple|easy|straightforward|trivial)\b"
    r"|\banswer(?:ed|ing)? directly\b|\bdirectly answer(?:ed)?\b|\bdirect answer\b)"
)
_NEGATION = re.compile(r"\b(?:no|not|never|cannot|nothing|hardly|unnecessary|more than)\b|n't\b")
_CLAUSE_END = re.compile(r"[.,;:!?\n()]|\b(?:but|and|so|because|since|as)\b")


def decision_of(judge: str | None) -> str | None:
    """What a ``<judge>`` section decides: ``complex`` (think first), ``simple`` (answer directly) or None.

    None where there is no section, where it says neither or both, or where it is longer than a decision can be (2,000
    characters). It looks for statements that reasoning is (not) needed or required, that the question is (not) simple
    or complex, and that it can be answered directly; a negation in the same clause reverses a statement. Never raises.
    """
    if judge is None or len(judge) > MAX_JUDGE_CHARS:
        return None
    text = visible(judge).casefold().replace("’", "'").replace("*", "").strip().rstrip(".!")
    if text in _WORDS_ALONE:
        return _WORDS_ALONE[text]
    sides = {_side(text, claim) for claim in _CLAIM.finditer(text)}
    return sides.pop() if len(sides) == 1 else None


def _side(text: str, claim: re.Match[str]) -> str:
    """The side of one claim, with the negations of its clause up to its end."""
    before = _CLAUSE_END.split(text[: claim.start()])[-1]
    negated = len(_NEGATION.findall(before + claim.group())) % 2 == 1
    return COMPLEX if (claim.lastgroup == "think") != negated else SIMPLE


def score_judging(response: Response, complexity: str | None) -> Verdict:
    """R_judge (SAIL-RL §3.2): 1 when the response decides to think about a complex question or to answer a simple one
    directly, 0 when it decides otherwise or when no decision can be read; unscored without a complexity label.

    Only the decision counts, as in the paper, not whether the think section then holds anything. Raises ValueError for
    a label that is neither ``simple`` nor ``complex``.
    """
    if complexity is None:
        return Verdict(NAME, None, "the question has no complexity label")
    if complexity not in (SIMPLE, COMPLEX):
        raise ValueError(f"complexity is simple or complex, got {complexity!r}")
    decision = decision_of(response.judge)
    if response.judge is None:
        return Verdict(NAME, 0.0, "malformed: the response has no judge section")
    if decision is None:
        return Verdict(NAME, 0.0, f"malformed: the judge section decides nothing: {response.judge!r:.80}")
    return Verdict(NAME, float(decision == complexity), f"judged {decision}, labelled {complexity}")


async def _score(case: Case) -> Verdict:
    return score_judging(case.response, case.context.complexity)


SCORER = Scorer(
    NAME,
    "the question is labelled as simple or complex",
    _score,
    needs=((lambda case: case.context.complexity is not None, "the question has no complexity label"),),
)
