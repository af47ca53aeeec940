"""Which choices are opened, and that nothing but the form of the answer changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.open_multiple_choice import OpenMultipleChoice, open_question


def mcq(text: str, *choices: str, answer: str | None = None) -> Question:
    return Question(
        id="q",
        source="s",
        license="MIT",
        media=(),
        question=text,
        answer=answer or choices[-1],
        answer_type="mcq",
        choices=choices,
    )


OPENED = [
    (mcq("How many squares are there?", "3", "4", "-5"), "numeric"),
    (mcq("Find x.", "1.5", "2"), "numeric"),
    (mcq("What colour is the car?", "red", "dark blue"), "text"),
    (mcq("Who wrote it?", "Jean-Paul Sartre", "Camus"), "text"),
    (mcq("HOW MUCH is left?", "10", "20"), "numeric"),
    (mcq("How many are there?", *map(str, range(40))), "numeric"),
    (mcq("What is" + " " * 20_000 + "it?", "cat", "dog"), "text"),
    (mcq("How many of the 3 or 4 moves lead from (A) to (B)?", "3", "4"), "numeric"),
]


@pytest.mark.parametrize(("question", "answer_type"), OPENED)
def test_opened(question: Question, answer_type: str) -> None:
    opened = open_question(Draft(question)).question
    expected = replace(question, choices=None, opened_choices=question.choices, answer_type=answer_type)
    assert opened == expected


SPELT_OUT = [
    "What animal is this?\nA. cat\nB. dog",
    "What animal is this? (A) cat (B) dog",
    "What animal is this?\nA) Cat;\nB) dog.",
    "What animal is this? A: cat, B: dog",
]


@pytest.mark.parametrize("text", SPELT_OUT)
def test_options_in_the_text_go_with_the_choices(text: str) -> None:
    opened = open_question(Draft(mcq(text, "cat", "dog"))).question
    assert (opened.question, opened.choices, opened.answer) == ("What animal is this?", None, "dog")
    assert opened.opened_choices == ("cat", "dog")


STAYS = [
    mcq("Which of these is red?", "car", "bus"),
    mcq("What is true of the following?", "size", "colour"),
    mcq("What is shown below?", "car", "bus"),
    mcq("What best describes it?", "car", "bus"),
    mcq("What colour is not there except red?", "blue", "green"),
    mcq("The car is ___ what colour", "red", "blue"),
    mcq("What I see is ( )", "red", "blue"),
    mcq("The colour is", "red", "blue"),
    mcq("Describe it.", "red", "blue"),
    mcq("How many?", "3", "none"),
    mcq("What is it?", "car", "all of them"),
    mcq("What is it?", "car", "Cannot be determined"),
    mcq("How many?", "3", "four"),
    mcq("What is it?", "A", "B"),
    mcq("What happens?", "the car turns left at once", "it stops"),
    mcq("How long is it?", "3 cm", "4 cm"),
    mcq("What is it?", "x^2", "y"),
    mcq("How much is it?", "2.50", "2.60", "2.55"),
    mcq("How much is it?", "1.00", "0.97", "0.96"),
    mcq("What is it, a cat or a dog?", "cat", "dog"),
    mcq("What is it? A. dog B. cat", "cat", "dog"),
    mcq("What is it?\nA. cat\nB. dog\nSay why.", "cat", "dog"),
]


@pytest.mark.parametrize("question", STAYS, ids=lambda question: f"{question.question} {question.choices}")
def test_left_closed(question: Question) -> None:
    assert open_question(Draft(question)) == Draft(question)


def test_words_stay_closed_without_a_judge() -> None:
    words, numbers = mcq("What is it?", "sofa", "chair"), mcq("How many?", "3", "4")
    assert open_question(Draft(words), judged=True).question.choices is None
    assert open_question(Draft(words), judged=False) == Draft(words)
    assert open_question(Draft(numbers), judged=False).question.choices is None


def test_a_question_without_choices_stays(make_draft: Callable[..., Draft]) -> None:
    assert open_question(make_draft("a")) == make_draft("a")


TEXTS = st.lists(st.sampled_from(["How many", "What", "is", "red", "none", "below", "?", "___", "x"]), min_size=1)
CHOICES = st.lists(st.text(min_size=1, max_size=6) | st.sampled_from(["1", "-2", "red car"]), min_size=2, unique=True)


@settings(max_examples=150)
@given(TEXTS.map(" ".join), CHOICES, st.data())
def test_the_gold_answer_and_the_choices_survive(text: str, choices: list[str], data: st.DataObject) -> None:
    question = mcq(text, *choices, answer=data.draw(st.sampled_from(choices)))
    opened = open_question(Draft(question)).question
    assert opened.answer == question.answer
    assert (opened.choices or opened.opened_choices) == tuple(choices)
    assert (opened.answer_type == "mcq") == (opened.choices is not None)
    assert replace(opened, choices=None, opened_choices=None, answer_type="mcq") == replace(question, choices=None)
    if opened.choices is None:
        graded = {choice: grade_answer(choice, opened.answer, opened.answer_type, None).value for choice in choices}
        assert graded.pop(opened.answer) == 1.0
        assert 1.0 not in graded.values()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_stage(enabled: bool, check_stage: Callable[..., None]) -> None:
    drafts = [
        Draft(mcq("How many?", "3", "4")),
        Draft(replace(mcq("Which of these?", "car", "bus"), id="b")),
    ]
    check_stage(
        OpenMultipleChoice(enabled),
        drafts,
        kept=[("q", None if enabled else ("3", "4")), ("b", ("car", "bus"))],
        rejected=[],
        show=lambda draft: (draft.id, draft.question.choices),
    )
