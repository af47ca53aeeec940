"""Coordinates in prose: those of the lists are found in whatever spelling, and counts, tables and dates are none."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.response import parse_response
from groundtrace.rewards.form import BOXED_FORM, GROUNDED_FORM, TEXTUAL_FORM, Form, form_fault
from groundtrace.rewards.written_places import place_in_prose, place_in_words, plain
from groundtrace.schemas.records import Question

DATA = Path(__file__).parent / "data"
COUNT = Question("q", "", "", (), "How many yellow squares are there?", "2", "numeric")


def lines(name: str) -> list[str]:
    return (DATA / name).read_text("utf-8").splitlines()


def fault(think: str, question: Question = COUNT) -> str | None:
    text = f"<think>{think} So there are two.</think><answer>2</answer>"
    return form_fault(text, parse_response(text), question, TEXTUAL_FORM)


@pytest.mark.parametrize("written", lines("places_in_words.txt"))
def test_coordinates_in_any_spelling_are_found(written: str) -> None:
    assert fault(written) is not None


@pytest.mark.parametrize("written", lines("words_without_places.txt"))
def test_numbers_that_are_no_coordinates_may_stand(written: str) -> None:
    assert fault(written) is None


def of_list(line: str) -> str | None:
    """The place that is found in a line of a list: a sentence, behind ``||`` where it answers a question of its own."""
    asked, _, said = line.rpartition("||")
    found = fault(said, Question("q", "", "", (), asked.strip(), "2", "numeric") if asked else COUNT)
    return found if found is not None and found.startswith("coordinates are") else None


@pytest.mark.parametrize(("name", "size", "found"), [("places_stranger.txt", 70, 68), ("places_later.txt", 30, 22)])
def test_places_in_the_wordings_of_a_stranger(name: str, size: int, found: int) -> None:
    """The first list was written before the rules were read: at first sight 43 of the 70 were found.

    The second was written after they were mended, and no rule was made after it: 19 of the 30 before, 22 now.
    """
    written = lines(name)
    assert len(set(written)) == size
    assert sum(of_list(line) is not None for line in written) >= found


@pytest.mark.parametrize(
    ("name", "size"), [("no_places_stranger.txt", 159), ("no_places_later.txt", 60), ("no_places_close_by.txt", 42)]
)
def test_less_than_two_percent_of_a_strangers_numbers_are_taken_for_places(name: str, size: int) -> None:
    """At first sight 2 of the 159 were alarms, and none of the 60. The third are what the rules come close to."""
    written = lines(name)
    assert len(set(written)) == size
    alarms = [line for line in written if of_list(line) is not None]
    assert len(alarms) / size < 0.02, alarms


BOX = '<box alt="yellow square">[10,20,30,40]</box>'
POINT = '<points x1="20" y1="30" alt="yellow square">yellow square</points>'


@pytest.mark.parametrize(("form", "tag"), [(BOXED_FORM, BOX), (GROUNDED_FORM, POINT)])
@pytest.mark.parametrize("beside", ["The other is at 34, 78.", "The other spans x 34 to 60 and y 78 to 99."])
def test_what_is_said_beside_a_tag_is_no_place_that_nobody_checks(form: Form, tag: str, beside: str) -> None:
    for think, is_fault in ((f"I see {tag}. {beside}", True), (f"I see {tag}.", False)):
        text = f"<think>{think} So there are two.</think><answer>2</answer>"
        assert (form_fault(text, parse_response(text), COUNT, form) is not None) == is_fault


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("If x + y = 10, what is y?", "If x + y = 10 and x is 4, then y is 6."),
        ("How many bars does the chart have?", "It has x from 0 to 10 and y from 0 to 5."),
    ],
)
def test_values_of_axes_may_stand_where_the_question_is_about_them(asked: str, said: str) -> None:
    assert fault(said) is not None
    assert fault(said, Question("q", "", "", (), asked, "2", "numeric")) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("（１２０，４５）", "(120,45)"),
        ("⟨120、\u200b45⟩", "(120,45)"),
        ("(٣٠, ٤٠)", "(30, 40)"),
        ("(−1, “4”)", "(-1, 4)"),
        ("(1,   2) \n \n (3, 4)", "(1, 2)\n(3, 4)"),
    ],
)
def test_signs_are_read_in_one_spelling(written: str, read: str) -> None:
    assert plain(written) == read
    assert place_in_prose(f"One at {written}.") is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["1, ", "x ", "1", " ", "at ", "the ", "left 1 ", "[ 1 ", "5% a b ", "y1 ", "1.", "±", "（"]
)
def test_reading_takes_time_in_proportion_to_the_length(piece: str) -> None:
    began = time.process_time()
    place_in_words(piece * (60_000 // len(piece)))
    assert time.process_time() - began < 5


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert place_in_words(text) is None or place_in_words(text)
