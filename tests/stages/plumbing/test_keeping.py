"""Of each class the drafts whose ids hash lowest stay, and those of no class pass."""

from collections.abc import Callable, Mapping

import pytest
from apache_beam.pvalue import PCollection

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import OVER_QUOTA, draft_key, highest_kept_keys, keep_lowest_keys
from groundtrace.stages.plumbing.stage import DraftStage, Stage


@pytest.mark.parametrize(
    ("limits", "last"),
    [({"a": 2, "b": 1}, {"a": "2", "b": "9"}), ({"a": 0, "b": 1}, {"a": "", "b": "9"})],
)
def test_the_highest_key_that_is_kept(limits: dict[str, int], last: dict[str, str]) -> None:
    assert highest_kept_keys([("a", ["3", "1", "2"]), ("b", ["9"])], lambda counts: limits) == last


def test_the_key_is_that_of_the_id(make_draft: Callable[..., Draft]) -> None:
    assert draft_key(make_draft("a")) == order_key("a")


def first_letter(draft: Draft) -> str | None:
    return None if draft.id.startswith("x") else draft.id[0]


def two_of_each(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: min(2, count) for name, count in counts.items()}


class KeepTwo(DraftStage):
    stage = Stage("two", "two of each stay", reasons={OVER_QUOTA: "left over by a quota or ratio"})

    def expand(self, drafts: PCollection) -> object:
        return keep_lowest_keys(drafts, self.stage, first_letter, two_of_each, "more than two of {}")


@pytest.mark.parametrize("backwards", [False, True])
def test_two_of_each_class_and_all_of_none(
    backwards: bool, make_draft: Callable[..., Draft], check_stage: Callable[..., None]
) -> None:
    ids = [f"{letter}{number}" for letter in "abx" for number in range(4)] + ["c0"]
    kept = [name for letter in "ab" for name in sorted(ids, key=order_key) if name[0] == letter]
    kept = kept[:2] + kept[4:6] + ["x0", "x1", "x2", "x3", "c0"]
    rejected = [(name, "two", OVER_QUOTA) for name in ids if name not in kept]
    drafts = [make_draft(name) for name in ids]
    check_stage(KeepTwo(), drafts[::-1] if backwards else drafts, kept=kept, rejected=rejected)
