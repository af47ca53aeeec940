"""The split into the SFT and the RL side, so that no picture stands on both.

In: drafts. Out: ``sft`` and ``rl`` drafts. A media group is a connected component of questions that share a medium by
decoded-pixel hash; a hash of the group decides its side, so the ratio holds in expectation and neither input order nor
worker count can change a side.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from schemas.coding import record
from schemas.config import Share, settings
from schemas.ordering import unit_hash
from schemas.records import Draft
from stages.plumbing.packing import packed

SFT, RL = "sft", "rl"


@settings
class SplitSettings:
    """How the media groups are split between SFT and RL."""

    sft_ratio: Annotated[Share, "the share of media groups on the SFT side"] = 0.7
    seed: Annotated[int, "another seed is another split"] = 0


def media_groups(uses: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, str]]:
    """The group of each question id, named by the smallest media hash in it; ``uses`` are (id, media hashes)."""
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
        yield question_id, root(hashes[0])


def side_of(group: str, settings: SplitSettings) -> str:
    """The side on which a media group stands."""
    return SFT if unit_hash(group, settings.seed, "split") < settings.sft_ratio else RL


@packed
@record
class SplitPart:
    """One side of the join by id: a draft, or the media group of one."""

    draft: Draft | None = None
    group: str | None = None


def _draft_part(draft: Draft) -> tuple[str, SplitPart]:
    return draft.id, SplitPart(draft=draft)


def _group_part(named: tuple[str, str]) -> tuple[str, SplitPart]:
    question_id, group = named
    return question_id, SplitPart(group=group)


def _media_of(draft: Draft) -> tuple[str, tuple[str, tuple[str, ...]]]:
    return "all", (draft.id, tuple(medium.pixel_sha256 for medium in draft.question.media))


def _groups(keyed: tuple[str, Iterable[tuple[str, tuple[str, ...]]]]) -> Iterator[tuple[str, str]]:
    yield from media_groups(keyed[1])


class _Route(beam.DoFn):
    def __init__(self, settings: SplitSettings) -> None:
        self._settings = settings

    def process(self, joined: tuple[str, Iterable[SplitPart]]) -> Iterator[object]:
        parts = list(joined[1])
        drafts = [part.draft for part in parts if part.draft is not None]
        groups = [part.group for part in parts if part.group is not None]
        if len(drafts) != 1 or len(groups) != 1:
            raise ValueError(f"{joined[0]}: {len(drafts)} drafts and {len(groups)} media groups for one id")
        yield TaggedOutput(side_of(groups[0], self._settings), drafts[0])


@dataclass
class SplitByMediaGroup(beam.PTransform):
    """Split the drafts; see the module. The groups are found on one worker, which holds ids and hashes only."""

    settings: SplitSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``sft`` and ``rl``."""
        groups = (
            drafts
            | "MediaOfEach" >> beam.Map(_media_of)
            | "AllMedia" >> beam.GroupByKey()
            | "MediaGroups" >> beam.FlatMap(_groups)
        )
        parts = (drafts | "KeyById" >> beam.Map(_draft_part), groups | "GroupById" >> beam.Map(_group_part))
        joined: Any = parts | "Parts" >> beam.Flatten() | "JoinGroup" >> beam.GroupByKey()
        sides = joined | "Route" >> beam.ParDo(_Route(self.settings)).with_outputs(SFT, RL)
        for side in (SFT, RL):
            sides[side].element_type = Draft
        return sides
