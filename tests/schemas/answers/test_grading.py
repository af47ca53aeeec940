import json
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.answers.grading import Grade, grade_answer
from schemas.answers.registry import ANSWER_TYPES

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "grading.jsonl").read_text(encoding="utf-8").splitlines()
]
CHOICES = ("cat", "dog", "a horse")
TEXT = st.text(max_size=60) | st.text("0123456789.,-+/%$ ABCD()xyesno\\{}^=", max_size=30)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['case']}: {case['predicted']!r}"[:60])
def test_golden(case: dict) -> None:
    choices = tuple(case["choices"]) if case["choices"] else None
    grade = grade_answer(case["predicted"], case["gold"], case["answer_type"], choices)
    assert (grade.value, grade.method) == (case["value"], case["method"]), grade.reason


@settings(max_examples=300)
@given(predicted=st.none() | TEXT, gold=TEXT, answer_type=st.sampled_from([*ANSWER_TYPES, "other"]))
def test_any_text_gets_a_grade(predicted: str | None, gold: str, answer_type: str) -> None:
    grade = grade_answer(predicted, gold, answer_type, (gold, *CHOICES) if answer_type == "mcq" else None)
    assert isinstance(grade, Grade)
    assert grade.value in (0.0, 1.0, None)
    assert grade.reason
    assert (grade.value is None) == (grade.method in {"judge", "boxes", "gold"})


@settings(max_examples=100)
@given(
    predicted=st.sampled_from(["cat", "a horse", "the dog", "dog or cat", "zebra", "cat and a horse"]),
    order=st.permutations(CHOICES),
    gold=st.sampled_from(CHOICES),
)
def test_order_of_options_is_no_matter_to_text(predicted: str, order: list[str], gold: str) -> None:
    assert grade_answer(predicted, gold, "mcq", tuple(order)) == grade_answer(predicted, gold, "mcq", CHOICES)


@given(order=st.permutations(CHOICES), gold=st.sampled_from(CHOICES))
def test_a_letter_means_its_position(order: list[str], gold: str) -> None:
    letter = "ABC"[order.index(gold)]
    assert grade_answer(f"({letter})", gold, "mcq", tuple(order)).value == 1.0
    others = set("ABC") - {letter}
    assert {grade_answer(other, gold, "mcq", tuple(order)).value for other in others} == {0.0}


@given(st.integers(-(10**12), 10**12))
def test_whole_numbers_match_in_any_spelling_and_nothing_else(number: int) -> None:
    for spelling in (f"{number}", f"{number:,}", f"{number}.0", f"{number} cm", f"It is {number}."):
        assert grade_answer(spelling, str(number), "numeric", None).value == 1.0
    assert grade_answer(str(number + 1), str(number), "numeric", None).value == 0.0


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_five_percent_rule(predicted_tenths: int, gold_tenths: int) -> None:
    # Argos Eq. 7-8 in whole tenths: 100 |p - g| <= 5 max(|g|, 10).
    expected = 100 * abs(predicted_tenths - gold_tenths) <= 5 * max(abs(gold_tenths), 10)
    grade = grade_answer(f"{predicted_tenths / 10:.1f}", f"{gold_tenths / 10:.1f}", "numeric", None)
    assert grade.value == float(expected)


@pytest.mark.parametrize(
    "text",
    [
        "1 " * 500_000,
        "(" * 1_000_000,
        "yes " * 250_000,
        "\\frac{" * 150_000,
        "$" * 1_000_000,
        "A or " * 200_000,
    ],
)
@pytest.mark.parametrize("answer_type", ["mcq", "bool", "numeric", "text"])
def test_hostile_text_ends(text: str, answer_type: str) -> None:
    gold = {"mcq": "dog", "bool": "yes", "numeric": "3", "text": "$\\frac{1}{2}$"}[answer_type]
    assert grade_answer(text, gold, answer_type, CHOICES).value == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9}}",
        "9^9^9",
        "(9^{999})^{999}",
        "e^{e^{e^{99}}}",
        "100000!",
        "(100!)!",
        "\\sum_{i=1}^{10^9} i",
        "\\int_0^1 x dx",
        "\\binom{1000000}{500000}",
        "(a+b+c)^{999}",
        "{" * 200 + "}" * 200,
        "9" * 400,
        "2^{" * 100 + "2" + "}" * 100,
        "9**9**9",
        "9 ^ 9 ^ 9",
        "9^{ 9 ^ 9}",
        "9^{(9^9)}",
        "9⁹⁹⁹⁹",
    ],
)
def test_runaway_maths_is_refused(text: str) -> None:
    assert grade_answer(text, "$\\frac{1}{2}$", "text", None).value == 0.0
    assert grade_answer("5", text if "\\" in text or "^" in text else f"${text}$", "text", None).value != 1.0


def test_maths_off_the_main_thread() -> None:
    grades: list[Grade] = []
    thread = threading.Thread(target=lambda: grades.append(grade_answer("\\sqrt{12}", "$2\\sqrt{3}$", "text", None)))
    thread.start()
    thread.join()
    assert [grade.value for grade in grades] == [1.0]
