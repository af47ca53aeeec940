"""The streams of iVGR (§3.2): a row that has some is asked once in each, in the words of that stream.

Each stream of a question has rollouts and advantages of its own: it is a :class:`groundtrace.trainer.group.Group`.
Their rewards are scored together, since the textual responses are compared with the best grounded one.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from groundtrace.trainer.shards import TrainingRow


def asked(row: TrainingRow, only: Collection[str] = ()) -> list[TrainingRow]:
    """The row once in each of its streams, or in those of ``only``; itself where it has none.

    Its turn is then that of the stream, and its context says which stream that is.
    """
    streams = [(stream, text) for stream, text in row.streams if not only or stream in only]
    if not row.streams:
        return [row]
    return [
        replace(
            row,
            messages=({"role": "user", "content": text},),
            context=replace(row.context, stream=stream),
            streams=(),
        )
        for stream, text in streams
    ]


def together(rows: Sequence[TrainingRow]) -> list[list[int]]:
    """Which of these prompts, by their places, are scored together: neighbours that ask one question in different
    streams. Every other prompt is by itself.
    """
    found: list[list[int]] = []
    for place, row in enumerate(rows):
        before = [rows[index] for index in found[-1]] if found else []
        streams = [each.context.stream for each in (*before, row)]
        is_one = {each.id for each in before} == {row.id} and None not in streams
        if is_one and len(set(streams)) == len(streams):
            found[-1].append(place)
        else:
            found.append([place])
    return found
