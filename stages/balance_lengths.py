"""Length balance (SAIL-RL App. A.1, Quality Filtering): chains of thought of no length crowd out the others.

In: verified drafts. Out: ``kept``, with the chains in bins by their number of words, none of which holds more than
``max_share`` of all chains kept; the rest is rejected as over_quota, those whose ids hash highest. Empty thoughts are
no chains and all pass. The paper says that it balances "to ensure a varied representation of complexity", and neither
the bins nor the shares. Where there are too few bins with chains for the share (one bin holds all), it is an equal
share of each.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, PCollection
from pydantic import Field

from schemas.config import settings
from schemas.ordering import order_key
from schemas.records import Draft
from schemas.responses.response import parse_response
from schemas.text import words_in
from stages.plumbing.metrics import count_in
from stages.plumbing.stage import DraftStage, Reject, Stage, apply, kept_output, rejected_output

OVER_QUOTA = "over_quota"


@settings
class BalanceSettings:
    """The bins of lengths, and how much of the chains one of them may hold."""

    edges_words: Annotated[tuple[int, ...], "where a bin ends and the next one begins, in words of the thought"] = (
        32,
        64,
        128,
        256,
        512,
        1024,
    )
    max_share: Annotated[float, Field(gt=0, le=1), "of all chains kept, in one bin; 1 turns the balance off"] = 0.5

    def __post_init__(self) -> None:
        if not self.edges_words or any(a >= b for a, b in zip((0, *self.edges_words), self.edges_words, strict=False)):
            raise ValueError(f"edges_words must rise from above 0, got {list(self.edges_words)}")


def length_of(text: str) -> int:
    """The number of words of a trace's thought; each Chinese, Japanese or Korean character is one."""
    return len(words_in(parse_response(text).think or ""))


def bin_of(draft: Draft, settings: BalanceSettings) -> int | None:
    """The number of the bin of the kept trace; None for an empty thought. Raises ValueError without a kept trace."""
    if draft.best is None:
        raise ValueError(f"{draft.id}: BalanceLengths needs a verified trace")
    words = length_of(draft.traces[draft.best].text)
    return bisect.bisect_right(settings.edges_words, words) if words else None


def most_of_each(counts: Mapping[int, int], max_share: float) -> int:
    """The largest number of chains that a bin may keep, so that none holds more than ``max_share`` of those kept.

    At least 1 where there are chains: a set is not emptied for its balance.
    """
    filled = sorted(count for count in counts.values() if count)
    if not filled:
        return 0
    share = max(max_share, 1 / len(filled))
    for most in range(filled[-1], 1, -1):
        if most <= share * sum(min(count, most) for count in filled) + 1e-9:
            return most
    return 1


def last_keys(keyed: Iterable[tuple[int, Iterable[str]]], max_share: float) -> dict[int, str]:
    """Of each bin the highest key that is kept; ``keyed`` are the keys of each bin."""
    keys = {number: sorted(each) for number, each in keyed}
    most = most_of_each({number: len(each) for number, each in keys.items()}, max_share)
    return {number: each[min(most, len(each)) - 1] for number, each in keys.items()}


class _Keep(beam.DoFn):
    def __init__(self, settings: BalanceSettings) -> None:
        self._settings = settings

    def process(self, draft: Draft, last: Mapping[int, str]) -> Iterator[object]:
        """Emit the draft, or its rejection."""
        count_in(STAGE.name)
        number = bin_of(draft, self._settings)
        if number is None or order_key(draft.id) <= last[number]:
            yield kept_output(STAGE, draft)
            return
        why = Reject(OVER_QUOTA, f"{words_of(number, self._settings)} words: a length of which there are enough")
        yield rejected_output(STAGE.rejected(draft, why, draft.calls))


def words_of(number: int, settings: BalanceSettings) -> str:
    """The bin's lengths for people, such as ``32 to 63``."""
    edges = (0, *settings.edges_words)
    return f"{edges[number]} to {edges[number + 1] - 1}" if number + 1 < len(edges) else f"{edges[number]} or more"


STAGE = Stage(
    "balance",
    "chains of thought are kept in a balance of lengths",
    reasons={OVER_QUOTA: "left over by a quota or ratio"},
    settings=BalanceSettings,
)


@dataclass
class BalanceLengths(DraftStage):
    """Keeps the balance; see the module. The limits are found on one worker, which holds ids' hashes only."""

    settings: BalanceSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` and ``rejected``."""
        settings = self.settings
        keyed = drafts | "BinOfEach" >> beam.FlatMap(
            lambda draft: [(number, order_key(draft.id)) for number in [bin_of(draft, settings)] if number is not None]
        ).with_output_types(tuple[int, str])
        grouped: Any = keyed | "ByBin" >> beam.GroupByKey() | "AllBins" >> beam.combiners.ToList()
        last = grouped | "Last" >> beam.FlatMap(lambda found: last_keys(found, settings.max_share).items())
        return apply(drafts, "Keep", _Keep(settings), AsDict(last))
