"""Which questions are held out: whole media groups, by a hash, and never one that cannot be asked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.pipelines.loop.held_out import Seen, SplitError, held_out

ALONE = [Seen((f"image {number}",)) for number in range(20)]


def test_the_share_of_single_images() -> None:
    found = held_out(ALONE, 0.1, 0)
    assert len(found) == 2
    assert found == {place: f"image {place}" for place in found}
    assert held_out(ALONE, 0.1, 0) == found
    assert any(held_out(ALONE, 0.1, seed) != found for seed in range(1, 5))


def test_the_order_of_the_records_does_not_matter() -> None:
    names = {ALONE[place].media for place in held_out(ALONE, 0.3, 7)}
    backwards = ALONE[::-1]
    assert {backwards[place].media for place in held_out(backwards, 0.3, 7)} == names


def test_more_questions_move_no_group_into_the_training() -> None:
    """The order of the groups depends on their names only, and the share grows with the questions."""
    first = {ALONE[place].media for place in held_out(ALONE[:10], 0.2, 0)}
    assert first <= {ALONE[place].media for place in held_out(ALONE, 0.9, 0)}


PAIRS = [Seen((name,)) for name in "aabb"]
CHAIN = [Seen(("a",)), Seen(("a", "b")), Seen(("b", "c")), Seen(("d",)), Seen(("e",)), Seen(("f",)), Seen(("g",))]


def test_a_chain_of_shared_images_stays_together() -> None:
    for seed in range(30):
        found = held_out(CHAIN, 0.5, seed)
        assert len({0, 1, 2} & found.keys()) in (0, 3)


@pytest.mark.parametrize(
    ("seen", "share", "message"),
    [
        ([], 0.1, "no record of the input can be used"),
        ([Seen(), Seen()], 0.1, "no record of the input can be used"),
        ([Seen(("a",)), Seen(("a",))], 0.5, "2 usable questions in 1 media group.*give questions on other images"),
        (
            [Seen(("a",)), Seen(("a",)), Seen(("b",)), Seen(("b",))],
            0.1,
            "smallest group .* has 2: raise held_out.share",
        ),
        ([Seen(("a",), False), Seen(("b",), False)], 0.5, "each group has a clip, a repeated id or a record without"),
        ([Seen(("a",))], 0.5, "1 usable question in 1 media group, and all would be held out"),
    ],
)
def test_a_part_without_questions_is_an_error(seen: list[Seen], share: float, message: str) -> None:
    with pytest.raises(SplitError) as caught:
        held_out(seen, share, 0)
    assert re.search(message, str(caught.value)), caught.value


RECORDS = st.lists(
    st.builds(
        Seen,
        st.lists(st.sampled_from("abcdefghijklmnop"), max_size=3, unique=True).map(tuple),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=40,
)


@given(RECORDS, st.floats(0.01, 0.99), st.integers(0, 5))
def test_no_media_group_is_in_both_parts(seen: list[Seen], share: float, seed: int) -> None:
    try:
        found = held_out(seen, share, seed)
    except SplitError:
        return
    usable = [place for place, each in enumerate(seen) if each.media]
    kept = [place for place in usable if place not in found]
    assert found and kept, "each part has a usable record"
    assert set(found) <= set(usable)
    assert all(seen[place].may_be_held for place in found)
    shown = {medium for place in found for medium in seen[place].media}
    assert not shown & {medium for place in kept for medium in seen[place].media}
    assert len(found) <= share * len(usable) + 1
