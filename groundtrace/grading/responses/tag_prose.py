"""Replaces the point and box tags of a text by words, so that the text can be read as prose.

A point tag has two texts: its label, which scorers (checks of a response) use, and its inner text, which a reader sees.
The two texts can differ ("circle" and "the first one"). So :func:`proses_of` and :func:`plain_proses` return two
versions of the prose, one with each text, and a caller can check both. A box tag has only a label.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.stated_counts import MAX_SENTENCE_CHARS, spoken_label
from groundtrace.grading.responses.tags import Tag, scan_tags

_DIGITS = re.compile(r"\d+")


def proses_of(text: str) -> tuple[str, ...]:
    """Return the text with words in place of its point and box tags, in two versions.

    In the first version, the inner text of each point tag replaces the tag. In the second version, the label of the tag
    replaces the tag. Box tags are replaced by their labels in both versions. The result has only one item if both
    versions are the same.
    """
    tags = [(tag, _label_of(tag, text)) for tag in scan_tags(text)]
    inner = _replaced(text, [(tag, label if tag.name == "box" else tag.inner or label) for tag, label in tags])
    return tuple(dict.fromkeys((inner, _replaced(text, tags))))


def plain_proses(text: str) -> tuple[str, ...]:
    """Return the text with words in place of its point and box tags, in one or two versions.

    In the first version, the inner text of each point tag (the text before its closing tag) replaces the tag. In the
    second version, the tag's label (the object's name) does. The result has one item if both versions are the same. If
    the inner texts of several tags are only the numbers of the objects ("1", "2", "3"), labels replace these tags in
    the first version too. Box tags are replaced by their labels in both versions.

    A number that only counts the points of its tag is removed. For example, "one cup" in a tag with one point becomes
    "cup", so that the number is not read as a stated count
    (:func:`groundtrace.grading.responses.stated_counts.spoken_label`).
    """
    tags = [(tag, _label_of(tag, text)) for tag in scan_tags(text)]
    numbered = _numbering([tag for tag, _ in tags])
    inner = [(tag, label if tag.name == "box" or tag in numbered else tag.inner or label) for tag, label in tags]
    return tuple(dict.fromkeys((_spoken(text, inner), _spoken(text, tags))))


def _spoken(text: str, tags: Sequence[tuple[Tag, str]]) -> str:
    """Return the text with words in place of its tags, without numbers that only count the points of a tag.

    ``tags`` holds each point or box tag of the text with its words. For example, the words "one cup" of a tag with one
    point become "cup" (:func:`spoken_label`).
    """
    spoken: list[tuple[Tag, str]] = []
    done, before = 0, ""
    for tag, shown in tags:
        before = (before + text[done : tag.start])[-MAX_SENTENCE_CHARS:]
        phrase = spoken_label(shown, len(parse_points(text[tag.start : tag.end])) or 1, before)
        spoken.append((tag, phrase))
        done, before = tag.end, before + phrase
    return _replaced(text, spoken)


def _numbering(tags: Sequence[Tag]) -> frozenset[Tag]:
    """Return the tags whose inner texts are only the numbers of the objects: "1", "2", "3".

    A number alone can also be a count ("So there are <points …>5</points>"). So the result is empty unless all of these
    conditions are met:

    - At least two tags have a number.
    - The first number is 1.
    - Each later number is 1 again, or is one more than the number before it.
    """
    numbered = [
        (tag, int(digits[0])) for tag in tags if tag.is_numbered and (digits := _DIGITS.findall(tag.inner or ""))
    ]
    values = [value for _, value in numbered]
    is_running = all(after in (1, before + 1) for before, after in pairwise([0, *values]))
    return frozenset(tag for tag, _ in numbered) if len(values) > 1 and is_running else frozenset()


def tag_texts(text: str) -> tuple[str, ...]:
    """Return the texts that the point and box tags in ``text`` contain. Each text occurs only once.

    The result has the label of each tag. It also has the inner text of each point tag (the text before the closing
    tag), if it is not empty.
    """
    found: dict[str, None] = {}
    for tag in scan_tags(text):
        found[_label_of(tag, text)] = None
        if tag.inner and tag.name != "box":
            found[tag.inner] = None
    return tuple(found)


def _label_of(tag: Tag, text: str) -> str:
    return next((box.label for box in parse_boxes(text[tag.start : tag.end])), tag.label)


def _replaced(text: str, tags: Sequence[tuple[Tag, str]]) -> str:
    """Return ``text`` with words in place of its tags.

    ``tags`` holds pairs of a tag and the words that replace this tag, in the order of the tags in ``text``.
    """
    pieces: list[str] = []
    done = 0
    for tag, shown in tags:
        pieces += text[done : tag.start], shown
        done = tag.end
    return "".join(pieces) + text[done:]
