"""Finds the answer of a response in its prose, for models that were never trained to mark their final answer.

Traces (responses of a teacher) and rollouts (responses of a policy in training) mark their final answer, for example by
answer tags (:func:`groundtrace.grading.responses.response.parse_response`). A model that gets a question without
instructions may not mark its answer. In this case, the answer is searched for in the prose after its thinking.
"""

from __future__ import annotations

import re

from groundtrace.grading.responses.response import outside_think, parse_response
from groundtrace.grading.responses.tag_prose import proses_of

MAX_CHARS = 300
"""Longer prose is an answer only if a sentence states the answer."""

_SECTIONS = re.compile(r"<judge\s*>.*?</judge\s*>|</?(?:answer|judge)\s*>", re.IGNORECASE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[!?])\s+|(?<=\w{2}\.)\s+|(?<=[)\]}\"'*\d]\.)\s+|(?<=[。！？])\s*|\n+")
_STATED = re.compile(
    r"\banswer\s*(?:\**\s*[:：]|(?:is|would be|should be|must be)\b)\s*\**\s*:?\s*(\S.*)"
    r"|((?:答案|选项|答え|正解|정답).+)|(\b(?:respuesta|réponse|antwort|resposta|risposta)\b.+)",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"(?:so|thus|hence|therefore|overall|finally|in total|in all|altogether|in conclusion|in summary)\b"
    r"|所以|因此|综上|故|よって",
    re.IGNORECASE,
)
_MAX_READ_CHARS = 4000


def stated_answer(text: str) -> str | None:
    """Return the final answer of a response: the marked answer or, without one, the answer in its prose. Never raises.

    A marked answer is in answer tags or in a box, for example. The prose is the text outside the thinking, which may be
    unclosed. The answer in the prose is the first of the following that exists:

    - the text after the last "the answer is";
    - the last sentence, if it begins like a conclusion ("So the total is 5.");
    - the whole prose, if it has at most ``MAX_CHARS`` characters.

    Returns None if the response has none of these texts.
    """
    marked = parse_response(text).answer
    if marked is not None:
        return marked
    prose = _without_tags(outside_think(text).strip()[-_MAX_READ_CHARS:]).strip()
    sentences = [sentence.strip() for sentence in _SENTENCE_END.split(prose) if sentence.strip()]
    for sentence in reversed(sentences):
        stated = _STATED.search(sentence)
        if stated is not None:
            return next(group for group in stated.groups() if group).strip()
    if sentences and _CONCLUDES.match(sentences[-1]):
        return sentences[-1]
    return prose if 0 < len(prose) <= MAX_CHARS else None


def _without_tags(text: str) -> str:
    """Return the text without section tags such as ``<answer>``, and with words in place of its point and box tags.

    A point tag is replaced by its inner text. If the inner text is empty, the label replaces the tag. A box tag is
    replaced by its label.
    """
    return _SECTIONS.sub(" ", proses_of(text)[0])
