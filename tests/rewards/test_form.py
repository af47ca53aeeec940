"""The form of a response: nothing may stand where no scorer would see it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.response import MAX_RESPONSE_CHARS, normalise, parse_response
from groundtrace.rewards.form import BOXED_FORM, GROUNDED_FORM, JUDGED_FORM, TEXTUAL_FORM, Form, form_fault
from groundtrace.schemas.records import Question

LOOSE_FORM = Form(points=True, boxes=True, reasoning=False)
"""What a form of a user's own may allow: points and boxes, and an empty think section."""

COUNT = Question("q", "", "", (), "How many yellow squares are there?", "2", "numeric")
PLANE = Question("q", "", "", (), "What are the coordinates of the vertex?", "(2, 5)", "text")
POINT = '<points x1="10" y1="20" alt="yellow square">yellow square</points>'
BOX = "<box>[1,2,3,4]</box>"


def fault(text: str, form: Form = GROUNDED_FORM, question: Question = COUNT) -> str | None:
    return form_fault(text, parse_response(text), question, form)


def response(think: str, answer: str = "2") -> str:
    return f"<think>{think}</think>\n<answer>{answer}</answer>"


def tagged(inner: str, label: str = "yellow square") -> str:
    """Return a tag of one point with an inner text of its own."""
    return f'<points x1="10" y1="20" alt="{label}">{inner}</points>'


BOX_TEXTS = [
    BOX,
    '<box alt="dog">[10,20,30,40]</box>',
    "&lt;box&gt;[10,20,30,40]&lt;/box&gt;",
    '‹box alt="dog">[10,2000,30,40]‹/box>',
    "<bbox>10,20,30,40</bbox>",
    "<|box_start|>(10,20),(30,40)<|box_end|>",
    '"bbox_2d": [10, 20, 30, 40]',
    "[10, 20, 30, 40]",
    "(0.1, 0.2, 0.3, 0.4)",
    "[10 20 30 40]",
    "[10;20;30;40]",
    "{10, 20, 30, 40}",
    "[10,20,30,40",
    "［10，20，30，40］",
    "[x1, y1, x2, y2]",
    "bounding box 10, 20, 30, 40",
    "box: 10 20 30 40",
    "box at 10/20/30/40",
    "x1=10, y1=20, x2=30, y2=40",
    "xmin: 10, ymin: 20, xmax: 30, ymax: 40",
    "left=10 top=20 right=30 bottom=40",
    "coordinates 10, 20",
    "pixel 10, 20",
    "10px from the left and 20 px from the top",
    POINT,
]
"""Coordinates as a response of words alone must not hold them."""


@pytest.mark.parametrize("written", BOX_TEXTS)
def test_words_alone_carry_no_box_text(written: str) -> None:
    for think in (f"One {written} is yellow, another too.", f"There are two: {written}"):
        assert fault(response(think), TEXTUAL_FORM) is not None


@pytest.mark.parametrize(
    "think",
    [
        "In box 1 there are 2 dogs, in box 2 3 dogs.",
        "The boxes hold 3, 4 and 5 items, the bars are 3, 5, 7, 9 high.",
        "The left bar is 10 and the right bar is 20. Left: 3, right: 5.",
        "The sequence 2 4 6 8 goes on, in a 3-4-5 triangle.",
        "Box 1: 3 items, box 2: 4 items; the corner is 3-4 metres away.",
        "The picture is 640 pixels wide and dated 12/05/2020 10:30.",
        "Region 4 has 5 people, (2 + 3 + 4 + 5) in all.",
    ],
)
def test_numbers_that_are_no_places_may_stand_in_words(think: str) -> None:
    assert fault(response(think), TEXTUAL_FORM) is None


