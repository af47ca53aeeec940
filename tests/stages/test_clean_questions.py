"""What cleaning takes out of a question, what it leaves alone, and its rejections."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.question_text import user_text
from groundtrace.schemas.records import Draft
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings, clean, clean_text
from groundtrace.stages.plumbing.stage import Reject

REMNANTS = [
    ("<image1> How many?", "How many?"),
    ("<image>\nHow many?", "How many?"),
    ("<image 2>How many? <IMAGE>", "How many?"),
    ("[image 1][IMG]How many?<video>", "How many?"),
    ("How many in <image1> and <image2>?", "How many in picture 1 and picture 2?"),
    ("<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nHow many?<|im_end|>", "How many?"),
    ("<|begin_of_text|>[INST] How many? [/INST]</s>", "How many?"),
    ("<|vision_start|><|image_pad|><|vision_end|>How many?", "How many?"),
    ("user:\nHow many?", "How many?"),
    ("Human\nHow many?", "How many?"),
    ("You are a helpful assistant. How many?", "How many?"),
    ("How many? Answer with the option's letter from the given choices directly.", "How many?"),
    ("How many?\nPlease answer the question and provide the final answer at the end.", "How many?"),
    ("How many? Please put your final answer within \\boxed{}.", "How many?"),
    ("How many? Let's think step by step.", "How many?"),
    ("How many?\r\n  Of red?  \n\n\n\nOf blue?", "How many?\nOf red?\n\nOf blue?"),
    ("<ima<image>ge>How many?", "<ima the picture ge>How many?"),
    ("<|im_<|im_start|>start|>How many?", "<|im_ start|>How many?"),
    ("user:\n\nYou are a helpful assistant.\nhuman\nHow many?", "How many?"),
]


@pytest.mark.parametrize(("text", "cleaned"), REMNANTS)
def test_remnants_go(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


UNTOUCHED = [
    "How many images are there?",
    "Is x<image size?",
    "What does the user see?",
    "User: how many?",
    "You are a cook. How many eggs?",
    "Which letter is the answer with the option to cancel?",
    "Do the steps lead up? Think of each step.",
    "Is a < b and c > d?",
    "Solve $x^2 \\le 3$ for x.",
    "What is in [imagine]?",
    "两个红色方块？",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_the_questions_own_words_stay(text: str) -> None:
    assert clean_text(text) == text


@settings(max_examples=120)
@given(
    st.lists(
        st.sampled_from([*(text for text, _ in REMNANTS), " ", "\n", "?", "word", "<", "ge>", "\r\n", "\r"]), max_size=6
    )
)
def test_cleaning_again_changes_nothing(parts: list[str]) -> None:
    once = clean_text("".join(parts))
    assert clean_text(once) == once
    assert "<image>" not in once


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "user:\n" * 100_000,
        "user" + " " * 300_000 + "x",
        "You are a helpful assistant. " * 20_000,
        "<ima" * 20_000 + "<image>" + "ge>" * 20_000,
        "<image>" * 60_000,
        "a <image 1> " * 40_000,
        " " * 400_000 + "x" + " " * 400_000 + "y",
        "<|im_start|>system" * 30_000,
        "let's think step by step" * 10_000,
        "\r" * 300_000 + "x",
    ],
    ids=[
        "roles",
        "role and blanks",
        "personas",
        "nested",
        "placeholders",
        "references",
        "blanks",
        "system turns",
        "hints",
        "carriage returns",
    ],
)
def test_a_long_question_is_read_a_few_times_only(text: str) -> None:
    """Each of these took minutes or hours where a step looked at the rest of the text again for every match."""
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned


def test_only_the_question_changes(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("a", question="<image1>How many?", answer="<b>")
    cleaned = clean(draft, CleanSettings())
    assert isinstance(cleaned, Draft)
    assert cleaned.question == replace(draft.question, question="How many?")


def test_nothing_left(make_draft: Callable[..., Draft]) -> None:
    with pytest.raises(Reject, match="invalid_record: the question has no text apart from placeholders"):
        clean(make_draft("a", question="<image1> <image2>"), CleanSettings())


@pytest.mark.parametrize(("chars", "kept"), [(10, True), (11, False), (1_000_000, False)])
def test_the_bound_on_the_length(chars: int, kept: bool, make_draft: Callable[..., Draft]) -> None:
    draft, bound = make_draft("a", question="x" * chars), CleanSettings(max_question_chars=10)
    if kept:
        assert clean(draft, bound) == draft
    else:
        said = f"question_too_long: the question has {chars} characters, but clean.max_question_chars is 10"
        with pytest.raises(Reject, match=said):
            clean(draft, bound)


def test_the_bound_is_on_the_cleaned_question(make_draft: Callable[..., Draft]) -> None:
    found = clean(make_draft("a", question="<|im_start|>user\n<image>How many?"), CleanSettings(max_question_chars=10))
    assert isinstance(found, Draft)


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_question_chars must be greater than 0, got 0"):
        CleanSettings(max_question_chars=0)


def test_placeholders_stand_for_pictures_alone(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("a", question="<image>Which?", choices=("<image>", "dog"), answer="dog", answer_type="mcq")
    with pytest.raises(Reject, match="invalid_record: a choice holds"):
        clean(draft, CleanSettings())
    cleaned = clean(replace(draft, question=replace(draft.question, choices=("cat", "dog"))), CleanSettings())
    assert user_text(cleaned.question).count("<image>") == len(cleaned.question.media)


def test_the_stage(check_stage: Callable[..., None], make_draft: Callable[..., Draft]) -> None:
    questions = {"a": "<image>How many?", "b": "<image>", "c": "x" * 99}
    drafts = [make_draft(name, question=text) for name, text in questions.items()]
    check_stage(
        CleanQuestions(CleanSettings(max_question_chars=50)),
        drafts,
        kept=[("a", "How many?")],
        rejected=[("b", "clean", "invalid_record"), ("c", "clean", "question_too_long")],
        show=lambda draft: (draft.id, draft.question.question),
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("How many\u202e dogs?<|endoftext|>", "How many dogs?"),
        ("<start_of_turn>user\nHow many dogs?<end_of_turn>", "How many dogs?"),
        ("What does <br> do, and is a <b> c?", "What does <br> do, and is a <b> c?"),
        ("<IMG_CONTEXT>How many?", "How many?"),
    ],
)
def test_control_text_goes(text: str, read: str) -> None:
    assert clean_text(text) == read


def test_hidden_characters_leave_choices_and_answer_alike(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("q", answer="\u200ecat", choices=("\u200ecat", "dog\ufeff"), answer_type="mcq")
    question = clean(draft, CleanSettings()).question
    assert (question.answer, question.choices) == ("cat", ("cat", "dog"))


def test_an_image_without_a_question_passes(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("q", question="", answer="", answer_type="")
    assert clean(draft, CleanSettings()) == draft
