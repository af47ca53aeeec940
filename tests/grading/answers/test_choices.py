import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.choices import NamedOptions, gold_options, named_options, normalise_text

ANIMALS = ("cat", "dog", "a horse")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Dog.", "dog"),
        ("A", "a"),
        ("the", "the"),
        ("it's", "its"),
        ("(-2, 0)", "-2 0"),
        ("18/06", "18/06"),
        ("1.2.4.", "1.2.4"),
        ("well-known", "well known"),
        ("Vitamin A", "vitamin a"),
        ("riding a bicycle", "riding bicycle"),
        ("K<10?", "k<10"),
        ("ＡＢＣ", "abc"),
        ("x\u200by", "xy"),
        ("!?", ""),
    ],
)
def test_normalise_text(text: str, expected: str) -> None:
    assert normalise_text(text) == expected


@pytest.mark.parametrize(
    ("predicted", "choices", "indices"),
    [
        ("B", ANIMALS, {1}),
        ("A dog", ANIMALS, {1}),
        ("B or C", ANIMALS, {1, 2}),
        ("B. cat", ANIMALS, {0, 1}),
        ("B. It is not the one I named first", ANIMALS, {1}),
        ("B. dog", ANIMALS, {1}),
        ("A. cat B. dog", ANIMALS, {0, 1}),
        ("A. cat\nB. dog\nC. a horse", ANIMALS, {0, 1, 2}),
        ("a) cat b) dog", ANIMALS, {0, 1}),
        ("A.B.C", ANIMALS, {0, 1, 2}),
        ("B. dog and cat", ANIMALS, {0, 1}),
        ("B. The cat is not a dog", ANIMALS, {1}),
        ("B, since the cat is smaller", ANIMALS, {1}),
        ("Z", ANIMALS, set()),
        ("none", ANIMALS, set()),
        ("A", ("B", "A"), {1}),
        ("(C)", ("(A)", "(B)", "(C)"), {2}),
        ("D", ("A", "B", "C", "other"), {3}),
        ("7", ("4", "7 cm", "17"), {1}),
        ("same", ("same", "Same", "other"), {0, 1}),
        (r"\textbf{(B)}", ANIMALS, {1}),
        ("答案是B。", ANIMALS, {1}),
        ("La réponse est B", ANIMALS, {1}),
        ("B is wrong", ANIMALS, set()),
        ("B is correct", ANIMALS, {1}),
        ("not B", ANIMALS, set()),
        ("dog (B)", ANIMALS, {1}),
        ("dog (C)", ANIMALS, {1, 2}),
        ("B cat", ANIMALS, {0, 1}),
        ("B. not red", ("red", "not red"), {1}),
        ("Y", ("Yes", "No"), {0}),
        ("none", ("0", "1"), {0}),
        ("none", ("0", "None of these"), set()),
        ("1 + 1 = 2", ("1", "2", "3"), {1}),
    ],
)
def test_named_options(predicted: str, choices: tuple[str, ...], indices: set[int]) -> None:
    named = named_options(predicted, choices)
    assert (named.indices, named.is_mention) == (frozenset(indices), False)


@pytest.mark.parametrize(
    ("gold", "choices", "indices"),
    [
        ("dog", ("cat", "dog"), {1}),
        ("The dog.", ("cat", "dog"), {1}),
        ("B", ("cat", "dog"), {1}),
        ("C", ("cat", "dog"), set()),
        ("", ("cat", "dog"), set()),
        (" ", ("cat", "?"), set()),
        ("?", ("!", "?"), {1}),
        ("¿", ("!", "?"), set()),
    ],
)
def test_gold_options(gold: str, choices: tuple[str, ...], indices: set[int]) -> None:
    assert gold_options(gold, choices) == frozenset(indices)


def test_a_mention_is_marked() -> None:
    assert named_options("surely not the dog", ANIMALS) == NamedOptions(frozenset({1}), is_mention=True)


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=10), min_size=1, max_size=6))
def test_any_text_names_options_that_exist(predicted: str, choices: list[str]) -> None:
    assert named_options(predicted, tuple(choices)).indices <= set(range(len(choices)))


@given(st.text(max_size=60))
def test_normalise_text_is_idempotent(text: str) -> None:
    assert normalise_text(normalise_text(text)) == normalise_text(text)
