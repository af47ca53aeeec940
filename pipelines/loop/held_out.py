"""Divides the questions of an input, by media group, into a part to train on and a part that is held out.

The evaluation asks the held-out questions, and no step trains on them. Two questions are in the same media group if
they share an image (equal decoded pixels), directly or through other questions. All questions of a media group are in
the same part. Every record of the input is in exactly one of the two parts. These records are always in the part to
train on:

- Records that cannot be used at all. ``beam run``, whose input is this part, rejects them and states why.
- Records that ``trainer eval`` cannot use: records with a clip, without a question, or with an id that is not unique.
  All other questions of their media groups are then in the part to train on, too.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.media_groups import media_groups
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.text import counted

PURPOSE = "held out"
"""The name of this random choice. It is hashed together with the name of each media group, so that the order of the
groups is independent of other random choices (:func:`groundtrace.schemas.ordering.unit_hash`).
"""


class SplitError(UserError):
    """Raised if the questions cannot be divided, as configured, into a part to train on and a part to evaluate on."""


@dataclass(frozen=True)
class Seen:
    """Describes one record of the input, with the facts that the split needs.

    ``media`` holds a hash of each of the record's images or clips; it is empty for a record that cannot be used.
    ``may_be_held`` is True if the record may be held out for the evaluation; it is False, for example, for a record
    with a clip, which the evaluation cannot use.
    """

    media: tuple[str, ...] = ()
    may_be_held: bool = True


def held_out(seen: Sequence[Seen], share: float, seed: int) -> dict[int, str]:
    """Choose the records to hold out for the evaluation, and return the media group of each of them.

    A media group consists of the records that are connected by common images. The keys of the result are the indices
    of the held-out records in ``seen``. The values are the names of the media groups to which these records belong.

    The media groups are taken in the order of a hash of their names. A group is skipped if it would make the held-out
    part larger than wanted, or if one of its records may not be held out.

    Args:
        seen: The facts about each record of the input, in the order of the input.
        share: The wanted share of the usable records (0–1). The number of records is rounded up.
        seed: A number that changes the hashes, so that other groups are chosen.

    Raises :class:`SplitError` if one of the two parts would have no usable record.
    """
    usable = {str(place): each.media for place, each in enumerate(seen) if each.media}
    members: dict[str, list[int]] = defaultdict(list)
    for place, group in media_groups(usable.items()):
        members[group].append(int(place))
    free = {group: places for group, places in members.items() if all(seen[place].may_be_held for place in places)}
    wanted = room = math.ceil(share * len(usable))
    held: dict[int, str] = {}
    for group in sorted(free, key=lambda name: (unit_hash(name, seed, PURPOSE), name)):
        if len(free[group]) <= room:
            held |= dict.fromkeys(free[group], group)
            room -= len(free[group])
    if not held or len(held) == len(usable):
        raise SplitError(_problem(usable, members, free, held, wanted, share))
    return held


def _problem(
    usable: dict[str, tuple[str, ...]],
    members: dict[str, list[int]],
    free: dict[str, list[int]],
    held: dict[int, str],
    wanted: int,
    share: float,
) -> str:
    """Return the message of a SplitError: why one part of the questions would be empty, and what to do.

    The empty part is the held-out part (for the evaluation) or the part to train on. An index is a record's place in
    the input, from 0.

    Args:
        usable: The hashes of the images and clips of each usable record, by the record's index (as text).
        members: The indices of the records in each media group, by the name of the group.
        free: The part of ``members`` with the media groups that may be held out.
        held: The name of the media group of each held-out record, by the record's index.
        wanted: The wanted number of held-out records.
        share: The wanted share (0–1) of held-out records among the usable records.
    """
    if not usable:
        return "no record of the input can be used: `beam validate` lists the reasons"
    all_of_it = f"the input has {counted(len(usable), 'usable question')} in {counted(len(members), 'media group')}"
    if held:
        return f"{all_of_it}, and all would be held out: lower held_out.share, or give more questions"
    if not free:
        return f"{all_of_it}, and each group has a clip, a repeated id or a record without a question: give others, too"
    smallest = min(map(len, free.values()))
    remedy = "raise held_out.share, or give more questions" if len(members) > 1 else "give questions on other images"
    return (
        f"{all_of_it}; held_out.share = {share:g} is {counted(wanted, 'question')}, but the smallest group that can be "
        f"held out has {smallest}: {remedy}"
    )
