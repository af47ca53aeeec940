import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.embedded.sight.labels import Noun, read_label
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.query import (
    Amount,
    AtEnd,
    AttributeQuery,
    ColourCount,
    CountQuery,
    GroupStatement,
    Has,
    ObjectStatement,
    OnlyOf,
    Over,
    Query,
    Touch,
)

ONE = Amount("at least", 1)


def noun(text):
    found = read_label(text)
    assert found is not None
    return found


def statement(text):
    return read_question(f'Is the following statement about the image true? "{text}" Answer yes or no.')


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("yellow square", Noun(("yellow",), ("square",), "square")),
        ("Blue objects", Noun(("blue",), (), "object")),
        ("gray circles", Noun(("grey",), ("circle",), "circle")),
        ("black or blue block", Noun(("black", "blue"), ("square", "rectangle"), "block")),
        ("red", Noun(("red",), (), "object")),
        ("tower", None),
        ("", None),
    ],
)
def test_labels(text, wanted):
    assert read_label(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("How many yellow squares are there in the image?", CountQuery(noun("yellow square"), None, ())),
        ("How many circles are in the image? Answer with a number.", CountQuery(noun("circle"), None, ())),
        ("how many blue items are touching the edge?", CountQuery(noun("blue item"), Touch("edge"), ())),
        ("Is there a red triangle in the picture?", ObjectStatement(ONE, noun("red triangle"), None, ())),
        ("Are there any circles?", ObjectStatement(ONE, noun("circle"), None, ())),
        ("What colour is the tallest bar?", AttributeQuery("colour", "tallest", noun("bar"), ())),
        ("What is the shape of the red object?", AttributeQuery("shape", None, noun("red object"), ())),
    ],
)
def test_questions(text, wanted):
    assert read_question(text) == wanted


@pytest.mark.parametrize(
    ("text", "amount", "label", "touch"),
    [
        ("There are exactly two blue circles", Amount("exactly", 2), "blue circle", None),
        ("there are 2 black triangles.", Amount("bare", 2), "black triangle", None),
        ("There are more than 3 items", Amount("at least", 4), "item", None),
        ("There are at most three squares", Amount("at most", 3), "square", None),
        ("There is no blue circle touching a corner", Amount("exactly", 0), "blue circle", Touch("corner")),
        ("There is a square not touching any edge", ONE, "square", Touch("edge", True)),
        ("None of the blue items are touching the wall", Amount("exactly", 0), "blue item", Touch("edge")),
        ("There is a circle that is closely touching the bottom of a box", ONE, "circle", Touch("bottom")),
    ],
)
def test_statements_about_objects(text, amount, label, touch):
    assert statement(text) == ObjectStatement(amount, noun(label), touch, ())


@pytest.mark.parametrize(
    ("text", "amount", "group", "conditions"),
    [
        ("There is a tower", ONE, "tower", ()),
        ("There is a blue tower", ONE, "tower", (OnlyOf(Noun(("blue",), (), "block")),)),
        (
            "There is a tower with exactly four blocks",
            ONE,
            "tower",
            (Has(Amount("exactly", 4), noun("block")),),
        ),
        (
            "There are two towers that have a red block at the base",
            Amount("bare", 2),
            "tower",
            (AtEnd(noun("red block"), "bottom"),),
        ),
        ("One tower has a green base", Amount("bare", 1), "tower", (AtEnd(noun("green object"), "bottom"),)),
        (
            "There is a red block as the top of a tower with two blocks",
            ONE,
            "tower",
            (AtEnd(noun("red block"), "top"), Has(Amount("bare", 2), noun("block"))),
        ),
        (
            "There is a blue block on a red block",
            ONE,
            "tower",
            (Over(noun("blue block"), noun("red block"), True),),
        ),
        (
            "there is a tower which has a red block below a blue block",
            ONE,
            "tower",
            (Over(noun("blue block"), noun("red block"), False),),
        ),
        (
            "Each grey box has at least 2 circles",
            None,
            "box",
            (Has(Amount("at least", 2), noun("circle")),),
        ),
        ("There is a box with items of only one colour", ONE, "box", (ColourCount(1),)),
        (
            "There is a box with a circle, a red square and no triangles",
            ONE,
            "box",
            (
                Has(ONE, noun("circle")),
                Has(ONE, noun("red square")),
                Has(Amount("exactly", 0), noun("triangle")),
            ),
        ),
        (
            "There are 2 boxes with only red and blue items",
            Amount("bare", 2),
            "box",
            (OnlyOf(Noun(("red", "blue"), (), "item")),),
        ),
    ],
)
def test_statements_about_groups(text, amount, group, conditions):
    assert statement(text) == GroupStatement(amount, group, conditions, (), ())


def test_the_one_tower_meant():
    assert statement("The tower with four blocks has a red block at the top") == GroupStatement(
        ONE, "tower", (AtEnd(noun("red block"), "top"),), (Has(Amount("bare", 4), noun("block")),), ()
    )


@pytest.mark.parametrize(
    "text",
    [
        "There is ablue block",
        "There are two blue cirlces",
        "There is a small blue square",
        "There are 2 black and blue items",
        "There is a circle nearly touching the wall",
        "There are two towers with the same height",
        "There is a red block at the top of",
        "There are two blue blocks on a red block",
        "squares are not touching the edge",
        "There is a square touching the corner that is not yellow",
        "",
    ],
)
def test_what_is_not_understood_whole_cannot_be_read(text):
    assert statement(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "How many dogs are there?",
        "How many circles are there and why?",
        "How many times do the blue and red lines touch each other?",
        'Is the following statement about the image false? "There is a circle" Answer yes or no.',
        'Is the following statement about the image not true? "There is a circle" Answer yes or no.',
        'Is the following statement about the image true? "There is a circle" Explain.',
        "Is there no circle?",
        "Solve the equation.",
        "",
    ],
)
def test_other_questions_cannot_be_read(text):
    assert read_question(text) is None


_WORDS = "there is are a no exactly two 3 blue black square blocks box tower with has and , or not touching edge"


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=80))
def test_any_word_order_is_read_or_refused(words):
    text = " ".join(words)
    assert statement(text) == statement(text + "  ")
    read_question("How many " + text)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    assert isinstance(read_question(text), Query | None)
    assert isinstance(statement(text), Query | None)
    assert isinstance(read_label(text), Noun | None)
