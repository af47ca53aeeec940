"""Removes media placeholders and special tokens from texts of models and data sets.

A placeholder such as ``<image 2>`` is removed if it only marks the position of an image in the message. If it is part
of a sentence ("is it larger in <image 2>?"), words replace it ("picture 2"). If a placeholder remained, a
program that reads the text later would expect one more image.
"""

import re
from itertools import count

from groundtrace.schemas.control_text import TOKEN, without_end

PLACEHOLDER = re.compile(r"<\|?(image|video)[\s_]*(\d{0,4})\|?>|\[(image|img)[\s_]*(\d{0,4})\]", re.IGNORECASE)

_RUN = re.compile(rf"(?:{PLACEHOLDER.pattern})(?:\s*(?:{PLACEHOLDER.pattern}))*", re.IGNORECASE)
_SENTENCE_END = ".?!:;"
_AFTER_A_WORD = ",.;?!)"
_GAP = r"[ \t]*\n?[ \t]*\Z"
_LINK = re.compile(
    r"\b(?:in|of|on|from|at|to|and|or|between|with|than|see|by|as|within|inside|under|above|below|beside|near|for|like"
    rf"|describes|shows?){_GAP}",
    re.IGNORECASE,
)
_DEMONSTRATIVE = re.compile(rf"\b(?:this|these|here|following){_GAP}", re.IGNORECASE)
_VERB = re.compile(r"[ \t]*(?:shows?|and|or|depicts?|contains?|displays?|illustrates?|presents?|represents?)\b")
# These begin questions too.
_AUXILIARY = re.compile(
    r"[ \t]*(?:is|are|was|were|has|have)\b(?![ \t]+(?:there|it|this|that|these|those|he|she|they|any)\b)"
)
_NEAR_CHARS = 80
_GLM_BOX = re.compile(
    r"(<answer\s*>\s*)<\|begin_of_box\|>([^<]{0,4000})<\|end_of_box\|>(\s*</answer\s*>)", re.IGNORECASE
)
_TOKEN_RUN = re.compile(rf"(?:{TOKEN.pattern})+")
_REMNANTS = (PLACEHOLDER, TOKEN)


def has_remnants(text: str) -> bool:
    """Return whether a text contains a placeholder for an image or clip, or a special token of a model.

    Special tokens are defined in :mod:`groundtrace.schemas.control_text`.
    """
    return any(remnant.search(text) for remnant in _REMNANTS)


def without_remnants(text: str, media_count: int = 1) -> str:
    """Return the text without placeholders (:func:`without_placeholders`) and without special tokens of models.

    After a placeholder is removed, the texts before and after it may together form a new placeholder or token. In this
    case, a space is inserted after the first character of the new placeholder or token, so that none is left in the
    text. ``media_count`` is the number of images and clips in the message.
    """
    text = _TOKEN_RUN.sub(_gap, without_placeholders(text, media_count))
    while has_remnants(text):
        for remnant in _REMNANTS:
            text = remnant.sub(lambda found: f"{found.group()[0]} {found.group()[1:]}", text)
    return text


def as_written(text: str, media_count: int = 1) -> str:
    """Return a model's reply without its end tokens, and without placeholders of images and clips, such as ``<image>``.

    GLM's tokens around a boxed answer in an answer section are also removed. Other special tokens stay in the text, so
    that the later check of the form rejects the reply. ``media_count``, the number of images and clips in the message,
    decides which words replace a placeholder in a sentence (:func:`without_placeholders`).
    """
    text = _GLM_BOX.sub(r"\1\2\3", without_end(text))
    return without_placeholders(text, media_count)


def without_placeholders(text: str, media_count: int = 1) -> str:
    """Return the text without placeholders for images and clips, such as ``<image 2>``.

    Inside a sentence, words replace a placeholder ("picture 2"); elsewhere, the placeholder is removed. ``media_count``
    is the number of images and clips in the message. If ``media_count`` is 1, a placeholder without a number becomes
    "the picture". Otherwise, such placeholders are numbered from 1.
    """
    unnumbered = count(1)

    def run(found: re.Match[str]) -> str:
        words = _is_word(text, found)
        named = PLACEHOLDER.sub(lambda each: _name(each, media_count, unnumbered), found.group())
        return _spaced(text, found, named) if words else ""

    return _RUN.sub(run, text)


def _gap(run: re.Match[str]) -> str:
    """Return the text that replaces special tokens of a model: a space, or "" if no space is needed.

    ``run`` is the match of one or more tokens in a row. A space is needed if white space is neither directly before nor
    directly after them, because two words could otherwise join. At the start and at the end of the text, no space is
    needed.
    """
    around = run.string[max(0, run.start() - 1) : run.start()], run.string[run.end() : run.end() + 1]
    return " " if all(char and not char.isspace() for char in around) else ""


def _name(found: re.Match[str], media_count: int, unnumbered: "count[int]") -> str:
    kind, number = (found[1], found[2]) if found[1] else (found[3], found[4])
    word = "clip" if kind.lower() == "video" else "picture"
    if not number and media_count < 2:
        return f"the {word}"
    return f"{word} {int(number) if number else next(unnumbered)}"


def _is_word(text: str, run: re.Match[str]) -> bool:
    """Return whether media placeholders, such as ``<image 2>``, are part of a sentence.

    ``run`` is the match of one or more placeholders in a row in ``text``. The text before and after them decides. In a
    sentence, :func:`without_placeholders` replaces them by words; elsewhere, it removes them.
    """
    before, after = text[max(0, run.start() - _NEAR_CHARS) : run.start()], text[run.end() : run.end() + _NEAR_CHARS]
    is_numbered = any(char.isdigit() for char in run.group())
    last, follows = before.rstrip()[-1:], after.lstrip(" \t")[:1]
    is_followed = follows != "" and follows in _AFTER_A_WORD
    if not last or last in _SENTENCE_END:
        is_labelled = last == ":" and is_numbered and (is_followed or follows in ("", "\n"))
        is_subject = _VERB.match(after) or (is_numbered and _AUXILIARY.match(after))
        return is_labelled or bool(is_subject)
    is_linked = _LINK.search(before) or (is_numbered and _DEMONSTRATIVE.search(before))
    return bool(is_linked) or is_followed or follows.islower()


def _spaced(text: str, run: re.Match[str], words: str) -> str:
    """Return the words that replace a placeholder such as ``<image 2>``, fitted to the text around it.

    ``words`` are these words ("picture 2"), and ``run`` is the match of the placeholder in ``text``. The words begin
    with a capital at the start of a sentence. A space is added between the words and a letter or digit directly before
    or after them.
    """
    before, after = text[max(0, run.start() - _NEAR_CHARS) : run.start()], text[run.end() : run.end() + 1]
    if before.rstrip()[-1:] in ("", *".?!"):
        words = words[0].upper() + words[1:]
    return f"{' ' if before[-1:].isalnum() else ''}{words}{' ' if after.isalnum() else ''}"
