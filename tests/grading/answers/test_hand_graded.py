"""Answers graded by a person before the rules were looked at, in four lists; and laws that hold for any gold.

The file keeps five kinds of answers for each gold: ``right``, ``wrong`` and ``judge`` are what a rule must say;
``right_or_judge`` and ``wrong_or_judge`` are right and wrong for a person, while no rule can be sure of it.
"""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.answer_type import Gold, InvalidGold
from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.number import NUMBER
from groundtrace.grading.answers.registry import ANSWER_TYPES

ALLOWED: dict[str, set[float | None]] = {
    "right": {1.0},
    "wrong": {0.0},
    "judge": {None},
    "right_or_judge": {1.0, None},
    "wrong_or_judge": {0.0, None},
}
GROUPS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "hand_graded.jsonl").read_text(encoding="utf-8").splitlines()
]
KNOWN = {
    ("100th", "one hundredth"),
    ("yes", "1"),
    ("no", "None"),
    ("6.0 × 10^-3", "6 x 10-3"),
    ("2 kΩ", "2 kilo-ohms"),
    ("$3+4i$", "3+4j"),
    ("62", "It was 62 in 2015"),
    ("1.3", "1.3x"),
    ("gas", "gaseous"),
    ("12.5", "00:12.5"),
    ("1998", "'98"),
}
"""Right answers that are not graded so, as (gold, answer)."""


def _grade(predicted: str, group: dict) -> float | None:
    choices = tuple(group["choices"]) if group["choices"] else None
    return grade_answer(predicted, group["gold"], group["answer_type"], choices).value


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['list']} {group['family']}: {group['gold']}"[:60])
def test_grades_agree_with_a_person(group: dict) -> None:
    disagreeing = {
        predicted
        for kind, allowed in ALLOWED.items()
        for predicted in group[kind]
        if _grade(predicted, group) not in allowed
    }
    assert disagreeing <= {predicted for gold, predicted in KNOWN if gold == group["gold"]}
    assert 1.0 not in {
        _grade(predicted, group) for kind in ("wrong", "judge", "wrong_or_judge") for predicted in group[kind]
    }


def test_agreement_is_above_97_percent_in_each_list() -> None:
    for number in {group["list"] for group in GROUPS}:
        graded = [
            _grade(predicted, group) in allowed
            for group in GROUPS
            if group["list"] == number
            for kind, allowed in ALLOWED.items()
            for predicted in group[kind]
        ]
        assert len(graded) >= 400
        assert sum(graded) >= 0.97 * len(graded)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['list']} {group['family']}: {group['gold']}"[:60])
def test_the_gold_is_accepted_and_right(group: dict) -> None:
    if group["answer_type"] == "numeric":
        NUMBER.check_gold(Gold(group["gold"]))
    assert _grade(group["gold"], group) == 1.0


@pytest.mark.parametrize(
    ("gold", "normal"),
    [
        ("1,234", "1234"),
        ("3/4", "3/4"),
        (" 3/4 cup ", "3/4 cup"),
        ("10-15", "10-15"),
        ("5 km", "5 km"),
        ("$1.5M", "$1.5M"),
        ("twenty-one", "twenty-one"),
        ("at least 5", "at least 5"),
        ("4 out of 10", "4 out of 10"),
        ("$2\\pi$", "$2\\pi$"),
        ("12:30", "12:30"),
        ("三", "三"),
    ],
)
def test_numeric_golds_that_can_be_graded_are_accepted(gold: str, normal: str) -> None:
    assert NUMBER.check_gold(Gold(gold)) == normal


@pytest.mark.parametrize(
    "gold", ["red", "N/A", "unknown", "4 dogs and 2 cats", "$x$", "many", "?", "a 3 b 4", "none of 3 or 4 x"]
)
def test_numeric_golds_that_cannot_be_graded_are_refused(gold: str) -> None:
    with pytest.raises(InvalidGold, match=r"^answer: .* is not one number, fraction, range, ratio or quantity; give a"):
        NUMBER.check_gold(Gold(gold))


UNITS = ("", " km", " kg", " s", " apples", "%", " °C", " GB")
WHOLE = st.integers(0, 10**9)
# Golds of every form that are equal only if their numbers are.
FORMS = (
    "{}",
    "{:,}",
    "there are {}",
    "{} km",
    "${}",
    "at least {}",
    "{}th",
    "{}-4000000000",
    "{}:7",
    "({}, 1)",
    "x = {}",
    "{} out of 4000000000",
    "$\\frac{{{}}}{{7}}$",
)


