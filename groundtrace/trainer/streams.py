"""The streams of iVGR (§3.2): a row with streams is asked once in each stream, with the prompt of that stream.

Each stream of a question has its own rollouts and advantages: it is a :class:`groundtrace.trainer.group.Group`. The
streams' responses are scored together, because the textual responses are compared with the best grounded one.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from groundtrace.trainer.shards import TrainingRow


def asked(row: TrainingRow, only: Collection[str] = ()) -> list[TrainingRow]:
    """A copy of the row for each of its streams (only those in ``only``, if given); the row itself without streams.

    The user turn of a copy is the stream's prompt, and its ``context.stream`` is the stream.
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
    """Groups the prompts' indices by what is scored together: adjacent prompts of one question in different streams.

    Every other prompt is a group by itself.
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
