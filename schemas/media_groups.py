"""Divides questions into media groups: questions that have an image or video in common are in the same group."""

from collections.abc import Iterable, Iterator


def media_groups(uses: Iterable[tuple[str | None, tuple[str, ...]]]) -> Iterator[tuple[str, str]]:
    """Divide questions into groups that have no media in common, and yield (question id, group name) for each question.

    ``uses`` has one item for each question: its id and the hashes of its media. Two questions are in the same group if
    they have a medium in common. They are also in the same group if a chain of questions connects them, in which each
    question has a medium in common with the next one. The name of a group is its smallest media hash.

    Special case: an item with the id None is not a question. It only states that its media belong together, so that the
    questions with these media are in the same group. Nothing is yielded for this item.
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
