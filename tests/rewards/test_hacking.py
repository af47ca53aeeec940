"""Attempts to be scored without answering: each gets the score that schemas.answers.grading and
schemas.responses.response document.

A whole response goes in, as from a policy: it is taken apart, and its final answer is scored by rule. No judge may be
asked, so what only a judge could tell is unscored (None).
"""

import pytest

from rewards.scorers.outcome import score_outcome
from schemas.responses.response import parse_response

COLOURS = ("red", "blue", "green", "white")
GOLDS = [("blue", "mcq", COLOURS), ("yes", "bool", None), ("1", "numeric", None)]
TEXTS = [("12 cm", "text", None), ("a dog", "text", None), ("cat, dog", "text", None), ("2021-03-04", "text", None)]
BOTH = ["yes no", "no yes", "yes and no", "yes/no", "yes, no", "Yes. No.", "yes-no", "both", "neither yes nor no"]
EMPTY = ["", " ", "\n\t\n", "\u200b", "\u3000\u200b", "<answer></answer>", "<answer> </answer>", "\\boxed{}"]


def answered(text: str) -> str:
    return f"<think>I look.</think><answer>{text}</answer>"


@pytest.fixture
def score_answer(run, question):
    """The value of a final answer; None is unscored."""

    def value(answer: str | None, gold: str, kind: str, choices: tuple[str, ...] | None = None) -> float | None:
        asked = question(answer=gold, answer_type=kind, choices=choices)
        verdict = run(score_outcome(asked, answer, None))
        assert verdict.reason
        return verdict.value

    return value


@pytest.fixture
def score(score_answer):
    """The value of a response; None is unscored."""
    return lambda text, *asked: score_answer(parse_response(text).answer, *asked)


LISTED = [
    "A B C D",
    "A, B, C, D",
    "A; B; C; D",
    "A\nB\nC\nD",
    "A or B",
    "B or A",
    "either B or C",
    "A.B.C.D",
    "A. red B. blue C. green D. white",
    "B. blue\nA. red",
    "b) blue a) red",
    "(A) (B) (C) (D)",
    "ABCD",
    "B (C)",
    "B. blue and red",
    "red, blue, green, white",
    "blue or red",
    "blue and red and green and white",
    "all of them",
    "\\boxed{A, B, C, D}",
    "\\boxed{\\text{A or B}}",
    "B C",
    "B & C",
]


@pytest.mark.parametrize("text", LISTED)
def test_listing_options_is_wrong(score, text) -> None:
    assert score(answered(text), "blue", "mcq", COLOURS) == 0.0


def test_naming_one_option_is_right(score) -> None:
    assert [score(answered(text), "blue", "mcq", COLOURS) for text in ("B", "blue", "B. blue")] == [1.0] * 3


@pytest.mark.parametrize(
    "text",
    ["the correct one", "answer: the correct one", "the right option", "the gold answer", "?", "any", "X", "...", "*"],
)
@pytest.mark.parametrize(("gold", "kind", "choices"), GOLDS)
def test_pointing_at_the_answer_is_not_giving_it(score, text, gold, kind, choices) -> None:
    assert score(answered(text), gold, kind, choices) == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Outside think only.
        ("<think>\\boxed{B}</think>", 0.0),
        ("<think>\\boxed{B}</think>So it is clear.", 0.0),
        ("<think><answer>B</answer></think>", 0.0),
        ("<think>Answer: B", 0.0),
        # The last complete block counts, then the last box in it.
        ("<answer>A</answer><answer>C</answer><answer>B</answer>", 1.0),
        ("<answer>B</answer><answer>A</answer>", 0.0),
        ("<answer>B</answer><answer></answer>", 0.0),
        ("<answer>B</answer><answer>A", 1.0),
        ("<answer>\\boxed{A} \\boxed{B}</answer>", 1.0),
        ("<answer>\\boxed{B} \\boxed{A}</answer>", 0.0),
        ("<answer>\\boxed{A}\\boxed{B}\\boxed{C}\\boxed{D}</answer>", 0.0),
        ("\\boxed{A} \\boxed{C} \\boxed{B}", 1.0),
        ("<answer>B \\boxed{A}</answer>", 0.0),
        ("<answer>\\boxed{B</answer>", 0.0),
        ("<answer>A</answer> \\boxed{B}", 0.0),
        # Prose is not searched.
        ("I could say A, B, C or D.", 0.0),
        ("The answer is B.", 0.0),
    ],
)
def test_the_place_of_the_answer_decides(score, text, value) -> None:
    assert score(text, "blue", "mcq", COLOURS) == value


