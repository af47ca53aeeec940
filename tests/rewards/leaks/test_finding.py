"""Leaks of a given answer, on lists that were written by hand, each before the rules were held against it."""

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.leaks.finding import MAX_READ_CHARS, find_leak, find_leak_in_judge_section
from schemas.records import Question

DATA = Path(__file__).parents[1] / "data/leaks"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def state_of(row: dict[str, Any]) -> str:
    """The worse of the two sections, as the stage takes it."""
    choices = tuple(row["choices"]) if "choices" in row else None
    question = asked(row["answer"], choices, row.get("question", "What is it?"))
    section = find_leak_in_judge_section(row.get("judge", ""), question)
    states = [found.state for found in (section, find_leak(row.get("thinking", ""), question))]
    return min(states, key=("leak", "open", "clean").index)


def asked(answer: str, choices: tuple[str, ...] | None = None, text: str = "What is it?") -> Question:
    return Question("q", "drawn", "CC0-1.0", (), text, answer, "text", choices)


@pytest.mark.parametrize(
    ("name", "size"),
    [("leaks.jsonl", 50), ("leaks_more.jsonl", 30), ("leaks_guided.jsonl", 120), ("leaks_third.jsonl", 30)],
)
def test_every_planted_phrasing_is_caught(name: str, size: int) -> None:
    planted = rows(name)
    assert len({row["thinking"] for row in planted}) == size
    assert [row["thinking"] for row in planted if state_of(row) != "leak"] == []


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("clean_thinking.jsonl", 109),
        ("clean_guided.jsonl", 200),
        ("clean_other_teachers.jsonl", 99),
        ("clean_third.jsonl", 60),
        ("clean_judging.jsonl", 20),
        ("clean_fourth.jsonl", 20),
        ("clean_typical.jsonl", 120),
        ("clean_option_texts.jsonl", 30),
        ("clean_stranger.jsonl", 208),
    ],
)
def test_less_than_two_percent_of_clean_reasoning_raises_an_alarm(name: str, size: int) -> None:
    """What is left open counts as an alarm, too.

    At first sight, before any rule was made after them, the rules raised 4 of 99 (other teachers), 1 of 60 (third),
    of judge sections 7 of 20, then 0 of 20 (fourth), 1 of 120 (typical), 0 of 30 (option texts), 4 of 208 (stranger).
    """
    clean = rows(name)
    assert len({(row.get("judge"), row["thinking"]) for row in clean}) == size
    alarms = [row["thinking"] for row in clean if state_of(row) != "clean"]
    assert len(alarms) / size < 0.02, alarms


@pytest.mark.parametrize(
    ("name", "caught", "size"),
    [("leaks_other_teachers.jsonl", 58, 60), ("leaks_unseen.jsonl", 18, 20), ("leaks_fourth.jsonl", 19, 20)],
)
def test_wordings_that_nobody_thought_of(name: str, caught: int, size: int) -> None:
    """Lists of wordings as odd as they can be; some have no structure to find, which is what a judge is for.

    The rules as they stand were mended after them. At first sight, before any rule was made after them, they caught 19
    of the 60 (terse, bulleted and non-native teachers), later 26 of the 30 of ``leaks_third.jsonl`` (plain teachers),
    and at last 12 of the 20 of ``leaks_fourth.jsonl``. All three were written by somebody who knew the rules: of odd
    wordings not seen yet expect about half.
    """
    odd = rows(name)
    assert len({row["thinking"] for row in odd}) == size
    assert sum(state_of(row) != "clean" for row in odd) >= caught


@pytest.mark.parametrize(
    ("name", "size"),
    [("leaks_typical.jsonl", 60), ("leaks_option_texts.jsonl", 20), ("leaks_typical_second.jsonl", 30)],
)
def test_typical_wordings_are_caught(name: str, size: int) -> None:
    """What teachers most often write. Nobody who wrote ``leaks_typical.jsonl`` had read the rules.

    At first sight they caught 55 of the 60; of texts that name the right option by what it says 2 of 20; and, after
    both were mended, 26 of the 30 of the second list.
    """
    planted = rows(name)
    assert len({row["thinking"] for row in planted}) == size
    assert [row["thinking"] for row in planted if state_of(row) == "clean"] == []


