"""Finds the sections of a text that are enclosed in tags, such as ``<code>…</code>``, in linear time.

This module does not use a regular expression such as ``<code>(.*?)</code>``, which searches the rest of the text for
each opening tag. If a model writes thousands of opening tags without a closing tag, such a search takes seconds.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """Holds one section of a text that is enclosed in tags, such as ``<code>…</code>``.

    ``name`` is the tag's name in lower case, and ``content`` is the text between the tags. ``start`` and ``end`` are
    the offsets of the section in the text, with its tags.
    """

    name: str
    content: str
    start: int
    end: int


class Sections:
    """Finds the sections of a text that are enclosed in given tags, such as ``<code>…</code>``.

    ``names`` are the names of the tags in lower case, such as "code". Upper and lower case in the text are not
    distinguished, and a tag may have space before ``>``.

    A section goes from an opening tag to the next closing tag of the same name. Tags inside a section are ignored.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._tag = re.compile(rf"<(/?)({'|'.join(names)})\s*>", re.IGNORECASE)

    def all(self, text: str) -> Iterator[Section]:
        """Yield all sections (parts between the given tags) of a text, in order. Sections do not overlap."""
        opening, closing = list[re.Match[str]](), {name: deque[re.Match[str]]() for name in self._names}
        for tag in self._tag.finditer(text):
            if tag[1]:
                closing[tag[2].casefold()].append(tag)
            else:
                opening.append(tag)
        end = 0
        for opened in opening:
            if opened.start() < end:
                continue
            name = opened[2].casefold()
            while closing[name] and closing[name][0].start() < opened.end():
                closing[name].popleft()
            if closing[name]:
                closed = closing[name].popleft()
                end = closed.end()
                yield Section(name, text[opened.end() : closed.start()], opened.start(), end)

    def first(self, text: str) -> Section | None:
        """Return the first section (part between the given tags) in the text; None if the text has no section."""
        return next(self.all(text), None)