@pytest.mark.parametrize("text", EMPTY)
@pytest.mark.parametrize(("gold", "kind", "choices"), GOLDS + TEXTS)
def test_no_answer_is_wrong(score, text, gold, kind, choices) -> None:
    assert score(text, gold, kind, choices) == 0.0


LOOK_ALIKES = [
    # Other letters that look alike name nothing.
    ("А", "red", "mcq", COLOURS, 0.0),
    ("В", "blue", "mcq", COLOURS, 0.0),
    ("Β", "blue", "mcq", COLOURS, 0.0),
    ("bluе", "blue", "mcq", COLOURS, 0.0),
    ("bluе", "blue", "text", None, None),
    ("уes", "yes", "bool", None, 0.0),
    ("Ⅴ", "5", "numeric", None, 0.0),
    ("l0", "10", "numeric", None, 0.0),
    ("1O", "10", "numeric", None, 0.0),
    # Fullwidth forms and digits of other scripts are the same characters in another dress.
    ("Ｂ", "blue", "mcq", COLOURS, 1.0),
    ("（Ｂ）", "blue", "mcq", COLOURS, 1.0),
    ("ｂｌｕｅ", "blue", "mcq", COLOURS, 1.0),
    ("５", "5", "numeric", None, 1.0),
    ("１２", "12", "numeric", None, 1.0),
    ("٥", "5", "numeric", None, 1.0),
    ("ｙｅｓ", "yes", "bool", None, 1.0),
    ("⁵", "5", "numeric", None, 0.0),
    # Every minus is a minus, and none is no minus.
    ("−5", "-5", "numeric", None, 1.0),
    ("–5", "-5", "numeric", None, 1.0),
    ("﹣5", "-5", "numeric", None, 1.0),
    ("－５", "-5", "numeric", None, 1.0),
    ("−5", "5", "numeric", None, 0.0),
    ("5", "-5", "numeric", None, 0.0),
    # Invisible characters are not there.
    ("B\u200b", "blue", "mcq", COLOURS, 1.0),
    ("\u2060B\ufeff", "blue", "mcq", COLOURS, 1.0),
    ("A\u200bB", "blue", "mcq", COLOURS, 0.0),
    ("bl\u200bue", "blue", "mcq", COLOURS, 1.0),
    ("1\u200b2", "12", "numeric", None, 1.0),
    ("1\u200b2", "1", "numeric", None, 0.0),
    ("y\u200bes", "yes", "bool", None, 1.0),
    ("yes\u200bno", "yes", "bool", None, 0.0),
]


@pytest.mark.parametrize(("text", "gold", "kind", "choices", "value"), LOOK_ALIKES, ids=lambda part: ascii(part)[:30])
def test_look_alikes(score, text, gold, kind, choices, value) -> None:
    assert score(answered(text), gold, kind, choices) == value