def test_a_list_by_a_stranger_is_caught() -> None:
    """Typical and subtle wordings over all kinds of answers; whoever wrote it had not read the rules.

    At first sight they caught 78 of the 93. What is left says so by its sense alone ("since we know the light isn't
    green", where the answer is no).
    """
    planted = rows("leaks_stranger.jsonl")
    assert len({row["thinking"] for row in planted}) == 93
    assert sum(state_of(row) != "clean" for row in planted) >= 91


def test_a_later_list_shows_what_to_expect_of_wordings_not_seen_yet() -> None:
    """Written after the list by a stranger was mended, by the same writer; no rule was made after it.

    The rules before that caught 30 of its 43 leaks, those after it 34; both raised 2 alarms on its 82 clean thoughts.
    """
    planted, clean = rows("leaks_later.jsonl"), rows("clean_later.jsonl")
    assert (len({row["thinking"] for row in planted}), len({row["thinking"] for row in clean})) == (43, 82)
    assert sum(state_of(row) != "clean" for row in planted) >= 34
    assert sum(state_of(row) != "clean" for row in clean) <= 2


@pytest.mark.parametrize(
    ("name", "leaks", "caught", "clean", "alarms"),
    [("judge_sections", 12, 12, 24, 0), ("judge_sections_later", 11, 6, 24, 1)],
)
def test_judge_sections_that_hold_the_answer(name: str, leaks: int, caught: int, clean: int, alarms: int) -> None:
    """At first sight 5 of 12 and 0 of 24, when judge sections were read as thoughts are.

    No rule was made after the second list; the rules for thoughts catch 1 of its 11.
    """
    planted, harmless = rows(f"leaks_{name}.jsonl"), rows(f"clean_{name}.jsonl")
    assert (len({row["judge"] for row in planted}), len({row["judge"] for row in harmless})) == (leaks, clean)
    assert sum(state_of(row) != "clean" for row in planted) >= caught
    assert sum(state_of(row) != "clean" for row in harmless) <= alarms


@pytest.mark.parametrize(
    ("section", "answer", "state"),
    [
        ("The answer is 6, but that takes counting.", "6", "leak"),
        ("It takes 6 steps to get the answer.", "6", "clean"),
        ("The answer takes 6 steps.", "6", "clean"),
        ("The answer is found by counting.", "6", "clean"),
        ("The answer is directly visible, so no reasoning is required.", "no", "clean"),
        ("No calculation is needed to see the answer.", "No", "clean"),
        ("The answer is no, but the light is hard to see.", "no", "leak"),
        ("One has to count to get the answer.", "1", "clean"),
        ("The result takes one step, so it is simple.", "1", "clean"),
        ("It is true that the answer is visible at once.", "True", "clean"),
        ("A careful look leads to the right answer.", "right", "clean"),
        ("Three different shapes have to be counted to get the answer.", "3", "clean"),
        ("", "6", "clean"),
    ],
)
def test_cases_of_judge_sections(section: str, answer: str, state: str) -> None:
    assert find_leak_in_judge_section(section, asked(answer)).state == state


def test_one_of_the_second_clean_list_is_left_open() -> None:
    """It begins with a general law that says the answer ("We know that granite is igneous"). At first sight 5 of 40."""
    clean = rows("clean_typical_second.jsonl")
    assert len({row["thinking"] for row in clean}) == 40
    states = [state_of(row) for row in clean]
    assert states.count("leak") == 0
    assert states.count("open") <= 1


