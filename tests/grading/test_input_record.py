"""Each field's rules: what a record may say, in which normal form it is kept, and what the refusal says."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.grading.input_record import InputRecord, InvalidRecord, checked_pair, parse_record
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.reasons import Reason
from groundtrace.schemas.records import RawRecord

BASE = {"id": "q", "source": "s", "license": "MIT", "media": "a.png", "question": "How many?", "answer": "3"}


def text_of(**changes: Any) -> str:
    """The base record as JSON with changes; ``...`` leaves a field out."""
    return json.dumps({name: value for name, value in (BASE | changes).items() if value is not ...})


def parse(text: str) -> InputRecord:
    return parse_record(RawRecord(7, text))


def refused(text: str) -> InvalidRecord:
    with pytest.raises(InvalidRecord) as error:
        parse(text)
    return error.value


def test_a_record_whole() -> None:
    boxes = [{"label": "dog", "bbox": [1, 2.5, 30, 40]}, {"label": "cat", "bbox": [0, 0, 1, 1], "media_index": 1}]
    found = parse(text_of(media=["a.png", "b/c.jpg"], boxes=boxes, unknown={"kept": "out"}))
    assert found == InputRecord(
        number=7,
        id="q",
        source="s",
        license="MIT",
        media=("input:a.png", "input:b/c.jpg"),
        question="How many?",
        answer="3",
        answer_type="numeric",
        choices=None,
        boxes=(Box("dog", 1.0, 2.5, 30.0, 40.0), Box("cat", 0.0, 0.0, 1.0, 1.0, 1)),
    )


def test_only_a_reader_may_name_files_of_the_run() -> None:
    uri = f"run:media/{'0' * 64}.png"
    assert parse(text_of(media=uri)).media == (f"input:{uri}",)
    assert parse_record(RawRecord(1, text_of(media=[uri]), materialised=True)).media == (uri,)


ANSWERS = [
    ({"answer": 3}, "3", "numeric"),
    ({"answer": 2.5}, "2.5", "numeric"),
    ({"answer": "-1,234.5"}, "-1234.5", "numeric"),
    ({"answer": "\u22122"}, "-2", "numeric"),
    ({"answer": "1,2"}, "1,2", "text"),
    ({"answer": "3 cm"}, "3 cm", "text"),
    ({"answer": "Yes"}, "yes", "bool"),
    ({"answer": "True", "answer_type": "bool"}, "yes", "bool"),
    ({"answer": " no. ", "answer_type": "bool"}, "no", "bool"),
    ({"answer": "True"}, "yes", "bool"),
    ({"answer": "the  DOG", "choices": ["A cat", "The dog"]}, "The dog", "mcq"),
    ({"answer": True}, "yes", "bool"),
    ({"answer": False}, "no", "bool"),
    ({"answer": False, "answer_type": "text"}, "no", "text"),
    ({"answer": True, "choices": ["Yes", "No"]}, "Yes", "mcq"),
    ({"answer": True, "choices": ["True", "False"]}, "True", "mcq"),
    ({"answer": 2, "choices": [1, 2, 2.5]}, "2", "mcq"),
    ({"answer": 3.0, "choices": ["2", "3"]}, "3", "mcq"),
    ({"answer": "1000", "choices": ["1,000", "100"]}, "1,000", "mcq"),
    ({"answer": "3.0", "choices": ["3", "3.0"]}, "3.0", "mcq"),
    ({"answer": "1e3", "choices": ["1e9999999999999999999", "1000"]}, "1000", "mcq"),
    ({"answer": "2", "choices": ["1", "2"], "answer_type": "numeric"}, "2", "numeric"),
    ({"answer": r"\frac{1}{2}"}, r"\frac{1}{2}", "text"),
    ({"answer": "x", "answer_type": "boxes", "boxes": [{"label": "x", "bbox": [0, 0, 1, 1]}]}, "x", "boxes"),
]


@pytest.mark.parametrize(("changes", "answer", "answer_type"), ANSWERS)
def test_answers_in_their_normal_form(changes: dict[str, Any], answer: str, answer_type: str) -> None:
    found = parse(text_of(**changes))
    assert (found.answer, found.answer_type) == (answer, answer_type)
    assert (found.choices is not None) == (answer_type == "mcq")


OPENED = [
    ({"answer": "Red", "answer_type": "text", "choices": ["red", "blue"]}, "Red"),
    ({"answer": 3, "answer_type": "numeric", "choices": ["3.0", "4"]}, "3"),
    ({"answer": "1,000", "answer_type": "numeric", "choices": [10, 1000]}, "1000"),
    ({"answer": "YES", "answer_type": "bool", "choices": ["Yes", "No"]}, "yes"),
    ({"answer": "true", "answer_type": "bool", "choices": ["Yes", "No"]}, "yes"),
    ({"answer": 5, "answer_type": "numeric", "choices": ["5 cm", "6 cm"]}, "5"),
]


@pytest.mark.parametrize(("changes", "answer"), OPENED)
def test_choices_beside_a_declared_type_are_kept_aside(changes: dict[str, Any], answer: str) -> None:
    found = parse(text_of(**changes))
    assert (found.answer, found.answer_type, found.choices) == (answer, changes["answer_type"], None)
    assert found.opened_choices == tuple(str(choice) for choice in changes["choices"])


BOX = {"label": "a", "bbox": [0, 0, 5, 5]}
INVALID = [
    ({"source": ...}, Reason.INVALID_RECORD, "source: the value is missing or empty"),
    ({"license": ""}, Reason.INVALID_RECORD, "license: the value is missing or empty"),
    ({"question": " \n"}, Reason.INVALID_RECORD, "question: the value is missing or empty"),
    ({"question": 5}, Reason.INVALID_RECORD, "question: expected a text, got 5"),
    ({"answer": ""}, Reason.INVALID_RECORD, "answer: the value is missing or empty"),
    ({"answer": ["3"]}, Reason.INVALID_RECORD, "answer: expected a text, got ['3']"),
    ({"answer": float("nan")}, Reason.INVALID_RECORD, "answer: expected a text, got nan"),
    ({"answer": -float("inf")}, Reason.INVALID_RECORD, "answer: expected a text, got -inf"),
    ({"source": float("nan")}, Reason.INVALID_RECORD, "source: expected a text, got nan"),
    ({"choices": [3, float("nan")]}, Reason.INVALID_RECORD, "choices: expected non-empty strings, got [3, nan]"),
    ({"answer": None}, Reason.INVALID_RECORD, "answer: the value is missing or empty"),
    ({"answer_type": "essay"}, Reason.INVALID_RECORD, "answer_type: 'essay' is not one of"),
    ({"answer_type": ["mcq"]}, Reason.INVALID_RECORD, "answer_type: ['mcq'] is not one of"),
    ({"answer_type": "mcq"}, Reason.INVALID_RECORD, "the record has answer_type mcq but no choices"),
    ({"answer_type": "numeric", "answer": "red"}, Reason.INVALID_RECORD, "'red' is not one number, fraction, range"),
    ({"answer_type": "numeric", "answer": "N/A"}, Reason.INVALID_RECORD, "'N/A' is not one number, fraction, range"),
    ({"answer_type": "numeric", "answer": "a 3 b 4"}, Reason.INVALID_RECORD, "is not one number, fraction, range"),
    ({"answer_type": "bool", "answer": "maybe"}, Reason.INVALID_RECORD, "'maybe' is neither yes nor no"),
    ({"answer_type": "boxes"}, Reason.INVALID_RECORD, "the record has answer_type boxes but no boxes"),
    ({"choices": "abc"}, Reason.INVALID_RECORD, "choices: expected a list of at least two choices, got 'abc'"),
    ({"choices": ["3"]}, Reason.INVALID_RECORD, "choices: expected a list of at least two choices, got ['3']"),
    ({"choices": ["3", 4]}, Reason.INVALID_RECORD, "choices: expected non-empty strings, got ['3', 4]"),
    ({"choices": ["3", ""]}, Reason.INVALID_RECORD, "choices: expected non-empty strings"),
    ({"choices": ["3", None]}, Reason.INVALID_RECORD, "choices: expected non-empty strings"),
    ({"choices": [1, True], "answer": 1}, Reason.INVALID_RECORD, "choices: expected non-empty strings"),
    ({"choices": ["3", "Dog", "dog "]}, Reason.INVALID_RECORD, "choices: two choices are the same"),
    ({"choices": ["4", "5"]}, Reason.ANSWER_NOT_IN_CHOICES, "answer '3' is not among the choices ('4', '5')"),
    (
        {"choices": ["4", "5"], "answer_type": "numeric"},
        Reason.ANSWER_NOT_IN_CHOICES,
        "'3' is not among the choices ('4', '5')",
    ),
    (
        {"choices": ["a", "b"], "answer_type": "text"},
        Reason.ANSWER_NOT_IN_CHOICES,
        "'3' is not among the choices ('a', 'b')",
    ),
    ({"choices": ["3 cm", "3 m"]}, Reason.ANSWER_NOT_IN_CHOICES, "answer '3' is not among the choices ('3 cm', '3 m')"),
    (
        {"choices": ["4", "5"], "answer": "(B)"},
        Reason.ANSWER_NOT_IN_CHOICES,
        'give the choice\'s text, or set input.answer_is = "letter"',
    ),
    ({"choices": ["30", "5"]}, Reason.ANSWER_NOT_IN_CHOICES, "answer '3' is not among the choices ('30', '5')"),
    ({"media": ...}, Reason.INVALID_RECORD, "media: expected one or more paths, got None"),
    ({"media": []}, Reason.INVALID_RECORD, "media: expected one or more paths, got []"),
    ({"media": ""}, Reason.INVALID_RECORD, "media: expected one or more paths"),
    ({"media": ["a.png", 5]}, Reason.INVALID_RECORD, "media: expected one or more paths, got ['a.png', 5]"),
    ({"boxes": {"label": "a"}}, Reason.INVALID_BOXES, "boxes: expected a list"),
    ({"boxes": [[0, 0, 1, 1]]}, Reason.INVALID_BOXES, "boxes: each box must have label and bbox, got [0, 0, 1, 1]"),
    ({"boxes": [{"bbox": [0, 0, 1, 1]}]}, Reason.INVALID_BOXES, "boxes: each box must have label and bbox"),
    ({"boxes": [BOX | {"bbox": [0, 0, 1]}]}, Reason.INVALID_BOXES, "four finite numbers, got [0, 0, 1]"),
    ({"boxes": [BOX | {"bbox": [0, 0, "9", 9]}]}, Reason.INVALID_BOXES, "four finite numbers"),
    ({"boxes": [BOX | {"bbox": [0, 0, float("inf"), 9]}]}, Reason.INVALID_BOXES, "numbers, got [0, 0, inf, 9]"),
    ({"boxes": [BOX | {"bbox": [0, 0, True, 9]}]}, Reason.INVALID_BOXES, "four finite numbers"),
    ({"boxes": [BOX, BOX | {"bbox": [5, 5, 5, 9]}]}, Reason.INVALID_BOXES, "[5, 5, 5, 9] has no area"),
    ({"boxes": [BOX | {"bbox": [5, 5, 1, 9]}]}, Reason.INVALID_BOXES, "[5, 5, 1, 9] has no area"),
    ({"boxes": [BOX | {"media_index": -1}]}, Reason.INVALID_BOXES, "media_index must be an integer from 0, got -1"),
    ({"boxes": [BOX | {"media_index": "0"}]}, Reason.INVALID_BOXES, "media_index must be an integer from 0, got '0'"),
]


@pytest.mark.parametrize(("changes", "reason", "detail"), INVALID)
def test_refusals_name_the_field_and_the_value(changes: dict[str, Any], reason: Reason, detail: str) -> None:
    error = refused(text_of(**changes))
    assert (error.reason, error.record_id) == (reason, "q")
    assert detail in error.detail
    assert len(error.detail) < 250


NOT_RECORDS = [
    ("", "not JSON"),
    ('{"id": "q", "question": "How m', "not JSON: Unterminated string"),
    ("[1, 2]", "the record must be a JSON object, got [1, 2]"),
    ('"text"', "the record must be a JSON object, got 'text'"),
    ("null", "the record must be a JSON object, got None"),
    ("[" * 100_000, "not JSON"),
    ('{"id": "q", "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON"),
    (text_of(id=...), "id: the value is missing or empty"),
    (text_of(id=" "), "id: the value is missing or empty"),
    (text_of(id=float("nan")), "id: expected a text, got nan"),
    (text_of(id=5.5), "id: expected a text, got 5.5"),
    ('{"id": "q", "answer": 1' + "0" * 5000 + "}", "not JSON"),
]


@pytest.mark.parametrize(("text", "detail"), NOT_RECORDS, ids=range(len(NOT_RECORDS)))
def test_lines_without_a_readable_id(text: str, detail: str) -> None:
    error = refused(text)
    assert (error.reason, error.record_id) == (Reason.INVALID_RECORD, None)
    assert detail in error.detail


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400])
@pytest.mark.parametrize("field", ["answer", "boxes"])
def test_numbers_too_large_for_a_float_are_refused(field: str, number: str) -> None:
    value = number if field == "answer" else f'[{{"label": "a", "bbox": [0, 0, {number}, 1]}}]'
    error = refused(text_of()[:-1] + f', "{field}": {value}}}')
    assert error.reason in (Reason.INVALID_RECORD, Reason.INVALID_BOXES)
    assert error.record_id == "q"


# JSON text as people write it: one backslash where two were meant.
BROKEN_LATEX = [
    ("answer", r"\frac{1}{2}", "answer: the text has a form feed (a broken \\f… such as \\frac?), U+000C, at offset 0"),
    ("answer", r"2\beta", "answer: the text has a backspace (a broken \\b… such as \\beta?), U+0008, at offset 1"),
    ("answer", r"2 \times 3", "answer: the text has a tab (a broken \\t… such as \\theta?), U+0009, at offset 2"),
    (
        "question",
        r"What is \theta?",
        "question: the text has a tab (a broken \\t… such as \\theta?), U+0009, at offset 8",
    ),
    ("question", r"What is \tan x?", "question: the text has a tab (a broken"),
    (
        "question",
        r"Read \right)",
        "question: the text has a carriage return (a broken \\r… such as \\right?), U+000D, at offset 5",
    ),
    (
        "question",
        r"\u000bec",
        "question: the text has a vertical tab (a broken \\v… such as \\vec?), U+000B, at offset 0",
    ),
    ("question", r"a\u0000b", "question: the text has a control character, U+0000, at offset 1"),
    ("question", r"a\u007f", "question: the text has a control character, U+007F, at offset 1"),
    ("question", r"a\ud800b", "question: the text has a control character, U+D800, at offset 1"),
    ("id", r"q\ud83d", "id: the text has a control character, U+D83D, at offset 1"),
    ("answer", r"\udc00", "answer: the text has a control character, U+DC00, at offset 0"),
]


@pytest.mark.parametrize(("field", "written", "detail"), BROKEN_LATEX)
def test_control_characters_are_named(field: str, written: str, detail: str) -> None:
    error = refused(text_of(**{field: "@"}).replace('"@"', f'"{written}"'))
    assert error.reason is Reason.CONTROL_CHARACTERS
    assert detail in error.detail


def test_control_characters_in_choices() -> None:
    error = refused(text_of(answer="1", choices=["1", "@"]).replace("@", r"\frac12"))
    assert (error.reason, error.detail.split(":")[0]) == (Reason.CONTROL_CHARACTERS, "choices")


HARMLESS = ["two\nlines", "two\r\nlines", "a\tb", "\U0001f600", "x\u2028y", "\ufeffx", r"\theta", "é", "a\tableau"]


@pytest.mark.parametrize("text", HARMLESS)
def test_other_characters_are_kept(text: str) -> None:
    assert parse(text_of(question=text)).question == text


@pytest.mark.parametrize("field", ["source", "license", "media", "label"])
def test_lone_surrogates_are_refused_in_every_text(field: str) -> None:
    value = [{"label": "@", "bbox": [0, 0, 1, 1]}] if field == "label" else "@"
    error = refused(text_of(**{"boxes" if field == "label" else field: value}).replace("@", r"x\ud800"))
    assert error.record_id == "q"


@pytest.mark.parametrize("field", ["question", "answer", "media", "choices", "boxes", "answer_type", "unknown"])
def test_nesting_of_any_depth_is_refused_not_raised(field: str) -> None:
    for depth in range(900, 1000):
        text = text_of(**{field: "@"}).replace('"@"', "[" * depth + "]" * depth)
        if field == "unknown":
            try:
                assert parse(text).id == "q"
            except InvalidRecord as error:
                assert "not JSON" in error.detail
        else:
            assert refused(text).reason in (Reason.INVALID_RECORD, Reason.INVALID_BOXES)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["label", "bbox"]), inner),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from([*BASE, "answer_type", "choices", "boxes"]), VALUES, max_size=4))
def test_any_json_is_a_record_or_a_typed_refusal(changes: dict[str, Any]) -> None:
    try:
        found = parse(json.dumps(BASE | changes))
    except InvalidRecord as error:
        assert isinstance(error.reason, Reason)
        assert error.detail
        return
    assert found.answer_type in ANSWER_TYPES
    assert found.choices is None or found.answer in found.choices
    assert all(box.width > 0 and box.height > 0 for box in found.boxes or ())


@settings(max_examples=80)
@given(st.text(max_size=40))
def test_any_line_is_a_record_or_a_typed_refusal(text: str) -> None:
    assert refused(text).record_id is None


def parse_image(**changes: Any) -> InputRecord:
    """Parse the base record with changes, as for a recipe that writes questions."""
    return parse_record(RawRecord(7, text_of(**changes)), may_lack_question=True)


BARE = [
    {"question": ..., "answer": ...},
    {"question": None, "answer": None, "choices": None, "boxes": [], "answer_type": None},
    {"question": " ", "answer": ""},
]


@pytest.mark.parametrize("changes", BARE)
def test_a_record_of_images_is_valid_only_where_questions_are_written(changes: dict[str, Any]) -> None:
    found = parse_image(**changes)
    assert (found.question, found.answer, found.answer_type, found.boxes or ()) == ("", "", "", ())
    assert (found.id, found.media) == ("q", ("input:a.png",))
    error = refused(text_of(**changes))
    assert (error.reason, error.record_id) == (Reason.INVALID_RECORD, "q")
    assert str(error).startswith("question: the value is missing or empty")


HALF = [
    ({"question": ...}, "question: the value is missing or empty"),
    ({"answer": ...}, "answer: the value is missing or empty"),
    ({"answer": None}, "answer: the value is missing or empty"),
    ({"question": ..., "answer": 3}, "question: the value is missing or empty"),
    ({"question": ..., "answer": False}, "question: the value is missing or empty"),
    ({"question": ..., "answer": ..., "choices": ["a", "b"]}, "choices: the record has no question"),
    ({"question": ..., "answer": ..., "boxes": [{"label": "a", "bbox": [0, 0, 1, 1]}]}, "boxes: the record has no"),
    ({"question": ..., "answer": ..., "answer_type": "bool"}, "answer_type: the record has no question"),
    ({"question": ..., "answer": ..., "media": ...}, "media: expected one or more paths"),
    ({"question": ..., "answer": ..., "source": ...}, "source: the value is missing or empty"),
]


@pytest.mark.parametrize(("changes", "said"), HALF)
def test_half_a_question_is_refused_in_any_recipe(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRecord) as error:
        parse_image(**changes)
    assert str(error.value).startswith(said)


@given(st.dictionaries(st.sampled_from([*BASE, "choices", "boxes", "answer_type"]), st.none() | st.text(max_size=5)))
def test_a_record_with_a_question_is_read_alike_in_every_recipe(changes: dict[str, Any]) -> None:
    text = text_of(**changes)
    try:
        found = parse(text)
    except InvalidRecord:
        return
    assert parse_record(RawRecord(7, text), may_lack_question=True) == found


def test_a_written_pair_is_checked_as_a_record_is() -> None:
    for answer in ("Yes", "true", "3", "a bus"):
        found = parse(text_of(answer=answer))
        assert checked_pair("How many?", answer) == (found.answer, found.answer_type)
    assert checked_pair("How many?", "1,200") == ("1200", "numeric")
    for question, answer in (("", "3"), ("How many?", " "), ("How\x0c?", "3"), ("How?", "a\x00")):
        with pytest.raises(InvalidRecord):
            checked_pair(question, answer)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({}, "answer"),
        ({"answer": "answer", "question": "q"}, "answer"),
        ({"answer": "gold label"}, "answer (column 'gold label')"),
    ],
)
def test_the_message_names_the_column_of_the_input(columns: dict[str, str], named: str) -> None:
    said = f"{named}: expected a text, got []"
    with pytest.raises(InvalidRecord) as error:
        parse_record(RawRecord(1, text_of(answer=[])), columns=columns)
    assert (error.value.detail, str(error.value)) == (said, said)
