"""Finds whether an answer means yes (true) or no (false), and whether the answer corrects itself."""

from __future__ import annotations

import re

from groundtrace.grading.answers.wrapping import without_answer_phrase

POLARITY = {"yes": True, "true": True, "no": False, "false": False}
"""The words for yes (True) and no (False), in lower case.

If an answer starts or ends with one of these words, this word decides whether the answer means yes or no, unless
another part of the answer contradicts the word. A gold (correct) yes-no answer is exactly one of these words.
"""

_LEADING = POLARITY | dict.fromkeys(("yeah", "yep", "yup"), True) | dict.fromkeys(("nope", "nah"), False)
_YES = re.findall(
    r"\w+",
    "y t correct right affirmative oui sí si sim ja 是 是的 是对的 是正确的 没错 对 对的 正确 正确的 真 有 "
    "はい そう そうです 네 예",
)
_NO = re.findall(
    r"\w+",
    "n f incorrect wrong untrue negative non nein não 否 不 不是 不是的 不对 不正确 错 错误 错的 是错的 "
    "是错误的 假 没有 いいえ いや 아니요 아니오",
)
_ALONE = _LEADING | dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
"""Words that mean yes or no only as a whole clause: "correct", but not "the correct one" or "on the right"."""

_NEGATED = re.compile(
    r"\b(?:not|isn['’]t|n['’]t)\s+(?:(true|false)\b|(yes|no|correct|right|incorrect|wrong)(?=\s*(?:[.,;:!?。，！)]|$)))"
)
_NO_ANSWER = re.compile(
    r"\bno\s+(?:doubt|question|problem|wonder|one)\b|(?:n['’]t|\b(?:can)?not|\bnever|\bwrong)\s+(?:(?!not\b)[a-z]+\s+){1,3}?(?:yes|no)[.!]?\Z"
    r"|\b(?:yes|no)[\"'”’]?\s+(?:is|was|would\s+be|isn['’]t)\s+(?:not|wrong|incorrect|false|the\s+wrong)\b|\b(?:yes|no)\s+isn['’]t\b"
    r"|\bno\s+(?:idea|clue|way|answer|comment|opinion|information|data|response|image|picture)\b"
    r"|\bn/a\b"
)
_RETRACTION = re.compile(
    r"\b(?:wait|actually|sorry|correction|rather|on\s+second\s+thoughts?|scratch\s+that|i\s+mean|hmm+|going\s+to\s+say|but\s+it['’]?\s?(?:i?s|was))\b",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|may\s+be|could\s+be|undecided|uncertain|depends|sometimes|impossible|no\s+way)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:no|not\s+enough)\s+(?:idea|clue|answer|comment|opinion|information|data|image|picture)s?\b|\bn/?a\b|^\W*(?:the|this|that)\s+(?:correct|right|best|same)\s+(?:one|answer|number|option)\W*$"
    r"|\b(?:unknown|unclear|unsure|not\s+sure|cannot|can['’]?t|unable|(?:do\s+not|don['’]?t)\s+know)\b",
    re.IGNORECASE,
)
_ANSWER_IS = re.compile(
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:the|my)\s+(?:[a-z]+\s+)?answer\s+is:?\s+", re.IGNORECASE
)
_DENIAL = re.compile(
    r"(?:not\s+(?:really|at\s+all|quite)|never|hardly|(?:definitely|certainly|absolutely|of\s+course)\s+not|no\s+way"
    r"|(?:i\s+)?(?:do\s+not|don['’]t)\s+think\s+so"
    r"|(?:it|that|this|there|they|he|she)\s+(?:is|are|was|were|does|do|did|has|have)(?:\s+not|n['’]t))\W*",
    re.IGNORECASE,
)
"""Matches whole answers that mean no in other words."""
_STATEMENT = re.compile(
    r"\b(?:is|are|was|were|does|do|did|has|have|had|can|will|shows?|contains?|refuted|supported|rejected|confirmed|definitely|absolutely|certainly|indeed|sure"
    r"|surely|of\s+course|undoubtedly|undeniably|obviously|clearly|exactly|doubt|question|think\s+so|not|both\s+are)\b|['’]s\s"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"[.,;:/!?\n()。，、；：！？]|\b(?:or|and|but)\b|\banswer is\b")
_BOTH_SIDES = re.compile(r"\b(?:yes(?:\s+n?or)?\s+no|no(?:\s+n?or)?\s+yes)\b")


def is_taken_back(answer: str) -> bool:
    """Return whether an answer corrects itself, as "A ... wait, B" does."""
    return _RETRACTION.search(answer) is not None


def may_take_side(text: str, side: bool) -> bool:
    """Return whether an answer may mean the given side, yes or no, in other words: "It does", "Not at all".

    ``side`` is True for the side yes, and False for the side no. "It does" may mean either side, but "Not at all" can
    only mean no. If an answer has a word for yes and a word for no, the result is True only if the answer corrects
    itself ("No, wait, yes"). The result is False for uncertain answers ("maybe"), refusals, and texts that state
    nothing ("Norway", "on the right").
    """
    text = _ANSWER_IS.sub("", text.strip(), count=1)
    words = set(re.findall(r"[^\W\d_]+", text.casefold()))
    if _HEDGE.search(text) is not None or is_refusal(text) or (side and _DENIAL.fullmatch(text.strip())):
        return False
    if len({POLARITY[word] for word in words & POLARITY.keys()}) == 2:
        return is_taken_back(text)
    return _DENIAL.fullmatch(text.strip()) is not None or _STATEMENT.search(text) is not None


def is_refusal(text: str) -> bool:
    """Return whether an answer refuses to answer or has no content: "no idea", "I cannot tell", "the correct one"."""
    return _REFUSAL.search(text) is not None


def polarity(text: str) -> bool | None:
    """Return True for an answer that means yes, False for no, and None for neither or both.

    An answer means yes or no if its first word, last word, first clause or last clause means yes or no. A phrase before
    a clause ("It is") is skipped. The result is None in these cases:

    - None of these four parts means yes or no.
    - Two of the four parts contradict each other.
    - Another clause is only yes or no, and contradicts one of the four parts ("yes, no, maybe").
    - The word "true" or "false" anywhere in the answer contradicts one of the four parts.
    - "Yes" and "no" are next to each other ("yes or no").

    Any other "no" is ignored ("Yes, there is no dog"). "Not true" and "not yes" mean no. Never raises; takes time
    linear in ``len(text)``.
    """
    if _BOTH_SIDES.search(text.casefold()):
        return None
    text = _NO_ANSWER.sub("unknown", text.casefold().strip())
    text = _NEGATED.sub(lambda found: "false" if _ALONE[found.group(1) or found.group(2)] else "true", text)
    words = re.findall(r"[^\W\d_]+", text)
    if not words or _BOTH_SIDES.search(text):
        return None
    clauses = [
        clause for part in _CLAUSES.split(text) if (clause := without_answer_phrase(part.strip(" *'\"-–—")).strip())
    ]
    sides = {POLARITY[word] for word in words if word in {"true", "false"}}
    sides |= {_ALONE[clause] for clause in clauses if clause in _ALONE}
    ends = [_LEADING[word] for word in (words[0], words[-1]) if word in _LEADING]
    ends += [_ALONE[clause] for clause in (*clauses[:1], *clauses[-1:]) if clause in _ALONE]
    if not ends or not sides | {*ends} <= {ends[0]}:
        return None
    return ends[0]