@pytest.mark.parametrize(
    ("text", "answer", "choices", "state"),
    [
        ("Since the answer is B, look at the second one.", "a dog", ("a cat", "a dog"), "leak"),
        ("Since the answer is A, look at the first one.", "a dog", ("a cat", "a dog"), "clean"),
        ("Since the answer is (B), look at it.", "a dog", ("a cat", "a dog"), "leak"),
        ("Since the answer is a dog, look at the second one.", "B", ("a cat", "a dog"), "leak"),
        ("Since the answer is a cat, look at the first one.", "B", ("a cat", "a dog"), "clean"),
        ("I see a tail, so it is a dog. The answer is B.", "B", ("a cat", "a dog"), "clean"),
        ("Since the answer is , look.", "B", ("a cat", ""), "clean"),
        ("The sum is 9. The answer should be 8 though.", "8", None, "leak"),
        ("The sum is 9. The answer should be 7 though.", "8", None, "clean"),
        ("We need the base. We want it to be 8.", "8", None, "leak"),
        ("It looks like 7. However, the correct answer is 8, which means one is hidden.", "8", None, "leak"),
        ("It looks like 7. One is hidden, however, so the correct answer is 8.", "8", None, "clean"),
        ("Each step adds 5. This leads to 20.", "20", None, "clean"),
        ("The reasoning leads to 20.", "20", None, "leak"),
        ("The answer is 3.", "3", None, "clean"),
        ("The answer is 3. I count the circles.", "3", None, "leak"),
        ("The answer is 31. I count the circles.", "3", None, "clean"),
        ("The given\u200b ans\u200bwer is 3.", "3", None, "leak"),
        ("THE GIVEN\nANSWER IS 3", "3", None, "leak"),
        ("", "3", None, "clean"),
        ("What is (?", "(?", None, "clean"),
        ("It must be four. A dog has four legs.", "4", None, "leak"),
        ("It must be 4, hence four. A dog has four legs.", "44", None, "clean"),
        ("Three is certain. One, two, three.", "3", None, "open"),
        ("A dog has the given answer A.", "A", None, "leak"),
        ("A dog is brown. It must be a dog.", "A", None, "clean"),
        ("The label [cat, dog] is the given answer.", "[cat, dog]", None, "leak"),
        ("A cat and a dog are the correct ones. They play.", "[cat, dog]", None, "leak"),
        ("B is correct: it rises. A is wrong: it falls.", "B", None, "clean"),
        ("The answer is B: it rises. A is wrong: it falls.", "B", None, "leak"),
        ("B is correct. A dog is not in it.", "B", None, "leak"),
        ("B is correct: it rises. One sees it at once.", "B", None, "leak"),
        ("He wears the gold ring on his left hand.", "ring", None, "clean"),
        ("The given value 7 in the table is the largest, so 7.", "7", None, "clean"),
        ("The stated number 12 on the label is the weight.", "12", None, "clean"),
        ("The door sign says guidance office. So he goes to the office.", "office", None, "clean"),
        ("He stays, because that is what the sign says: stop.", "stop", None, "clean"),
        ("Because it is the result of 3 + 4, it is 7.", "7", None, "clean"),
        ("It may be 6. Since that is the answer we were given, 6.", "6", None, "leak"),
    ],
)
def test_cases(text: str, answer: str, choices: tuple[str, ...] | None, state: str) -> None:
    assert find_leak(text, asked(answer, choices)).state == state


def test_a_sign_that_the_question_itself_says_is_none() -> None:
    text = "The ground truth label of the row is 3. It stands in the last column, so it is 3."
    assert find_leak(text, asked("3", text="What is the ground truth label of the row?")).state == "clean"
    assert find_leak(text, asked("3", text="What number is in the row?")).state == "leak"


@pytest.mark.parametrize("unit", ["answer ", "5 ", "a b c ", "the answer that I should explain why 5 ", "\n", "A\n "])
def test_reading_a_long_text_takes_little_time(unit: str) -> None:
    started = process_time()
    find_leak(unit * (MAX_READ_CHARS // len(unit)), asked("5"))
    assert process_time() - started < 5


@given(st.text(max_size=200), st.text(min_size=1, max_size=20))
def test_no_text_makes_it_raise(text: str, answer: str) -> None:
    assert find_leak(text, asked(answer)).state in ("leak", "open", "clean")


@given(st.sampled_from(rows("clean_thinking.jsonl")), st.sampled_from(rows("leaks.jsonl")))
def test_a_leak_is_found_wherever_it_stands(clean: dict[str, str], leak: dict[str, str]) -> None:
    """But for those that are one only by standing first."""
    first = state_of({**leak, "thinking": f"I look. {leak['thinking']}"})
    behind = find_leak(f"{clean['thinking']} {leak['thinking']}", asked(leak["answer"])).state
    assert behind == "leak" or first != "leak"
