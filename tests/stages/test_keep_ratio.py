"""The ratio of classes: met within one row, whatever the order, and nothing lost."""

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.keep_ratio import KeepRatio, quotas

PAPER = {"stem": 50.0, "general": 20.0}


@pytest.mark.parametrize(
    ("counts", "ratio", "kept"),
    [
        ({"stem": 50_000, "general": 20_000}, PAPER, {"stem": 50_000, "general": 20_000}),
        ({"stem": 10, "general": 20_000}, PAPER, {"stem": 10, "general": 4}),
        ({"stem": 100, "general": 1}, PAPER, {"stem": 2, "general": 1}),
        ({"stem": 7, "general": 0}, PAPER, {"stem": 7}),
        ({"a": 32, "b": 100}, {"a": 32, "b": 3}, {"a": 32, "b": 3}),
        ({"a": 10, "b": 10}, {"a": 0.1, "b": 0.3}, {"a": 3, "b": 10}),
        ({}, PAPER, {}),
    ],
)
def test_the_quotas(counts: dict[str, int], ratio: dict[str, float], kept: dict[str, int]) -> None:
    assert quotas(counts, ratio) == kept


@pytest.mark.parametrize(
    ("counts", "most", "kept"),
    [
        ({"a": 100, "b": 100}, 35, {"a": 32, "b": 3}),
        ({"a": 100, "b": 100}, 10, {"a": 9, "b": 1}),
        ({"a": 100, "b": 100}, 5, {"a": 5, "b": 0}),
        ({"a": 64, "b": 6}, 70, {"a": 64, "b": 6}),
        ({"a": 32, "b": 100}, 70, {"a": 32, "b": 3}),
        ({"a": 100, "b": 0}, 7, {"a": 7}),
        ({}, 7, {}),
    ],
)
def test_the_quotas_of_a_wanted_number(counts: dict[str, int], most: int, kept: dict[str, int]) -> None:
    assert quotas(counts, {"a": 32, "b": 3}, most) == kept


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 500), min_size=1), st.integers(1, 600))
def test_a_wanted_number_is_met_or_the_ratio_is_the_limit(counts: dict[str, int], most: int) -> None:
    ratio = {"a": 32.0, "b": 3.0, "c": 0.5, "d": 7.0}
    kept, unlimited = quotas(counts, ratio, most), quotas(counts, ratio)
    assert all(0 <= number <= counts[name] for name, number in kept.items())
    assert sum(kept.values()) == most or kept == unlimited
    assert sum(kept.values()) <= most or kept == unlimited
    total = sum(ratio[name] for name in kept)
    assert kept == unlimited or all(abs(n - most * ratio[name] / total) < 1 for name, n in kept.items())


def test_a_class_without_a_weight_is_a_defect() -> None:
    with pytest.raises(ValueError, match="'other'"):
        quotas({"stem": 3, "other": 1}, PAPER)


WEIGHTS = st.integers(1, 200).map(lambda n: n / 4)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 5000), WEIGHTS), min_size=1))
def test_the_ratio_holds_within_one_row_and_one_class_stays_whole(classes: dict[str, tuple[int, float]]) -> None:
    counts, ratio = {n: c for n, (c, _) in classes.items()}, {n: w for n, (_, w) in classes.items()}
    kept = quotas(counts, ratio)
    assert set(kept) == {name for name, count in counts.items() if count}
    assert all(0 <= number <= counts[name] for name, number in kept.items())
    assert not kept or any(number == counts[name] for name, number in kept.items())
    whole = [name for name, number in kept.items() if number == counts[name]]
    for name, number in kept.items():
        assert any(abs(number - ratio[name] / ratio[other] * kept[other]) < 1 for other in whole)


def first_letter(draft: Draft) -> str:
    return draft.id[0]


@pytest.mark.parametrize("order", list(permutations(range(3)))[::2])
def test_the_stage_keeps_by_hash_and_rejects_the_rest(
    order: tuple[int, ...], check_stage: Callable[..., None], make_draft: Callable[..., Draft]
) -> None:
    many, few = [f"a{number}" for number in range(9)], ["b1", "b2"]
    ids = [many[:4], few, many[4:]]
    kept = sorted(many, key=order_key)[:4] + few
    rejected = [(name, "ratio", "over_quota") for name in many if name not in kept]
    drafts = [make_draft(name) for place in order for name in ids[place]]
    check_stage(KeepRatio({"a": 2.0, "b": 1.0}, first_letter), drafts, kept=kept, rejected=rejected)
