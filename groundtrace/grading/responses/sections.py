"""Finds the sections of a text that are enclosed in tags, such as ``<code>…</code>``, in linear time.

A regular expression such as ``<code>(.*?)</code>`` searches the rest of the text for each opening tag. If a model
writes thousands of opening tags without a closing one, this takes seconds.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """Holds one section: its tag's name, its content, and its start and end in the text, with its tags."""

    name: str
    content: str
    start: int
    end: int


class Sections:
    """Finds the sections that are enclosed in the tags ``names``.

    Upper and lower case are not distinguished, and a tag may have space before ``>``.

    A section goes from an opening tag to the next closing tag of the same name. Tags inside a section are ignored.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._tag = re.compile(rf"<(/?)({'|'.join(names)})\s*>", re.IGNORECASE)

    def all(self, text: str) -> Iterator[Section]:
        """Yield the sections in their order; they do not overlap."""
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
        """Return the first section in the text; None if the text has no section."""
        return next(self.all(text), None)
