import pytest

from groundtrace.embedded.sight.answer import SightAnswer, answer, relevant_labels
from groundtrace.embedded.sight.by_colour import find_shapes
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.layout import find_panels


def look(drawn, text, choices=None):
    if not text.endswith("?"):
        text = f'Is the following statement about the image true? "{text}" Answer yes or no.'
    query = read_question(text, choices)
    assert query is not None, text
    image = drawn.image
    return answer(query, find_shapes(image), (image.shape[1], image.shape[0]), find_panels(image))


@pytest.mark.parametrize(
    ("text", "expected", "evidence"),
    [
        ("How many blue circles are there?", "2", ["blue circle", "blue circle"]),
        ("How many red objects are there?", "0", []),
        ("How many items are there?", "9", None),
        ("Is there a yellow triangle?", "yes", ["yellow triangle"]),
        ("Is there a red triangle?", "no", []),
        ("There are exactly two blue circles", "yes", ["blue circle", "blue circle"]),
        ("There are exactly three blue circles", "no", ["blue circle", "blue circle"]),
        ("There are 3 blue circles", "no", ["blue circle", "blue circle"]),
        ("There is a yellow square touching the edge", "no", []),
        ("There is exactly one square touching a corner", "no", ["blue square", "black square"]),
        ("There is a black square touching the right wall of a box", "yes", ["black square"]),
        ("There is a blue square touching the bottom of a box", "yes", ["blue square"]),
        ("There is a box with a yellow square and a blue circle", "yes", ["yellow square", "blue circle"]),
        ("There is a box with 4 items", "no", []),
        ("Each box has at least one black item", "yes", ["black triangle", "black square", "black circle"]),
        ("There is a box with only black items", "no", []),
        ("Each box has items of all 3 colours", "yes", None),
    ],
)
def test_scattered_shapes(scattered, text, expected, evidence):
    reading = look(scattered, text)
    assert reading is not None and reading.answer == expected
    assert reading.reason.endswith(".") and not any(c in reading.reason for c in "(=")
    if evidence is not None:
        assert sorted(s.label for s in reading.evidence) == sorted(evidence)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There are exactly three towers", "yes"),
        ("There is a tower with three blocks", "yes"),
        ("There is a tower with four blocks", "no"),
        ("There is exactly one tower with a blue block at the top", "no"),
        ("There are exactly two towers with a blue block at the top", "yes"),
        ("There is a tower with a yellow base", "yes"),
        ("There is a blue block on a yellow block", "yes"),
        ("There is a yellow block on a blue block", "no"),
        ("There is a blue tower", "yes"),
        ("There is a tower with only black and yellow blocks", "yes"),
        ("The tower with three blocks has a yellow block at the top", "yes"),
        ("All 3 towers have at least 1 blue block", "no"),
    ],
)
def test_towers(towers, text, expected):
    reading = look(towers, text)
    assert reading is not None and reading.answer == expected


@pytest.mark.parametrize(
    "text",
    [
        "There are two items",  # nine are there: true for some readers only
        "There is a tower with a blue block at the top",  # nothing is stacked
        "There is a box with a blue item on top",
    ],
)
def test_open_questions_are_not_answered(scattered, text):
    query = read_question(f'Is the following statement about the image true? "{text}"')
    assert query is None or look(scattered, text) is None


def test_above_without_contact_is_left_open(canvas):
    drawn = canvas(bars=True).tower(40, ["yellow", "black", "blue"])
    assert look(drawn, "There is a blue block above a yellow block") is None
    reading = look(drawn, "There is a blue block on a yellow block")
    assert isinstance(reading, SightAnswer) and reading.answer == "no"


def test_two_towers_of_the_height_meant_are_left_open(canvas):
    drawn = canvas(bars=True).tower(40, ["yellow", "black"]).tower(190, ["blue", "black"])
    assert look(drawn, "The tower with two blocks has a black block at the top") is None


@pytest.mark.parametrize(
    ("text", "choices", "expected"),
    [
        ("How many circles are there?", ["3", "4", "5"], "4"),
        ("How many circles are there?", ["7", "8"], None),
        ("Is there a yellow triangle?", ["Yes", "No"], "Yes"),
        ("What colour is the triangle?", None, None),
    ],
)
def test_choices(scattered, text, choices, expected):
    reading = look(scattered, text, choices)
    assert (None if reading is None else reading.answer) == expected


def test_bars_are_compared(canvas):
    image = canvas(300, 200, background=(255, 255, 255)).image
    for x, height, rgb in ((40, 90, (220, 30, 30)), (120, 150, (30, 160, 60)), (200, 60, (0, 0, 0))):
        image[180 - height : 180, x : x + 40] = rgb
    shapes = find_shapes(image)
    tallest, shortest = (read_question(f"What color is the {word} bar?") for word in ("tallest", "shortest"))
    assert tallest is not None and shortest is not None
    assert answer(tallest, shapes, (300, 200)).answer == "green"
    assert answer(shortest, shapes, (300, 200)).answer == "black"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("How many circles are there?", {"blue circle", "yellow circle", "black circle"}),
        ("How many red circles are there?", {"red circle"}),
        ("How many squares are there?", {"yellow square", "blue square", "black square"}),
        ("How many pentagons are there?", {"pentagon"}),
        ("Is there a blue item?", {"blue circle", "blue square"}),
    ],
)
def test_relevant_labels(scattered, text, labels):
    query = read_question(text)
    assert query is not None
    found = relevant_labels(query, find_shapes(scattered.image))
    assert set(found) == labels and len(found) == len(labels)


def test_relevant_labels_are_at_most_ten(scattered):
    shapes = find_shapes(scattered.image)
    everything = read_question("How many objects are there?")
    assert everything is not None
    many = [type(shapes[0])(c, k, (0, 0, 1, 1), (0, 0), 1) for c in ("red", "blue", "grey") for k in "abcde"]
    assert len(relevant_labels(everything, many)) == 10
