"""No picture stands on both sides: groups by shared media, and the draw of a group's side."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.records import Draft, MediaRef
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.split_by_media_group import RL, SFT, SplitByMediaGroup, SplitSettings, media_groups, split_side

from .matching import assert_that

Uses = Sequence[tuple[str | None, tuple[str, ...]]]

GROUPS: list[tuple[Uses, dict[str, str]]] = [
    ([], {}),
    ([("q", ("a",))], {"q": "a"}),
    ([("q", ("a",)), ("r", ("b",))], {"q": "a", "r": "b"}),
    ([("q", ("a",)), ("r", ("a",))], {"q": "a", "r": "a"}),
    ([("q", ("b", "b", "a", "b"))], {"q": "a"}),
    ([("q", ("b",)), (None, ("b", "a"))], {"q": "a"}),
    ([(None, ("b", "a"))], {}),
    ([("q", ("c", "d")), ("r", ("b", "c")), ("s", ("a", "b"))], {"q": "a", "r": "a", "s": "a"}),
    ([("q", ("d", "e")), ("r", ("b", "c")), ("s", ("e", "c"))], {"q": "b", "r": "b", "s": "b"}),
    (
        [("hub", tuple("zyx")), ("x", ("x",)), ("y", ("y", "m")), ("w", ("w",))],
        {"hub": "m", "x": "m", "y": "m", "w": "w"},
    ),
]


@pytest.mark.parametrize(("uses", "groups"), GROUPS)
def test_chains_and_stars(uses: Uses, groups: dict[str, str]) -> None:
    assert dict(media_groups(uses)) == groups


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain(backwards: bool) -> None:
    chain = [(f"q{i:05d}", (f"m{i:05d}", f"m{i + 1:05d}")) for i in range(20_000)]
    assert {group for _, group in media_groups(chain[::-1] if backwards else chain)} == {"m00000"}


def reachable(uses: Uses) -> dict[str, str]:
    """The smallest hash of each question's group, by spreading until nothing changes."""
    group = {question: set(hashes) for question, hashes in uses}
    for _ in uses:
        for one, other in itertools.permutations(group, 2):
            if group[one] & group[other]:
                group[one] |= group[other]
    return {question: min(hashes) for question, hashes in group.items()}


@settings(max_examples=100)
@given(st.lists(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=3), max_size=8), st.randoms())
def test_groups_are_components_in_any_order(media: list[list[str]], random: Random) -> None:
    uses = [(f"q{number}", tuple(hashes)) for number, hashes in enumerate(media)]
    mixed = [(question, tuple(random.sample(hashes, len(hashes)))) for question, hashes in uses]
    random.shuffle(mixed)
    assert dict(media_groups(mixed)) == dict(media_groups(uses)) == reachable(uses)


def test_the_ratio_holds_in_expectation() -> None:
    names = [f"group {number}" for number in range(2000)]
    share = sum(split_side(name, SplitSettings(0.7)) == SFT for name in names) / len(names)
    assert share == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(("ratio", "side"), [(0.0, RL), (1.0, SFT)])
def test_all_on_one_side(ratio: float, side: str) -> None:
    assert {split_side(f"group {number}", SplitSettings(ratio)) for number in range(500)} == {side}


def test_a_larger_ratio_moves_groups_to_sft_only() -> None:
    names = [f"group {number}" for number in range(300)]
    small, large = ({name for name in names if split_side(name, SplitSettings(r)) == SFT} for r in (0.3, 0.6))
    assert small < large
    assert {name for name in names if split_side(name, SplitSettings(0.3, seed=1)) == SFT} != small


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_ratios_that_make_no_sense(ratio: float) -> None:
    with pytest.raises(ValueError, match=r"sft_ratio must be (at least 0|at most 1|a finite number), got "):
        SplitSettings(ratio)


def with_media(draft: Draft, hashes: Sequence[str]) -> Draft:
    media = tuple(MediaRef(f"input:{name}", "image", f"file {name}", name, "0" * 16, 9, 9, 1, 1) for name in hashes)
    return replace(draft, question=replace(draft.question, media=media))


@pytest.mark.parametrize("step", [1, -1])
def test_the_stage(step: int, make_draft: Callable[..., Draft]) -> None:
    uses = [(f"q{i}", (f"m{i // 3}",)) for i in range(60)] + [("bridge", ("m0", "m19"))]
    groups = dict(media_groups(uses))
    expected = {side: [q for q in groups if split_side(groups[q], SplitSettings(0.5)) == side] for side in (SFT, RL)}
    drafts = [with_media(make_draft(question), hashes) for question, hashes in uses]
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        sides = pipeline | beam.Create(drafts[::step]) | SplitByMediaGroup(SplitSettings(0.5))
        for side, ids in expected.items():
            assert len(ids) > 5
            assert_that(sides[side] | f"Ids {side}" >> beam.Map(lambda draft: draft.id), equal_to(ids), label=side)


def test_nothing_to_split() -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        sides = pipeline | beam.Create([]) | SplitByMediaGroup(SplitSettings())
        assert_that(sides[SFT], equal_to([]), label="sft")
        assert_that(sides[RL], equal_to([]), label="rl")


@pytest.mark.parametrize("drawn", [("x",), ("x", "z"), ("x", "y", "z")])
def test_a_draw_moves_no_question_to_the_other_side(drawn: tuple[str, ...], make_draft: Callable[..., Draft]) -> None:
    """``y`` ties the pictures of ``x`` and ``z`` together, whether or not it is drawn."""
    sides = SplitSettings(sft_ratio=0.5, seed=next(s for s in range(99) if _apart("a", "b", s)))
    media = {"x": ("b",), "y": ("a", "b"), "z": ("a",)}
    everything = {name: with_media(make_draft(name), hashes) for name, hashes in media.items()}
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        chosen = pipeline | "Chosen" >> beam.Create([everything[name] for name in drawn])
        split = (chosen, pipeline | "All" >> beam.Create(list(everything.values()))) | SplitByMediaGroup(sides)
        ids = {side: split[side] | f"{side} ids" >> beam.Map(lambda d: d.id) for side in ("sft", "rl")}
        expected = {"sft": [], "rl": []} | {split_side("a", sides): list(drawn)}
        for side, found in ids.items():
            assert_that(found, equal_to(expected[side]), label=f"{side} together")


def _apart(one: str, other: str, seed: int) -> bool:
    sides = SplitSettings(sft_ratio=0.5, seed=seed)
    return split_side(one, sides) != split_side(other, sides)
