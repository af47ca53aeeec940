import json
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.answer_type import Gold, InvalidGold
from groundtrace.grading.answers.grading import Grade, grade_answer
from groundtrace.grading.answers.numerals import is_qualified, read_numerals
from groundtrace.grading.answers.registry import ANSWER_TYPES

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "grading.jsonl").read_text(encoding="utf-8").splitlines()
]
CHOICES = ("cat", "dog", "a horse")
TEXT = st.text(max_size=60) | st.text("0123456789.,-+/%$ ABCD()xyesno\\{}^=", max_size=30)


PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "graded_pairs.jsonl").read_text(encoding="utf-8").splitlines()
]
VALUES = {"right": 1.0, "wrong": 0.0, "judge": None}
# Texts of every family that can stand in any of these without meaning anything else.
PLAIN_PAIRS = [
    (predicted, group, value)
    for group in PAIRS
    for name, value in VALUES.items()
    for predicted in group[name]
    if predicted.strip() and not set(predicted) & set("$\"“”’′″'(\\*.。")
]
FORMULAS = ("${}$", r"\({}\)")
WRAPPERS = (
    *FORMULAS,
    "  {} \n",
    "{}.",
    "{}。",
    "**{}**",
    r"\text{{{}}}",
    r"\textbf{{{}}}",
    r"\boxed{{{}}}",
    '"{}"',
    "The answer is {}",
)


@pytest.mark.parametrize("group", PAIRS, ids=lambda group: f"{group['family']}: {group['gold']}"[:60])
def test_pairs_are_graded_as_a_person_would(group: dict) -> None:
    choices = tuple(group["choices"]) if group["choices"] else None
    given = {
        predicted: grade_answer(predicted, group["gold"], group["answer_type"], choices).value
        for name in VALUES
        for predicted in group[name]
    }
    assert given == {predicted: value for name, value in VALUES.items() for predicted in group[name]}


def test_every_family_has_right_and_wrong_answers() -> None:
    families: dict[str, dict[str, int]] = {}
    for group in PAIRS:
        counts = families.setdefault(group["family"], dict.fromkeys(VALUES, 0))
        for name in VALUES:
            counts[name] += len(group[name])
    assert sum(sum(counts.values()) for counts in families.values()) >= 450
    assert all(counts["wrong"] + counts["judge"] > 0 for counts in families.values())
    assert sum(counts["right"] for counts in families.values()) < 1.3 * sum(
        counts["wrong"] + counts["judge"] for counts in families.values()
    )


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_stands_around_an_answer_changes_nothing(wrapper: str) -> None:
    changed = []
    for predicted, group, value in PLAIN_PAIRS:
        choices = tuple(group["choices"]) if group["choices"] else None
        if wrapper in FORMULAS and re.search(r"\d\s*[A-Za-z](?![A-Za-z])", predicted):
            continue  # a single letter after a number is a symbol within a formula, and a unit outside
        wrapped = wrapper.format(predicted)
        if grade_answer(wrapped, group["gold"], group["answer_type"], choices).value != value:
            changed.append((wrapped, group["gold"]))
    assert changed == []


@pytest.mark.parametrize("group", PAIRS, ids=lambda group: f"{group['family']}: {group['gold']}"[:60])
def test_the_gold_itself_is_right(group: dict) -> None:
    choices = tuple(group["choices"]) if group["choices"] else None
    assert grade_answer(group["gold"], group["gold"], group["answer_type"], choices).value == 1.0


SIGNS = st.text("?!-–—→.。…*_`'\"“”‘’$%#@/|\\{}[]()<>=+,;:😀♥π °", min_size=1, max_size=6)


@pytest.mark.parametrize("kind", ["text", "mcq"])
@pytest.mark.parametrize("gold", ["?", "-", "→", "😀", "...", "**", "'", '"?"', "?.", "$?$", "`!`", "(", "“”"])
def test_a_gold_of_signs_is_right_for_itself(gold: str, kind: str) -> None:
    choices = (gold, "!!", "the dog") if kind == "mcq" else None
    assert grade_answer(gold, gold, kind, choices).value == 1.0
    assert grade_answer("!!", gold, kind, choices).value == 0.0


@settings(max_examples=400, deadline=None)
@given(gold=SIGNS | TEXT, kind=st.sampled_from(["text", "numeric", "bool", "mcq"]), others=st.lists(SIGNS, max_size=3))
def test_every_accepted_gold_is_right_for_itself(gold: str, kind: str, others: list[str]) -> None:
    choices = (gold, *(other for other in others if other.strip() != gold.strip())) if kind == "mcq" else None
    try:
        accepted = ANSWER_TYPES[kind].check_gold(Gold(gold, gold if choices else None))
    except InvalidGold:
        return
    assert grade_answer(accepted, accepted, kind, choices).value != 0.0


NUMBERS = sorted({p for group in PAIRS if group["answer_type"] == "numeric" for p in group["right"] + group["wrong"]})


@settings(max_examples=300)
@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
def test_exact_numbers_are_the_same_in_both_directions(one: str, other: str) -> None:
    numbers = read_numerals(one).single, read_numerals(other).single
    if None in numbers or any(number.is_decimal or number.is_percent for number in numbers if number is not None):
        return
    grades = [grade_answer(a, b, "numeric", None) for a, b in ((one, other), (other, one))]
    if not any(is_qualified(text) for text in (one, other)) and {grade.method for grade in grades} == {"numeric"}:
        assert grades[0].value == grades[1].value


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
    assert (grade.value is None) == (grade.method in {"judge", "boxes", "gold", "unknown"})


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
    # Argos Eq. 7-8 with |g| in place of max(|g|, 1), in whole tenths.
    expected = 100 * abs(predicted_tenths - gold_tenths) <= 5 * abs(gold_tenths)
    grade = grade_answer(f"{predicted_tenths / 10:.1f}", f"{gold_tenths / 10:.1f}", "numeric", None)
    assert grade.value == float(expected)


@pytest.mark.parametrize(
    "text",
    [
        "1 " * 500_000,
        "a" + " " * 1_000_000 + "b",
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
        "9^{(999999999)}",
        "9^(999999999)",
        r"9^{1\cdot 999999999}",
        "9^{1+999999999}",
        "99,999!",
        "9^{12!}",
        "9^{(12!)}",
        "9^12!",
        "9^{2 \\cdot 12!}",
        "|99999|!",
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