NUMBERS = [
    # A gold without a unit or sign does not look at the prediction's.
    ("5 %", "5", 1.0),
    ("500 %", "5", 0.0),
    ("0.05", "5 %", 1.0),
    ("0.05", "5", 0.0),
    ("5 %", "500", 0.0),
    ("0.5 %", "5 %", 0.0),
    # Several different numbers are wrong, however they are joined.
    ("3-5", "5", 0.0),
    ("3-5", "3", 0.0),
    ("3–5", "4", 0.0),
    ("3 to 5", "5", 0.0),
    ("5 or 6", "5", 0.0),
    ("5 or 6", "6", 0.0),
    ("five or 6", "6", 0.0),
    ("4, 5, 6", "5", 0.0),
    ("1 2 3 4 5 6 7 8 9", "5", 0.0),
    ("5/6", "5", 0.0),
    ("5:6", "5", 0.0),
    ("between 4 and 6", "5", 0.0),
    ("5±1", "5", 0.0),
    ("[1, 10]", "5", 0.0),
    # About a number is the number; a bound or a denial is for the judge; that of another number is wrong.
    ("about 5", "5", 1.0),
    ("approximately 5", "5", 1.0),
    ("~5", "5", 1.0),
    ("about 6", "5", 0.0),
    ("at least 5", "5", 0.0),
    ("≥ 5", "5", 0.0),
    ("5+", "5", 0.0),
    ("not 5", "5", 0.0),
    ("at least 1", "5", 0.0),
    # The tolerance needs a decimal point on both sides and ends at 5 %.
    ("5.2", "5", 0.0),
    ("5.25", "5.0", 1.0),
    ("5.26", "5.0", 0.0),
    ("105", "100.0", 0.0),
    ("nan", "5", 0.0),
    ("inf", "5", 0.0),
    ("1e309", "5", 0.0),
    ("5e0", "5", 1.0),
    ("x", "5", 0.0),
    ("5x", "5", 0.0),
    ("5!", "120", 1.0),
    ("9^9^9^9", "5", 0.0),
    ("5/0", "5", 0.0),
]


@pytest.mark.parametrize(("text", "gold", "value"), NUMBERS)
def test_numbers(score, text, gold, value) -> None:
    assert score(answered(text), gold, "numeric") == value


@pytest.mark.parametrize("text", BOTH)
@pytest.mark.parametrize("gold", ["yes", "no"])
def test_taking_both_sides_is_wrong(score, text, gold) -> None:
    assert score(answered(text), gold, "bool") == 0.0


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("12 cm, 12 m, 12 km", "12 cm", 0.0),
        ("12 cm or 13 cm or 14 cm", "12 cm", 0.0),
        ("12 km", "12 cm", 0.0),
        ("12 somethings", "12 cm", 0.0),
        ("03/04/2021 or 2021-03-04", "2021-03-04", 0.0),
        ("2021-03-04, 2021-03-05", "2021-03-04", 0.0),
        ("cat, dog, bird, fish", "cat, dog", 0.0),
        ("cat, cat, dog, dog", "cat, dog", 0.0),
        ("cat or dog", "cat, dog", 0.0),
        ("white or black", "white", 0.0),
        ("white black red", "white", None),
        ("white, black, red, blue, green", "white", None),
        ("$\\frac{1}{2}$ or $\\frac{1}{3}$", "$\\frac{1}{2}$", 0.0),
    ],
)
def test_spreading_over_answers(score, text, gold, value) -> None:
    assert score(answered(text), gold, "text") == value


@pytest.mark.parametrize("filler", ["B ", "1 ", "yes ", "blue or ", "<answer>", "\\boxed{", "<", "{", "５"])
def test_a_megabyte_is_no_answer(score_answer, filler) -> None:
    text = filler * (1_000_000 // len(filler))
    for answer in (parse_response(text).answer, parse_response(f"<answer>{text}</answer>").answer):
        assert [score_answer(answer, *asked) for asked in GOLDS] == [0.0] * 3


@pytest.mark.parametrize(("words", "value"), [(60_000, 1.0), (300_000, 0.0)])
def test_a_right_answer_after_much_reasoning_is_right_up_to_a_bound(words, value, score) -> None:
    assert score("<think>" + "so " * words + "</think><answer>B</answer>", "blue", "mcq", COLOURS) == value
