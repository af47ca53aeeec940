"""Which drafts count as duplicates, which one stays, and that order changes nothing."""

import ast
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.geometry import Box
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft, MediaRef, Question
from groundtrace.stages.plumbing.stage import Reject
from groundtrace.stages.remove_duplicates import DedupSettings, RemoveDuplicates, find_duplicates, question_key
from groundtrace.vision.media import MediaRoots


def ref(pixels: str, dhash: int = 0) -> MediaRef:
    return MediaRef("input:x", "image", "f" * 64, pixels, f"{dhash:016x}", 10, 10, 1, 99)


def draft(name: str, *media: MediaRef) -> Draft:
    return Draft(Question(name, "s", "MIT", media, "How many?", "3", "numeric"))


def outcome(drafts: list[Draft], near: bool = True, same: bool = True) -> dict[str, tuple[str | None, str]]:
    found = find_duplicates(drafts, DedupSettings(near=near), lambda a, b: same)
    return {each.id: (None, "") if why is None else (why.reason, _named(why)) for each, why in found}


def _named(why: Reject) -> str:
    """The id that the detail ``of '<id>'`` names."""
    return ast.literal_eval(why.detail.removeprefix("of "))


def first_and_last(*names: str) -> tuple[str, str]:
    ordered = sorted(names, key=order_key)
    return ordered[0], ordered[-1]


KEYS = [
    ({"question": "how  MANY?\n"}, True),
    ({"id": "other", "source": "else", "license": "CC"}, True),
    ({"answer": "4"}, False),
    ({"answer_type": "text"}, False),
    ({"choices": ("3", "4")}, False),
    ({"question": "How many"}, False),
    ({"question": "How", "answer": "many? 3"}, False),
    ({"gold_boxes": (Box("dog", 1, 2, 3, 4),)}, True),
]
CASES = [
    ({"question": "is it RED?"}, {"question": "Is it red?"}, False),
    ({"question": "Is it there?"}, {"question": "is it there?"}, True),
    ({"question": "how many  dogs are there ?"}, {"question": "How many dogs are there?"}, True),
    ({"question": "What is 1 .5?"}, {"question": "What is 1.5?"}, False),
    ({"question": "Find AB."}, {"question": "Find ab."}, False),
    ({"question": "Find $\\Delta$."}, {"question": "Find $\\delta$."}, False),
    ({"answer": "5 mW"}, {"answer": "5 MW"}, False),
    ({"answer": "$\\Delta$"}, {"answer": "$\\delta$"}, False),
    ({"answer": "Red  car"}, {"answer": "red car"}, True),
    ({"choices": ("Pa", "bar")}, {"choices": ("PA", "bar")}, False),
    ({"choices": ("Dog", "cat")}, {"choices": ("dog", "Cat")}, True),
]


@pytest.mark.parametrize(("one", "other", "equal"), CASES)
def test_upper_case_that_may_mean_something(one: dict[str, str], other: dict[str, str], equal: bool) -> None:
    question = draft("a").question
    assert (question_key(replace(question, **one)) == question_key(replace(question, **other))) is equal


def test_gold_boxes_are_an_answer() -> None:
    """Where they are asked for; elsewhere they are an annotation."""
    asked = replace(
        draft("a").question, answer_type="boxes", gold_boxes=(Box("dog", 1, 2, 3, 4), Box("cat", 5, 6, 7, 8))
    )
    assert question_key(asked) == question_key(replace(asked, gold_boxes=(asked.gold_boxes or ())[::-1]))
    assert question_key(asked) != question_key(replace(asked, gold_boxes=(Box("dog", 1, 2, 3, 5),)))


@pytest.mark.parametrize(("changes", "equal"), KEYS)
def test_what_two_duplicates_have_in_common(changes: dict[str, str], equal: bool) -> None:
    question = draft("a").question
    assert (question_key(replace(question, **changes)) == question_key(question)) is equal


def test_exact_duplicates_name_the_kept_one() -> None:
    kept, other = first_and_last("a", "b")
    found = outcome([draft("a", ref("p")), draft("b", ref("p"))], near=False)
    assert found == {kept: (None, ""), other: ("duplicate", kept)}


def test_several_media_must_agree_in_order() -> None:
    drafts = [draft("a", ref("p"), ref("q")), draft("b", ref("q"), ref("p")), draft("c", ref("p"))]
    assert {reason for reason, _ in outcome(drafts, near=False).values()} == {None}


NEAR = [
    ((0,), (0b1111,), "near_duplicate"),
    ((0,), (0b11111,), None),
    ((0,), (1 << 63 | 1 << 40 | 1 << 20 | 1,), "near_duplicate"),
    ((0, 0), (0, 1), "near_duplicate"),
    ((0, 0), (0, 0b11111), None),
    ((0,), (0, 0), None),
]


