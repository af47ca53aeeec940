"""Which side an answer takes: yes (true) or no (false)."""

from __future__ import annotations

import re

from schemas.answers.wrapping import unled

POLARITY = {"yes": True, "true": True, "no": False, "false": False}
"""The words that take a side wherever they lead or end an answer, in lower case; those that a gold answer may be."""

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
"""What takes a side as a whole clause only: "correct", but not "the correct one" or "on the right"."""

_NEGATED = re.compile(
    r"\b(?:not|isn['’]t|n['’]t)\s+(?:(true|false)\b|(yes|no|correct|right|incorrect|wrong)(?=\s*(?:[.,;:!?。，！)]|$)))"
)
_NO_ANSWER = re.compile(
    r"\bno\s+(?:idea|clue|way|answer|comment|opinion|information|data|response|image|picture)\b"
    r"|\bn/a\b"
)
_CLAUSES = re.compile(r"[.,;:/!?\n()。，、；：！？]|\b(?:or|and|but)\b|\banswer is\b")
_BOTH_SIDES = re.compile(r"\b(?:yes(?:\s+nor)?\s+no|no(?:\s+nor)?\s+yes)\b")


def polarity(text: str) -> bool | None:
    """Returns the side that an answer takes (without a leading "The answer is"); None for neither or both.

    The leading or the final word or clause decides. A later "no" within a clause ("Yes, there is no dog") is not an
    answer word; one that stands alone or ends the answer is, and so are "true" and "false" anywhere, and "yes no" side
    by side. "Not true" and "not yes" are the other side. Never raises; linear in ``len(text)``.
    """
    text = _NO_ANSWER.sub("unknown", text.casefold().strip())
    text = _NEGATED.sub(lambda found: "false" if _ALONE[found.group(1) or found.group(2)] else "true", text)
    words = re.findall(r"[^\W\d_]+", text)
    if not words or _BOTH_SIDES.search(text):
        return None
    clauses = [clause for part in _CLAUSES.split(text) if (clause := unled(part.strip(" *'\"-–—")).strip())]
    sides = {POLARITY[word] for word in words if word in {"true", "false"}}
    sides |= {_ALONE[clause] for clause in clauses if clause in _ALONE}
    ends = [_LEADING[word] for word in (words[0], words[-1]) if word in _LEADING]
    ends += [_ALONE[clause] for clause in (*clauses[:1], *clauses[-1:]) if clause in _ALONE]
    if not ends or not sides | {*ends} <= {ends[0]}:
        return None
    return ends[0]