@pytest.mark.parametrize(
    "text",
    [
        response(f"I see {POINT}. So there are 2."),
        response(f"I see {POINT} again."),
        response(f"I see {tagged('1')} and {tagged('2')}. So there are 2."),
        response(f"There are {tagged('#1')}, {tagged('#2')} here, that is 2."),
        response(f"I see {tagged('the first')} and {tagged('another one')}. So there are 2."),
        response(f"So there are {tagged('2')}."),
        response(f"I see {tagged('yellow square no. 1')} and {tagged('yellow square no. 3')}. So 2."),
        response(f"Ich sehe {POINT}. Es sind also zwei Quadrate."),
        response(f"That's one. Hmm, I missed {POINT} in the corner of the left box, which makes two."),
        response("I see nothing to point at."),
        response(f"I see {POINT}.", "The answer is $\\boxed{2}$."),
        response("The ratio is 3:4, and 1,200 of them (see the legend) count."),
        response("Two squares, at 12:30 (left, right)."),
        response("Since 1 < x and y > 2, <b>two</b> are left."),
    ],
)
def test_what_has_the_form(text: str) -> None:
    assert fault(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2", "sections"),
        (f"<answer>3</answer>{response('I see two.')}", "sections"),
        (f"{response('I see two.')}<answer>3</answer>", "sections"),
        (f"{response('I see two.')} and more", "sections"),
        (response(""), "no reasoning"),
        (response(f"{POINT} {POINT}"), "no reasoning"),
        (response('I see <points x1="10" alt="a">a</points>.'), "cannot be read"),
        (response('I see <points x1="10" y1="20" x2="4" alt="a">a</points>.'), "cannot be read"),
        (response('I see <points x1="ten" y1="20" alt="a">a</points>.'), "cannot be read"),
        (normalise(response('I see <points x1="10" y1="20" x2="4" alt="a">a</points>.')), "cannot be read"),
        (normalise(response('I see <points x1="1" y1="2" x2="²" y2="²" alt="a">a</points>.')), "cannot be read"),
        (response("I see <point>a</point>."), "cannot be read"),
        (response('I see <points x1="10" y1="20" x1="30" alt="a">a</points>.'), "cannot be read"),
        (normalise(response('I see <points x1="10" y1="20" x1="30" y1="4" alt="a">a</points>.')), "cannot be read"),
        (normalise(response('I see <points x1="10" y1="20" x_2="30" y_2="4" alt="a">a</points>.')), "cannot be read"),
        (normalise(response('I see <points x1="10" y1="20" bbox="1 2 3 4" alt="a">a</points>.')), "cannot be read"),
        (normalise(response('I see <points x1="10" y1="20" coords="1 1 3 4" alt="a">a</points>.')), "cannot be read"),
        (response(f'I see <points x1="10" y1="20" alt="a">{POINT}.</points>'), "not closed"),
        (response(f"I see {POINT}</points>."), "not closed"),
        (normalise(response('I see <points x1="10" y1="20" alt="a">a. So 2.')), "not closed"),
        (response(f"I see {POINT} {BOX}"), "boxes"),
        (response("I see two.", f"2 {POINT}"), "outside of the reasoning"),
        (response('{"bbox_2d": [1, 2, 3, 4]}, so two.'), "outside of tags"),
        (response('One at <location x1="3" y1="4">a</location>.'), "outside of tags"),
        (response("One at <at>120, 45</at>."), "outside of tags"),
        (response("One at (120, 45) and another."), "outside of tags"),
        (response("One in [12, 34, 56, 78]."), "outside of tags"),
        (response("One at x=120, y=45."), "outside of tags"),
        (response("One at x: 120 and y: 45 px."), "outside of tags"),
        (response('One at [points x1="120" y1="45"].'), "outside of tags"),
        (response(f"One is {POINT.replace('<', '‹')}."), "cannot be read"),
        (response("I see two.", "3 \\boxed{2}"), "more than its box"),
        (response("It is \\boxed{3}, I think."), "another answer"),
        (response("I see two.", "2, because there are two."), "more than the answer"),
        (response("I see two.", "2. There are two of them."), "more than the answer"),
        (response(f"I see {POINT}. So there are 3."), "concludes otherwise"),
        (response(f"I see {POINT}. So there are {tagged('3')}."), "concludes otherwise"),
        (response(f"I see {POINT}: {tagged('so there are 3')}."), "concludes otherwise"),
        (response(f"Je vois {POINT}. Il y a donc trois carrés."), "concludes otherwise"),
        (response(f"That's one. Hmm, I missed {POINT}, so there are 3."), "concludes otherwise"),
        (response(f"That's one. Hmm, I missed {POINT} in the left box."), "concludes otherwise"),
        (response(f"I see {POINT}: {tagged('3 in total')}."), "concludes otherwise"),
        (response(f"I see {POINT}: {tagged('1', label='3 in total')}."), "concludes otherwise"),
        (response(f"I see {POINT}: {tagged('&lt;|endoftext|&gt;')}."), "special token"),
        (response(f"I see {POINT}: {tagged('one', label='a &lt;|im_end|&gt;')}."), "cannot be read"),
    ],
)
def test_what_has_not(text: str, says: str) -> None:
    assert says in (fault(text) or "")


