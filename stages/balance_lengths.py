"""Balances the lengths of the chains of thought (SAIL-RL App. A.1, Quality Filtering), so that each length has at most
a given share of all chains.

The inputs are verified drafts (questions with their data). The outputs are ``kept`` and ``rejected``. The stage sorts
the chains into bins by their number of words. Each bin keeps at most the share ``max_share`` of all kept chains. If a
bin has more chains, the stage rejects the drafts with the highest hashes of their ids, with the reason ``over_quota``.
A draft with an empty think section has no chain and always passes. The paper balances "to ensure a varied
representation of complexity", but gives neither the bins nor the shares.

If only a few bins hold chains, it may be impossible that every bin keeps at most ``max_share``. For example, two bins
cannot both have at most 0.3 of all kept chains. In such a case, the maximum share is 1 divided by the number of bins
that hold chains.
"""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from apache_beam.pvalue import PCollection
from pydantic import Field

from groundtrace.config.settings import settings
from groundtrace.grading.responses.response import parse_response
from groundtrace.schemas.records import Draft
from groundtrace.schemas.text import words_in
from groundtrace.stages.plumbing.keeping import OVER_QUOTA, keep_lowest_keys
from groundtrace.stages.plumbing.stage import DraftStage, Stage


@settings
class BalanceSettings:
    """Holds the length bins (ranges of word counts) of chains of thought, and the maximum share that one bin may have
    of all kept chains.
    """

    edges_words: Annotated[tuple[int, ...], "the bounds between the bins, in words of the thought"] = (
        32,
        64,
        128,
        256,
        512,
        1024,
    )
    max_share: Annotated[
        float, Field(gt=0, le=1), "the maximum share of the kept chains in one bin; 1 turns the balance off"
    ] = 0.5

    def __post_init__(self) -> None:
        if not self.edges_words or any(a >= b for a, b in zip((0, *self.edges_words), self.edges_words, strict=False)):
            raise ValueError(f"edges_words must be increasing numbers above 0, got {list(self.edges_words)}")


def length_of(text: str) -> int:
    """Return the number of words in the think section of a trace. A trace is a response of the teacher model, and
    ``text`` is the whole response.

    Each Chinese, Japanese or Korean character counts as one word. Returns 0 if there is no think section.
    """
    return len(words_in(parse_response(text).think or ""))


def bin_of(draft: Draft, settings: BalanceSettings) -> str | None:
    """Return the name of the length bin (range of word counts), such as ``32 to 63``, for the think section of a
    draft's best trace.

    ``draft`` is a question with its data, and its best trace is the chosen response of the teacher model. ``settings``
    holds the bins. Returns None if the think section is empty. Raises ValueError for a draft without a best trace.
    """
    if draft.best is None:
        raise ValueError(f"{draft.id}: BalanceLengths needs a verified trace: put this stage after VerifyTraces")
    words = length_of(draft.traces[draft.best].text)
    if not words:
        return None
    edges = (0, *settings.edges_words)
    number = bisect.bisect_right(edges, words)
    return f"{edges[number - 1]} to {edges[number] - 1}" if number < len(edges) else f"{edges[-1]} or more"


def most_of_each(counts: Mapping[str, int], max_share: float) -> int:
    """Return the largest number of chains of thought that one length bin may keep, so that no bin has more than the
    maximum share of all kept chains.

    For example, if three bins have 10, 3 and 3 chains, and the maximum share is 0.4, the result is 4. The first bin
    then keeps 4 of 10 kept chains.

    ``counts`` maps each bin to its number of chains. The maximum share is the larger of two values: ``max_share``, and
    1 divided by the number of bins that hold chains. The result is at least 1 if any bin has chains, so that some
    chains are always kept. It is 0 if there are no chains.
    """
    filled = sorted(count for count in counts.values() if count)
    if not filled:
        return 0
    share = max(max_share, 1 / len(filled))
    for most in range(filled[-1], 1, -1):
        if most <= share * sum(min(count, most) for count in filled) + 1e-9:
            return most
    return 1


def limits_of(counts: Mapping[str, int], settings: BalanceSettings) -> dict[str, int]:
    """Return the number of chains of thought to keep in each length bin (range of word counts).

    ``counts`` maps each bin to its number of chains. ``settings`` holds the maximum share of one bin. No bin keeps more
    chains than :func:`most_of_each` allows.
    """
    most = most_of_each(counts, settings.max_share)
    return {name: min(most, count) for name, count in counts.items()}


STAGE = Stage(
    "balance",
    "chains of thought are kept in a balance of lengths",
    reasons={OVER_QUOTA: "left over by a quota or ratio"},
    settings=BalanceSettings,
)


@dataclass
class BalanceLengths(DraftStage):
    """Stage (pipeline step) that limits the share that each length bin (range of word counts) has of the kept chains of
    thought.

    Each bin keeps at most the share ``settings.max_share`` of all kept chains. If a bin has more chains, the stage
    rejects the drafts of this bin with the highest hashes of their ids.
    """

    settings: BalanceSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Add the stage to the pipeline, and return its two outputs.

        ``kept`` has the drafts (questions with their data) that remain after balancing, and ``rejected`` has a
        rejection for each other draft.
        """
        class_of, limits = partial(bin_of, settings=self.settings), partial(limits_of, settings=self.settings)
        return keep_lowest_keys(drafts, STAGE, class_of, limits, "{} words: a length of which there are enough")
