"""The answer types: each says all that the others need of it, and a new one needs nothing but its place in the list."""

import json
import re

import pytest

from groundtrace.grading.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.registry import ANSWER_TYPES, evident_type
from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.grading.question_text import answer_format, user_text
from groundtrace.schemas.reasons import Reason
from groundtrace.schemas.records import Question, RawRecord

COLOUR = re.compile(r"#[0-9a-f]{6}")


def _check_colour(gold: Gold) -> str:
    if not COLOUR.fullmatch(gold.answer.lower()):
        raise InvalidGold(f"answer: {gold.answer!r} is not a colour such as #ff8800")
    return gold.answer.lower()


def _grade_colour(predicted: str | None, gold: str, _choices: tuple[str, ...] | None) -> Grade:
    if predicted is None:
        return Grade(0.0, "colour", "no answer")
    named = COLOUR.findall(predicted.lower())
    return Grade(float(named == [gold]), "colour", "same colour" if named == [gold] else "another colour or several")


TOY = AnswerType(
    name="colour",
    form="Answer with one colour as #rrggbb.",
    grade=_grade_colour,
    check_gold=_check_colour,
    is_evident=lambda answer, _choices: COLOUR.fullmatch(answer) is not None,
)


@pytest.fixture
def colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWER_TYPES.ours, TOY.name, TOY)


def record(**changes: object) -> RawRecord:
    base = {"id": "q", "source": "s", "license": "MIT", "media": "a.png", "question": "Which colour?"}
    return RawRecord(1, json.dumps(base | changes))


def question(answer_type: str) -> Question:
    return Question("q", "s", "MIT", (), "Which colour?", "#ff8800", answer_type)


@pytest.mark.usefixtures("colour")
def test_ingest_takes_a_new_type() -> None:
    declared = parse_record(record(answer="#FF8800", answer_type="colour"))
    assert (declared.answer, declared.answer_type, declared.choices) == ("#ff8800", "colour", None)
    assert parse_record(record(answer="#ff8800")).answer_type == "colour"
    assert parse_record(record(answer="orange")).answer_type == "text"
    with pytest.raises(InvalidRecord, match="'orange' is not a colour such as #ff8800") as error:
        parse_record(record(answer="orange", answer_type="colour"))
    assert error.value.reason is Reason.INVALID_RECORD


@pytest.mark.usefixtures("colour")
def test_a_new_type_is_asked_for_in_its_words() -> None:
    assert answer_format(question("colour")) == TOY.form
    assert user_text(question("colour")).endswith(f"</answer>. {TOY.form}")


@pytest.mark.usefixtures("colour")
@pytest.mark.parametrize(
    ("predicted", "grade"),
    [
        ("It is #FF8800.", Grade(1.0, "colour", "same colour")),
        ("＃ff8800", Grade(1.0, "colour", "same colour")),
        ("#ff8800 or #000000", Grade(0.0, "colour", "another colour or several")),
        (" \u200b", Grade(0.0, "colour", "no answer")),
        (None, Grade(0.0, "colour", "no answer")),
    ],
)
def test_a_new_type_grades_for_itself(predicted: str | None, grade: Grade) -> None:
    assert grade_answer(predicted, "#ff8800", "colour", None) == grade


@pytest.mark.usefixtures("colour")
def test_a_gold_that_no_type_can_use_does_not_reach_the_new_one() -> None:
    assert grade_answer("#ff8800", "\x0c", "colour", None).method == "gold"


def test_without_its_line_a_type_is_refused_and_unscored() -> None:
    with pytest.raises(InvalidRecord, match="'colour' is not one of"):
        parse_record(record(answer="#ff8800", answer_type="colour"))
    for predicted in ("#FF8800", "", None, "x" * 100_000):
        grade = grade_answer(predicted, "#ff8800", "colour", None)
        assert (grade.value, grade.method) == (None, "unknown")
        assert "the answer type 'colour' is not known here" in grade.reason


def test_a_word_of_a_record_is_never_imported() -> None:
    named = "groundtrace.grading.answers.number:NUMBER"
    with pytest.raises(InvalidRecord, match="is not one of"):
        parse_record(record(answer="3", answer_type=named))
    assert grade_answer("3", "3", named, None).value is None


def test_names_are_those_of_records_and_shards() -> None:
    assert {*ANSWER_TYPES} >= {"mcq", "numeric", "text", "bool", "boxes"}
    with pytest.raises(InvalidRecord, match=re.escape(f"is not one of {', '.join(ANSWER_TYPES)}: correct")):
        parse_record(record(answer="3", answer_type="essay"))


FORMS = {
    "mcq": "Answer with the letter or the text of the right choice.",
    "numeric": "Answer with a number alone.",
    "text": "Answer as briefly as the question allows.",
    "bool": "Answer yes or no.",
    "boxes": "Answer with one <box>[x1,y1,x2,y2]</box> for each object, in pixels.",
}


@pytest.mark.parametrize(("name", "form"), FORMS.items())
def test_the_words_of_a_prompt_do_not_change(name: str, form: str) -> None:
    # A reply that is in somebody's cache is found again only under the same words.
    assert ANSWER_TYPES[name].form == form


@pytest.mark.parametrize(
    ("answer", "choices", "name"),
    [
        ("3", ("3", "4"), "mcq"),
        ("3", None, "numeric"),
        ("−1,000.5e3", None, "numeric"),
        ("3 cm", None, "text"),
        (" No ", None, "bool"),
        ("true", None, "bool"),
        ("a dog", None, "text"),
    ],
)
def test_the_type_of_a_record_that_names_none(answer: str, choices: tuple[str, ...] | None, name: str) -> None:
    assert evident_type(answer, choices).name == name


def test_what_other_parts_ask_of_the_types() -> None:
    assert [kind.name for kind in ANSWER_TYPES.values() if kind.keeps_choices] == ["mcq"]
    assert [kind.name for kind in ANSWER_TYPES.values() if kind.is_number] == ["numeric"]
    assert [kind.name for kind in ANSWER_TYPES.values() if kind.is_boxes] == ["boxes"]


@pytest.mark.parametrize("predicted", ["", "<box>[0,0,1,1]</box>", None])
def test_boxes_are_not_graded_by_their_text_whatever_the_gold_says(predicted: str | None) -> None:
    for gold in ("x", "", "\x0c"):
        assert grade_answer(predicted, gold, "boxes", None) == Grade(None, "boxes", "box answers are scored by overlap")


@pytest.mark.parametrize("value", [2.0, -1.0, 0.5, float("nan")])
def test_a_grade_is_right_wrong_or_unscored(value: float) -> None:
    with pytest.raises(ValueError, match=r"must be 1 \(right\), 0 \(wrong\) or None \(unscored\), got "):
        Grade(value, "mine", "why")