@settings(max_examples=150)
@given(WHOLE, WHOLE, st.sampled_from(FORMS), st.sampled_from(["numeric", "text"]))
def test_another_number_in_the_same_form_is_never_right(one: int, other: int, form: str, answer_type: str) -> None:
    assume(one != other)
    gold, predicted = form.format(one), form.format(other)
    assert grade_answer(gold, gold, answer_type, None).value == 1.0
    assert grade_answer(predicted, gold, answer_type, None).value != 1.0


@settings(max_examples=120)
@given(WHOLE, WHOLE, st.sampled_from(FORMS), st.sampled_from(UNITS))
def test_a_wrong_number_is_never_right_whatever_stands_around_it(one: int, other: int, form: str, unit: str) -> None:
    assume(one != other and 100 * one != other and one != 100 * other)
    assume(7 * one != other or "{7}" not in form)  # a fraction with 7 below it
    assert grade_answer(form.format(other), f"{one}{unit}", "numeric", None).value != 1.0


@settings(max_examples=120)
@given(WHOLE, st.integers(1, 10**6), st.sampled_from(["-", "–", " to ", " or "]))
def test_a_range_is_neither_of_its_ends(low: int, width: int, joint: str) -> None:
    gold = f"{low}{joint}{low + width}"
    for answer_type in ("numeric", "text"):
        assert grade_answer(gold, gold, answer_type, None).value == 1.0
        assert grade_answer(str(low), gold, answer_type, None).value != 1.0
        assert grade_answer(gold, str(low), answer_type, None).value != 1.0


@settings(max_examples=80)
@given(st.integers(0, 999), st.integers(0, 999), WHOLE)
def test_a_sum_is_what_it_comes_to(one: int, other: int, gold: int) -> None:
    assert grade_answer(f"{one} + {other}", str(one + other), "numeric", None).value == 1.0
    assert grade_answer(f"{one} + {other}", str(gold), "numeric", None).value == float(gold == one + other)


@settings(max_examples=80)
@given(st.integers(100, 209), st.integers(100, 209))
def test_a_decade_is_no_year(one: int, other: int) -> None:
    for answer_type in ("numeric", "text"):
        assert grade_answer(f"{one}0s", f"{other}0", answer_type, None).value == 0.0
        assert grade_answer(f"{one}0", f"{other}0s", answer_type, None).value != 1.0


@settings(max_examples=80)
@given(st.integers(1, 99), st.integers(1, 99))
def test_seconds_are_no_ordinal(seconds: int, place: int) -> None:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(0 if 10 < place < 20 else place % 10, "th")
    for unit in (" seconds", " s", " sec", " minutes"):
        assert grade_answer(f"{seconds}{unit}", f"{place}{suffix}", "text", None).value == 0.0
        assert grade_answer(f"{place}{suffix}", f"{seconds}{unit}", "text", None).value == 0.0


@settings(max_examples=80)
@given(st.fractions(0, 1000, max_denominator=12), st.fractions(0, 1000, max_denominator=12))
def test_fractions_are_exact_under_numeric(one: Fraction, other: Fraction) -> None:
    assert grade_answer(str(one), str(one), "numeric", None).value == 1.0
    assert grade_answer(str(other), str(one), "numeric", None).value == float(one == other)


WORDS = (
    "5 12 1990 s 's 三 第 个 万 - – to or and between at least than more half a dozen million k M % $ € km second nd",
    "rd third yes no not maybe wait A B C ( ) { } [ ] , : / + * × x = . \\frac{1}{2} \\pi of out in the one two point",
    "decade century 19th cat dog",
)
SPOKEN = st.lists(st.sampled_from(" ".join(WORDS).split()), max_size=7)


@settings(max_examples=250)
@example([], ["$", "one", "$"], "text", "")
@given(SPOKEN, SPOKEN, st.sampled_from([*ANSWER_TYPES]), st.sampled_from(["", " "]))
def test_no_mixture_of_words_raises(predicted: list[str], gold: list[str], answer_type: str, joint: str) -> None:
    said, wanted = joint.join(predicted), joint.join(gold)
    grade = grade_answer(said, wanted, answer_type, (wanted, "cat", "5 km") if answer_type == "mcq" else None)
    assert (grade.value is None) == (grade.method in {"judge", "boxes", "gold"})
    if answer_type in {"numeric", "text"} and wanted.strip():
        assert grade_answer(wanted, wanted, answer_type, None).value in {1.0, None}