@pytest.mark.parametrize(("one", "two", "reason"), NEAR)
def test_near_duplicates_differ_by_four_bits_in_every_medium(
    one: tuple[int, ...], two: tuple[int, ...], reason: str | None
) -> None:
    kept, other = first_and_last("a", "b")
    hashes = {"a": one, "b": two}
    drafts = [draft(name, *(ref(f"{name}{i}", bits) for i, bits in enumerate(hashes[name]))) for name in "ab"]
    assert outcome(drafts)[other] == (reason, kept if reason else "")
    assert outcome(drafts, near=False)[other] == (None, "")


def test_a_hash_only_proposes() -> None:
    drafts = [draft("a", ref("p", 0)), draft("b", ref("q", 1))]
    assert outcome(drafts, same=False) == {"a": (None, ""), "b": (None, "")}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 63)), min_size=1, max_size=7), st.randoms())
def test_order_changes_nothing_and_every_draft_comes_out(media: list[tuple[str, int]], random: object) -> None:
    drafts = [draft(f"d{index}", ref(f"{name}{bits}", bits)) for index, (name, bits) in enumerate(media)]
    expected = outcome(drafts)
    random.shuffle(drafts)  # type: ignore[attr-defined]
    assert outcome(drafts) == expected
    assert len(expected) == len(drafts)
    kept = {name for name, (reason, _) in expected.items() if reason is None}
    assert all(of in kept for reason, of in expected.values() if reason is not None)


@settings(max_examples=80)
@given(st.integers(0, 2**64 - 1), st.sets(st.integers(0, 63), max_size=6))
def test_no_near_pair_is_overlooked(bits: int, flips: set[int]) -> None:
    other = bits
    for place in flips:
        other ^= 1 << place
    found = outcome([draft("a", ref("p", bits)), draft("b", ref("q", other))])
    assert ("near_duplicate" in {reason for reason, _ in found.values()}) == (len(flips) <= 4)


@pytest.mark.parametrize(("distance", "bound"), [(-1, "at least 0"), (5, "less than 5")])
def test_a_distance_that_the_bands_cannot_find_is_refused(distance: int, bound: str) -> None:
    with pytest.raises(ValueError, match=f"max_distance must be {bound}, got {distance}"):
        DedupSettings(max_distance=distance)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, draw_scene: Callable[..., np.ndarray]) -> Path:
    """The same scene as PNG, BMP and JPEG; the same with one square missing; and another scene."""
    folder = tmp_path_factory.mktemp("pictures")
    scene = draw_scene(["red", "blue", "black"])[:, :, ::-1]
    less = scene.copy()
    less[30:50, 56:76] = 211
    written = {"a.png": scene, "same.bmp": scene, "again.jpg": scene, "less.png": less}
    written["other.png"] = draw_scene(["yellow"] * 5)[:, :, ::-1]
    for name, picture in written.items():
        cv2.imwrite(str(folder / name), picture, [cv2.IMWRITE_JPEG_QUALITY, 95])
    return folder


def ends(ids: dict[str, str], pairs: dict[frozenset[str], str]) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Kept ids and (id, reason, detail) of the rejected, when pictures are compared in the order of the ids."""
    kept: list[str] = []
    rejected: list[tuple[str, str, str]] = []
    for name in sorted(ids, key=order_key):
        twins = [(pairs[frozenset((ids[name], ids[k]))], k) for k in kept if frozenset((ids[name], ids[k])) in pairs]
        exact = [twin for twin in twins if twin[0] == "duplicate"]
        if twins:
            reason, twin = (exact or twins)[0]
            rejected.append((name, reason, f"of {twin!r}"))
        else:
            kept.append(name)
    return kept, rejected


def test_the_stage_confirms_on_pixels(
    pictures: Path, make_draft: Callable[..., Draft], check_stage: Callable[..., None]
) -> None:
    ids = {"1": "a.png", "2": "same.bmp", "3": "again.jpg", "4": "less.png", "5": "other.png"}
    drafts = [make_draft(name, pictures, [file]) for name, file in ids.items()]
    drafts.append(make_draft("6", pictures, ["a.png"], answer="4"))
    drafts.append(make_draft("7", pictures, ["a.png"], choices=("3", "4"), answer_type="mcq"))
    pairs = {frozenset(pair): "near_duplicate" for pair in itertools.combinations(["a.png", "again.jpg"], 2)}
    pairs |= {frozenset(("same.bmp", "again.jpg")): "near_duplicate", frozenset(("a.png", "same.bmp")): "duplicate"}
    kept, rejected = ends(ids, pairs)
    assert len(rejected) == 2
    check_stage(
        RemoveDuplicates(DedupSettings(), MediaRoots(str(pictures), str(pictures))),
        drafts,
        kept=[*kept, "6", "7"],
        rejected=rejected,
        show_rejected=lambda found: (found.id, found.reason, found.detail),
    )