def test_questions_about_coordinates_may_state_them() -> None:
    assert fault(response("The vertex is at (2, 5).", "(2, 5)"), question=PLANE) is None


@pytest.mark.parametrize(
    ("form", "think", "says"),
    [
        (BOXED_FORM, f"Here {BOX}.", None),
        (BOXED_FORM, f"Here {POINT}.", "points"),
        (TEXTUAL_FORM, f"Here {BOX}.", "boxes"),
        (TEXTUAL_FORM, f"Here {POINT}.", "points"),
        (TEXTUAL_FORM, "In words.", None),
        (LOOSE_FORM, "", None),
        (TEXTUAL_FORM, "", "no reasoning"),
    ],
)
def test_each_form_has_its_own(form: Form, think: str, says: str | None) -> None:
    found = fault(response(think), form)
    assert found is None if says is None else says in (found or "")


@given(st.text(), st.sampled_from([GROUNDED_FORM, BOXED_FORM, TEXTUAL_FORM, LOOSE_FORM]))
def test_any_text_is_judged(text: str, form: Form) -> None:
    found = fault(text, form)
    assert found is None or found


def test_a_flood_of_answers_or_labels_is_a_fault() -> None:
    boxes = " ".join(f"\\boxed{{{number}}}" for number in range(17))
    assert "more than 16 answers" in (fault(response(f"I see {boxes}.")) or "")
    points = " ".join(f'<points x1="1" y1="2" alt="a{number}">a{number}</points>' for number in range(65))
    assert "more than 64 labels" in (fault(response(f"I see {points}.")) or "")


@pytest.mark.parametrize(
    ("judge", "tail", "says"),
    [
        ("This needs reasoning.", "\\boxed{2}", None),
        ("The answer is not seen at a glance, so this needs reasoning.", "\\boxed{2}", None),
        ("This needs reasoning.", "<answer>2</answer>", "a box"),
        ("This needs reasoning; the answer is 2.", "\\boxed{2}", "gives the answer"),
        ("This needs reasoning. \\boxed{2}", "\\boxed{2}", "gives the answer"),
    ],
)
def test_a_judge_section_leaves_the_answer_to_the_box(judge: str, tail: str, says: str | None) -> None:
    found = fault(f"<judge>{judge}</judge><think>One here, one there.</think>{tail}", JUDGED_FORM)
    assert found is None if says is None else says in (found or "")
    assert "a box" in (fault(response("One here, one there."), JUDGED_FORM) or "")


def test_a_response_that_is_too_long_is_not_read() -> None:
    """Whoever scores it would wait: it has no answer, and its form says why."""
    fits = response("I see " + "a" * (MAX_RESPONSE_CHARS - len(response("I see "))))
    assert (fault(fits), parse_response(fits).answer) == (None, "2")
    long = fits.replace("I see", "I see,")
    assert fault(long) == "the response has 200,001 characters, and at most 200,000 are read"
    assert parse_response(long).answer is None


