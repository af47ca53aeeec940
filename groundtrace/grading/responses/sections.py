"""Finds the sections of a text that are enclosed in tags, such as ``<code>…</code>``, in linear time.

A regular expression such as ``<code>(.*?)</code>`` searches the rest of the text for each opening tag. If a model
writes thousands of opening tags without a closing one, this takes seconds.
"""

import re
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
    """Finds the sections of these tags. Upper and lower case are not distinguished; a tag may have space before ``>``.

    A section goes from an opening tag to the next closing tag of the same name. Tags inside a section are ignored.
    """

    def __init__(self, *names: str) -> None:
        self._tags = {
            name: tuple(re.compile(rf"<{slash}{name}\s*>", re.IGNORECASE) for slash in ("", "/")) for name in names
        }

    def all(self, text: str) -> Iterator[Section]:
        """Yield the sections in their order; they do not overlap."""
        found = {name: self._next(name, text, 0) for name in self._tags}
        while section := min(filter(None, found.values()), key=lambda each: each.start, default=None):
            yield section
            for name, each in found.items():
                if each is not None and each.start < section.end:
                    found[name] = self._next(name, text, section.end)

    def first(self, text: str) -> Section | None:
        """Return the first section; None if the text has none of them."""
        return next(self.all(text), None)

    def _next(self, name: str, text: str, at: int) -> Section | None:
        """Return the first section from ``at`` on.

        If the first opening tag has no closing tag behind it, no later one has one either.
        """
        opening, closing = self._tags[name]
        opened = opening.search(text, at)
        closed = None if opened is None else closing.search(text, opened.end())
        if opened is None or closed is None:
            return None
        return Section(name, text[opened.end() : closed.start()], opened.start(), closed.end())
