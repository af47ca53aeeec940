"""Limits how many drafts (questions with their data) of each class are kept. The kept drafts are those with the lowest
hashes of their ids.

So the result does not depend on the order of the drafts. A single worker finds the highest hash to keep in each class;
it holds only the hashes of the ids in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, PCollection

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import Reject, Stage, apply, kept_output, rejected_output

OVER_QUOTA = "over_quota"
ClassOf = Callable[[Draft], str | None]
"""A function that returns the class of a draft, e.g. its range of lengths; None for a draft that is always kept. For
each class, the number of drafts to keep is limited.
"""
Limits = Callable[[Mapping[str, int]], Mapping[str, int]]
"""A function that maps the number of drafts of each class to the number of drafts of each class to keep."""


def draft_key(draft: Draft) -> str:
    """Return the hash of the id of ``draft`` (a question with its data). Drafts are sorted by this key to select some
    of them independently of their order.
    """
    return order_key(draft.id)


def highest_kept_keys(keyed: Iterable[tuple[str, Iterable[str]]], limits: Limits) -> dict[str, str]:
    """Return, for each class of drafts, the highest key of the drafts to keep; "" if no draft of the class is kept.

    A draft is a question with its data; its key is the hash of its id (:func:`draft_key`).

    ``keyed`` yields pairs of a class and the keys of its drafts. ``limits`` is a function. Its argument maps each class
    to its number of drafts. Its result maps each class to the number of drafts to keep.

    For example, a class has three drafts with the keys "a", "b" and "c", and two of its drafts are to be kept. These
    are "a" and "b", so this function returns "b" for the class.
    """
    keys = dict(sorted((name, sorted(each)) for name, each in keyed))
    kept = limits({name: len(each) for name, each in keys.items()})
    return {name: each[kept[name] - 1] if kept[name] else "" for name, each in keys.items()}


class _KeepLowestKeys(beam.DoFn):
    def __init__(self, stage: Stage, class_of: ClassOf, why: str) -> None:
        self._stage, self._class_of, self._why = stage, class_of, why

    def process(self, draft: Draft, last: Mapping[str, str]) -> Iterator[object]:
        """Emit the draft (question with its data), or a rejection if it is not kept.

        The key of a draft is the hash of its id. A draft is kept if its key is at most the highest key to keep in its
        class, or if it has no class. ``last`` maps each class to its highest key to keep.
        """
        count_in(self._stage.name)
        name = self._class_of(draft)
        if name is None or draft_key(draft) <= last[name]:
            yield kept_output(self._stage, draft)
        else:
            why = Reject(OVER_QUOTA, self._why.format(name))
            yield rejected_output(self._stage.rejected(draft, why, draft.calls))


def keep_lowest_keys(drafts: PCollection, stage: Stage, class_of: ClassOf, limits: Limits, why: str) -> Any:
    """Keep a limited number of drafts (questions with their data) of each class, and return the outputs ``kept`` and
    ``rejected``.

    The kept drafts of a class are those with the lowest hashes of their ids (:func:`draft_key`). ``stage`` is the
    description of the stage (step of the pipeline). ``class_of`` returns the class of a draft; a draft with the class
    None is always kept. ``limits`` is a function. Its argument maps each class to its number of drafts. Its result maps
    each class to the number of drafts to keep. Workers must be able to import ``class_of`` and ``limits``.

    Drafts that are not kept are rejected with the reason over_quota, which must be among the reasons in ``stage``.
    ``why`` is the detail of these rejections, with ``{}`` in place of the class.
    """

    def keyed(draft: Draft) -> Iterator[tuple[str, str]]:
        name = class_of(draft)
        if name is not None:
            yield name, draft_key(draft)

    keys = drafts | "KeyOfEach" >> beam.FlatMap(keyed).with_output_types(tuple[str, str])
    grouped: Any = keys | "ByClass" >> beam.GroupByKey() | "AllClasses" >> beam.combiners.ToList()
    last = grouped | "Last" >> beam.FlatMap(lambda found: highest_kept_keys(found, limits).items())
    return apply(drafts, "Keep", _KeepLowestKeys(stage, class_of, why), AsDict(last))
