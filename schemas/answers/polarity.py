"""Which side an answer takes: yes (true) or no (false)."""

from __future__ import annotations

import re

POLARITY = {"yes": True, "true": True, "no": False, "false": False}
"""The words that take a side, in lower case."""

_NEGATED = re.compile(r"\b(?:not|isn't|isn’t)\s+(true|false)\b")
_ALONE = re.compile(r"[.,;:/!?\n()]|\b(?:or|and|but)\b|\banswer is\b")
_BOTH_SIDES = re.compile(r"\b(?:yes(?:\s+nor)?\s+no|no(?:\s+nor)?\s+yes)\b")


def polarity(text: str) -> bool | None:
    """Returns the side that an answer takes (without a leading "The answer is"); None for neither or both.

    The leading or the final word decides. A later "no" within a clause ("Yes, there is no dog") is not an answer word;
    one that stands alone or ends the answer is, and so are "true" and "false" anywhere, and "yes no" side by side.
    Never raises; linear in ``len(text)``.
    """
    text = text.casefold().strip()
    text = _NEGATED.sub(lambda match: "false" if match.group(1) == "true" else "true", text)
    words = re.findall(r"[^\W\d_]+", text)
    if not words or _BOTH_SIDES.search(text):
        return None
    sides = {POLARITY[word] for word in words if word in {"true", "false"}}
    parts = [part.strip(" *'\"-–—") for part in _ALONE.split(text)]
    sides |= {POLARITY[part] for part in parts if part in POLARITY}
    ends = [POLARITY[word] for word in (words[0], words[-1]) if word in POLARITY]
    if not ends or not sides | {*ends} <= {ends[0]}:
        return None
    return ends[0]
