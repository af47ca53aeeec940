"""Overlays (Argos §4.1): the points drawn on a copy of each medium, with their numbers, labels and coordinates.

In: drafts with points. Out: drafts with one overlay per medium that has points. The drawn copy is written once to the
run folder under its own hash; only the reference travels. Originals are kept as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from schemas.records import Draft, Overlay
from stages.calling import split
from stages.counting import count_in, count_kept
from stages.ingest_records import MediaRoots
from vision.hashing import sha256_bytes
from vision.media import MediaStore
from vision.overlay import Mark, draw_overlay, encode_png

STAGE = "overlay"


def draw(draft: Draft, store: MediaStore) -> Draft:
    """The draft with its overlays drawn and written."""
    overlays = []
    for index, medium in enumerate(draft.question.media):
        marks = [
            Mark(number, point.label, point.x, point.y)
            for number, point in enumerate(draft.points, 1)
            if point.media_index == index
        ]
        if marks:
            data = encode_png(draw_overlay(store.pixels(medium.uri), marks))
            overlays.append(Overlay(index, store.write_drawn(data, "png"), sha256_bytes(data), len(data)))
    return replace(draft, overlays=tuple(overlays))


class _Draw(beam.DoFn):
    def __init__(self, roots: MediaRoots) -> None:
        self._roots = roots

    def setup(self) -> None:
        self._store = self._roots.store()

    def process(self, draft: Draft) -> Iterator[Draft]:
        count_in(STAGE)
        drawn = draw(draft, self._store)
        count_kept(STAGE)
        yield drawn


@dataclass
class DrawOverlays(beam.PTransform):
    """Draw the points of every draft; see the module."""

    roots: MediaRoots

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and an empty ``rejected``."""
        return split(drafts, "Draw", _Draw(self.roots))
