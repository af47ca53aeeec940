"""Redistributes elements over the workers before slow work. The key of an element determines its worker.

Beam's own Reshuffle is not used, because on some runners it distributes elements in order of arrival. If a worker is
then lost, its elements are computed again and may go to other workers than before. So records could be lost or
duplicated.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import draft_key
from groundtrace.stages.plumbing.malloc import release_memory


class _Begin(beam.DoFn):
    """Emits the redistributed elements. At the beginning of each bundle (Beam's unit of work), this DoFn returns the
    free memory of earlier pipeline steps to the operating system.
    """

    def start_bundle(self) -> None:
        release_memory()

    def process(self, keyed: tuple[Any, Iterable[Any]]) -> Iterator[Any]:
        yield from keyed[1]


class SpreadByKey(beam.PTransform):
    """Redistributes elements over the workers by a key of each element.

    ``key`` is a function that returns the key of an element. ``key_kind`` is the type of the keys, and ``kind`` the
    type of the elements. Elements with equal keys go to the same worker, and no element is lost.
    """

    def __init__(self, key: Callable[[Any], Any], key_kind: type, kind: type) -> None:
        super().__init__()
        self._key, self._key_kind, self._kind = key, key_kind, kind

    def expand(self, elements: PCollection) -> Any:
        """Return a collection with the same elements, redistributed over the workers. Elements with equal keys go to
        one worker.
        """
        key = self._key
        keyed: Any = elements | "Key" >> beam.Map(lambda element: (key(element), element)).with_output_types(
            tuple[self._key_kind, self._kind]
        )
        return keyed | "Spread" >> beam.GroupByKey() | "Begin" >> beam.ParDo(_Begin()).with_output_types(self._kind)


class SpreadDrafts(beam.PTransform):
    """Redistributes drafts (questions with their data) over the workers by the hashes of their ids, so that slow calls
    are shared by all workers.
    """

    def expand(self, drafts: PCollection) -> Any:
        """Return a collection with the same drafts (questions with their data), redistributed over the workers by the
        hashes of their ids.
        """
        return drafts | SpreadByKey(draft_key, str, Draft)
