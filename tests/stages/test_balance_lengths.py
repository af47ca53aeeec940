"""The balance of lengths: no bin holds more than its share, as much as can be is kept, and nothing is lost."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.traces import read_trace
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.balance_lengths import BalanceLengths, BalanceSettings, bin_of, limits_of, most_of_each


@pytest.mark.parametrize(
    ("counts", "share", "most"),
    [
        ({"0": 100, "1": 10, "2": 5}, 0.5, 15),
        ({"0": 100, "1": 100}, 0.5, 100),
        ({"0": 100, "1": 10}, 0.5, 10),
        ({"0": 100}, 0.5, 100),
        ({"0": 100, "1": 1}, 1.0, 100),
        ({"0": 3, "1": 1, "2": 1}, 0.1, 1),
        ({"0": 0}, 0.5, 0),
        ({}, 0.5, 0),
    ],
)
def test_the_quota_by_hand(counts: dict[str, int], share: float, most: int) -> None:
    assert most_of_each(counts, share) == most


@given(st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 300), min_size=1), st.floats(0.05, 1))
def test_no_bin_holds_more_than_its_share_and_one_more_would_break_it(counts: dict[str, int], share: float) -> None:
    most = most_of_each(counts, share)
    kept = {number: min(count, most) for number, count in counts.items()}
    bound = max(share, 1 / len(counts))
    assert most == 1 or max(kept.values()) <= bound * sum(kept.values()) + 1e-6
    more = {number: min(count, most + 1) for number, count in counts.items()}
    if more != kept:
        assert max(more.values()) > bound * sum(more.values())


def test_a_bin_keeps_no_more_than_it_has() -> None:
    assert limits_of({"0 to 31": 3, "32 to 63": 1}, BalanceSettings()) == {"0 to 31": 1, "32 to 63": 1}
    assert limits_of({"0 to 31": 9, "32 to 63": 5}, BalanceSettings(max_share=1.0)) == {"0 to 31": 9, "32 to 63": 5}


def traced(make_draft: Callable[..., Draft], name: str, words: int) -> Draft:
    text = f"<judge>x</judge>\n<think>\n{'word ' * words}\n</think>\n\\boxed{{3}}"
    return replace(make_draft(name), traces=(read_trace(0, text),), best=0)


@pytest.mark.parametrize(
    ("words", "said"),
    [(0, None), (1, "0 to 31"), (31, "0 to 31"), (32, "32 to 63"), (1023, "512 to 1023"), (1024, "1024 or more")],
)
def test_bins(make_draft: Callable[..., Draft], words: int, said: str | None) -> None:
    assert bin_of(traced(make_draft, "q", words), BalanceSettings()) == said


@pytest.mark.parametrize("edges", [(), (0, 5), (5, 5), (9, 3)])
def test_edges_rise(edges: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="edges_words must be increasing"):
        BalanceSettings(edges)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_stage(make_draft: Callable[..., Draft], check_stage: Callable[..., None], backwards: bool) -> None:
    short, long = [f"s{number}" for number in range(6)], ["l1", "l2"]
    drafts = [traced(make_draft, name, 3) for name in short] + [traced(make_draft, name, 99) for name in long]
    drafts += [traced(make_draft, f"e{number}", 0) for number in range(4)]
    kept = [*sorted(short, key=order_key)[:2], *long, *(f"e{number}" for number in range(4))]
    rejected = [(name, "balance", "over_quota") for name in short if name not in kept]
    check_stage(BalanceLengths(BalanceSettings()), drafts[::-1] if backwards else drafts, kept=kept, rejected=rejected)
    only_empty = [draft for draft in drafts if draft.id.startswith("e")]
    check_stage(BalanceLengths(BalanceSettings()), only_empty, kept=[d.id for d in only_empty], rejected=[])
