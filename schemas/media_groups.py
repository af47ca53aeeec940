"""Finds media groups: the connected components of questions that have a medium in common."""

from collections.abc import Iterable, Iterator


def media_groups(uses: Iterable[tuple[str | None, tuple[str, ...]]]) -> Iterator[tuple[str, str]]:
    """Yield the id and the group of each question; a group's name is its smallest media hash.

    Each of ``uses`` is a question's id with the hashes of its media. The id is None for a question that is not split:
    such a question only joins its media into one group.
    """
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    uses = list(uses)
    for _, hashes in uses:
        for value in hashes:
            parent.setdefault(value, value)
        for value in hashes[1:]:
            low, high = sorted((root(hashes[0]), root(value)))
            parent[high] = low
    for question_id, hashes in uses:
        if question_id is not None:
            yield question_id, root(hashes[0])