CONTROL = ["<|endoftext|>", "<start_of_turn>", "<IMG_CONTEXT>", "<image_1>", "<image>", "</s>", "[INST]", "<loc0123>"]
CONTROL += ["\x00", "\x1b[31m", "\u202e", "\ufffd", "\ud83d", "\ufeff", "<｜end▁of▁sentence｜>"]


@pytest.mark.parametrize("written", CONTROL, ids=ascii)
@pytest.mark.parametrize("form", [GROUNDED_FORM, TEXTUAL_FORM, BOXED_FORM, LOOSE_FORM])
def test_control_text_is_malformed(written: str, form: Form) -> None:
    assert fault(response("Two squares are yellow."), form) is None
    assert fault(response(f"Two squares {written} are yellow."), form) is not None
    assert fault(response("Two squares are yellow.", f"2{written}"), form) is not None
    assert fault(f"<judge>Look {written}</judge><think>Two.</think>\\boxed{{2}}", JUDGED_FORM) is not None


@pytest.mark.parametrize("written", ["a <b> c", "x < y > z", "<br>", "vector<int>", "<|x|>", "P(A|B)", "\u200d", "<T>"])
def test_code_and_mathematics_are_well_formed(written: str) -> None:
    assert fault(response(f"Two squares, {written}, are yellow.")) is None


def test_the_marks_of_a_boxed_answer_are_well_formed_behind_the_reasoning_alone() -> None:
    boxed = "<|begin_of_box|>2<|end_of_box|>"
    assert fault(response("Two squares are yellow.", boxed)) is None
    assert fault(response(f"Two squares are yellow: {boxed}.")) is not None


@pytest.mark.parametrize("label", ["one red cup", "two red cups", "1st red cup"])
def test_a_number_in_a_label_is_no_conclusion(label: str) -> None:
    points = [f'<points x1="{x}" y1="2" alt="{label}">{label}</points>' for x in (1, 9)]
    asked = Question("q", "", "", (), "How many red cups are there?", "2", "numeric")
    assert fault(response(f"I find {points[0]} and {points[1]}. So there are 2."), question=asked) is None


def points(label: str, number: int) -> str:
    """A tag of so many points, with the label as its attribute and as its text."""
    places = " ".join(f'x{n}="{10 * n}" y{n}="20"' for n in range(1, number + 1))
    return f'<points {places} alt="{label}">{label}</points>'


@pytest.mark.parametrize(
    "think",
    [
        f"So there are {points('five yellow squares', 2)}.",
        f"There are {points('5 yellow squares', 1)}.",
        f"I see a total of {points('five yellow squares', 2)}.",
        f"In total, {points('exactly five yellow squares', 1)}.",
        f"{points('five yellow squares', 2)} in total.",
        f"So there is {points('one yellow square', 1)}.",
        f"So, given {points('one blue circle', 1)}, there is {points('one yellow square', 1)}.",
        f"So there are five {points('yellow squares', 2)}.",
    ],
)
def test_a_count_within_or_before_a_tag_is_a_conclusion(think: str) -> None:
    assert (fault(response(think)) or "").startswith("the reasoning concludes otherwise")


@pytest.mark.parametrize(
    "think",
    [
        f"I see {points('one yellow square', 1)} and {points('another yellow square', 1)}.",
        f"I count {points('one yellow square', 1)} and {points('yellow square', 1)}.",
        f"So we have {points('one yellow square', 1)} and {points('one yellow square', 1)}.",
        f"I see {points('one yellow square', 1)}. I see {points('one yellow square', 1)}. So 2.",
        f"So there are {points('two yellow squares', 2)}.",
        f"There is {points('1 yellow square', 1)} and {points('five blue circles', 5)}, and another one. So 2.",
    ],
)
def test_a_number_in_a_label_is_no_count_of_its_own(think: str) -> None:
    assert fault(response(think)) is None
