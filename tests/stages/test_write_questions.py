"""Written questions: what a reply may hold, what becomes of it, and whose answer it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.write_questions import (
    OBJECT,
    QUESTION_SOURCE,
    WriteQuestions,
    WriteSettings,
    WrittenPair,
    read_pair,
)

NULLS = {"question": None, "answer": None, "object": None}
PAIRS = [
    ({"question": "How many squares are there?", "answer": "3", "object": "square"}, ("3", "numeric")),
    ({"question": "Is there a red square?", "answer": "Yes.", "object": "red square"}, ("yes", "bool")),
    ({"question": "What is on  the\nsign?", "answer": "U.S.", "object": "the sign"}, ("U.S.", "text")),
    ({"question": "How many are red?", "answer": "3.", "object": "square"}, ("3", "numeric")),
]


@pytest.mark.parametrize(("said", "answer"), PAIRS)
def test_a_pair_has_the_normal_form_of_the_input(said: dict[str, str], answer: tuple[str, str]) -> None:
    found = read_pair(f"```json\n{json.dumps(said)}\n```")
    assert found == WrittenPair(" ".join(said["question"].split()), *answer, said["object"])


def test_nothing_to_ask_is_said_with_three_nulls() -> None:
    assert read_pair(json.dumps(NULLS)) is None


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"question": None},
        {**NULLS, "question": "How many?"},
        {"question": "How many?", "answer": "3"},
        {"question": "How many?", "answer": 3, "object": "square"},
        {"question": " ", "answer": "3", "object": "square"},
        {"question": "<image>", "answer": "3", "object": "square"},
        {"question": "How many?", "answer": "<b>3</b>", "object": "square"},
        {"question": "How many?", "answer": "3", "object": "the picture"},
        {"question": "How many?", "answer": "3", "object": "?!"},
        {"question": "How many?", "answer": "x" * 201, "object": "square"},
        {"question": "x" * 2001, "answer": "3", "object": "square"},
        {"question": "What is \x0crac?", "answer": "3", "object": "square"},
        {"question": "How many?<|im_end|>", "answer": "3", "object": "square"},
        {"question": "?", "answer": "3", "object": "square"},
        {"question": "How many? <answer>3", "answer": "4", "object": "square"},
        {"question": "How many? <code>print(7)</code>", "answer": "3", "object": "square"},
        {"question": "How many?", "answer": "Unknown", "object": "square"},
        {"question": "How many?", "answer": "cannot be determined", "object": "square"},
        {"question": "How many?", "answer": ".", "object": "square"},
        {"question": "What is there?", "answer": "a flag with five broad stripes", "object": "flag"},
        {"question": "How many?", "answer": "5 or 6", "object": "square"},
        {"question": "How many?", "answer": "about 5", "object": "square"},
        {"question": "How many? (Answer: 47)", "answer": "47", "object": "square"},
        {"question": "What does the sign reading Old Mill say?", "answer": "OLD MILL", "object": "sign"},
    ],
)
def test_replies_of_the_wrong_form(said: dict[str, Any]) -> None:
    with pytest.raises(BadReply):
        read_pair(json.dumps(said))


@pytest.mark.parametrize(
    "said",
    [
        {"question": "Is the flag red or blue?", "answer": "red", "object": "flag"},
        {"question": "Is the left number < the right number?", "answer": "yes", "object": "sign"},
        {"question": "How many of the 12 panes are broken?", "answer": "1", "object": "window"},
        {"question": "Which mark ends the sentence on the sign?", "answer": "!", "object": "sign"},
        {"question": "罐子的标签上写着什么字？", "answer": "蜂蜜", "object": "罐子"},
        {"question": "Which word is on the sign?", "answer": "mind the gap between trains", "object": "sign"},
    ],
)
def test_replies_of_the_right_form(said: dict[str, str]) -> None:
    pair = read_pair(f"<think>What about {{stripes}}?</think>\n{json.dumps(said)}")
    assert pair is not None and pair.answer == said["answer"]


VALUES = st.none() | st.text(max_size=30) | st.integers() | st.booleans() | st.lists(st.text(max_size=5), max_size=2)


@given(st.dictionaries(st.sampled_from([*NULLS, "more"]), VALUES, max_size=4))
def test_whatever_a_reply_holds_a_pair_is_whole(said: dict[str, Any]) -> None:
    try:
        pair = read_pair(json.dumps(said))
    except BadReply:
        return
    if pair is None:
        assert all(said[name] is None for name in NULLS)
        return
    assert pair.question.strip()
    assert pair.answer.strip()
    assert "<" not in pair.answer
    assert pair.answer_type in ANSWER_TYPES


@given(st.text(max_size=80))
def test_prose_is_no_pair(text: str) -> None:
    try:
        assert read_pair(text) is None
    except BadReply:
        return


@pytest.fixture
def image(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Callable[..., Draft]:
    """A draft of an image without a question."""

    def draft(name: str, *colours: str) -> Draft:
        write_scene(tmp_path / f"{name}.png", colours or ("red", "blue", "black"))
        return make_draft(name, tmp_path, (f"{name}.png",), question="", answer="", answer_type="")

    return draft


def told(draft: Draft) -> tuple[Any, ...]:
    question = draft.question
    source, label = draft.added(QUESTION_SOURCE), draft.added(OBJECT)
    return draft.id, question.question, question.answer, question.answer_type, source, label


def test_the_pair_becomes_the_question_and_says_whose_it_is(check_stage, models, image) -> None:
    said = json.dumps({"question": "How many squares are there?", "answer": "3", "object": "square"})
    stage = WriteQuestions(WriteSettings(), models("teacher", says=lambda prompt, sample: said))
    kept = [("q", "How many squares are there?", "3", "numeric", "teacher", "square")]
    check_stage(stage, [image("q")], kept, [], show=told)


@pytest.mark.parametrize(
    ("text", "reason"), [(json.dumps(NULLS), "nothing_to_ask"), ("What colour is it? Red.", "unparsable_reply")]
)
def test_what_gives_no_question(check_stage, models: Callable[..., ModelsSettings], image, text, reason) -> None:
    stage = WriteQuestions(WriteSettings(), models("teacher", says=lambda prompt, sample: text))
    check_stage(stage, [image("q")], [], [("q", "write_questions", reason)])


def test_a_reply_of_another_form_is_repaired(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    def says(prompt: str, sample: int) -> str:
        if "PROBLEM" not in prompt:
            return "How many squares are there? 3"
        return json.dumps({"question": "How many squares are there?", "answer": "3", "object": "square"})

    stage = WriteQuestions(WriteSettings(), models("teacher", says=says, repair_attempts=1))
    check_stage(stage, [image("q")], ["q"], [])


def test_the_embedded_teacher_asks_about_what_it_sees(check_stage, models, image) -> None:
    stage = WriteQuestions(WriteSettings(), models())
    check_stage(stage, [image("q", "red")], [True], [], show=lambda draft: draft.question.is_asked)
