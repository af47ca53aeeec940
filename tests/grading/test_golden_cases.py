"""Golden cases of graders and parsers, one test each, from the rules of the papers and of the module docstrings.

The data files hold one case a line: its name, why the expected result is right, the input and the result.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.grading.responses.pointing import NoPoints, RawPoint, UnparsablePointing, parse_pointer_reply
from groundtrace.grading.responses.response import MAX_RESPONSE_CHARS, normalise, parse_points, parse_response
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.schemas.coordinates import CoordinateFrame, OutOfFrame, UnresizableImage, to_px
from groundtrace.schemas.geometry import Point

NAMES = ("answers", "responses", "points", "pointing", "coordinates")
# What 1 MB of responses is made of, once well-formed and once never closed.
HOSTILE = {
    "opening angles": "<" * 500_000,
    "boxes never closed": "\\boxed{" * 100_000,
    "closed boxes": "\\boxed{A}" * 100_000,
    "boxes in boxes": "\\boxed{" * 60_000 + "A" + "}" * 60_000,
    "attribute soup": "<points " + "x1='1' y1=\"2\" alt=”a” " * 40_000,
    "attributes, closed": "<points " + "x1='1' y1=\"2\" alt=”a” " * 40_000 + ">a</points>",
    "nested answers": "<answer>" * 60_000 + "A" + "</answer>" * 60_000,
    "nested thinks": "<think>" * 70_000 + "A" + "</think>" * 60_000,
    "GLM boxes": "<|begin_of_box|>" * 30_000 + "A" + "<|end_of_box|>" * 30_000,
    "an endless answer": "<answer>" + "A " * 500_000 + "</answer>",
    "digits": "<answer>" + "9" * 1_000_000 + "</answer>",
    "numbers": "<answer>" + "1/2, " * 200_000 + "</answer>",
    "arrows": "<answer>" + "A -> " * 200_000 + "</answer>",
    "fullwidth digits": "<answer>" + "５" * 330_000 + "</answer>",
}
GOLDS = (
    ("mcq", "dog", ("cat", "dog")),
    ("bool", "yes", None),
    ("numeric", "5", None),
    ("text", "12 cm", None),
    ("text", "$\\frac{1}{2}$", None),
)
PIECES = (
    "12", "0.5", "½", " ", "cm", "m", "°", "°C", "%", "$", "€", "RM", "^2", "²", "/", "per", "-", "->", "→", "and",
    "or", ",", "\n", "March", "3", "2021", "03/04/2021", ":05", "pm", "noon", "A", "B.", "(C)", "yes", "no", "not",
    "million", "one", "the", "\\frac{1}{2}", "\\text{", "}", "\\boxed{", "(", "[", "А", "５", "\u200b", "−",
    "hundred", "5 ft 3 in", "$3m$",
)  # fmt: skip
TEXT = st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def cases(name: str) -> list[dict]:
    path = Path(__file__).parent / "data" / f"golden_{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", cases("answers"), ids=lambda case: case["case"])
def test_answer(case: dict) -> None:
    choices = tuple(case["choices"]) if case["choices"] else None
    grade = grade_answer(case["predicted"], case["gold"], case["answer_type"], choices)
    assert (grade.value, grade.method) == (case["value"], case["method"]), f"{grade.reason}; {case['why']}"


@pytest.mark.parametrize("case", cases("responses"), ids=lambda case: case["case"])
def test_response(case: dict) -> None:
    response = parse_response(case["text"])
    read = {name: getattr(response, name) for name in ("think", "judge", "answer", "has_format")}
    assert read == {name: case[name] for name in read}, case["why"]


@pytest.mark.parametrize("case", cases("points"), ids=lambda case: case["case"])
def test_points(case: dict) -> None:
    assert parse_points(case["text"]) == tuple(Point(*point) for point in case["points"]), case["why"]


@pytest.mark.parametrize("case", cases("pointing"), ids=lambda case: case["case"])
def test_pointing(case: dict) -> None:
    if case["points"] is None and not case["none"]:
        with pytest.raises(UnparsablePointing):
            parse_pointer_reply(case["text"])
        return
    expected = NoPoints(case["text"]) if case["none"] else tuple(RawPoint(*point) for point in case["points"])
    assert parse_pointer_reply(case["text"]) == expected, case["why"]


@pytest.mark.parametrize("case", cases("coordinates"), ids=lambda case: case["case"])
def test_coordinates(case: dict) -> None:
    if case["px"] is None:
        with pytest.raises((OutOfFrame, UnresizableImage)):
            to_px(CoordinateFrame(case["frame"]), *case["written"], *case["size"])
        return
    assert to_px(CoordinateFrame(case["frame"]), *case["written"], *case["size"]) == pytest.approx(case["px"]), case[
        "why"
    ]


def test_there_are_enough_cases_and_each_says_why() -> None:
    rows = [case for name in NAMES for case in cases(name)]
    assert len(rows) >= 300
    assert all(case["case"] and case["why"] for case in rows)


@pytest.mark.parametrize(("kind", "gold", "choices"), GOLDS)
def test_an_answer_that_is_too_long_is_wrong(kind: str, gold: str, choices: tuple[str, ...] | None) -> None:
    """Not for a judge, nor read at length; a gold answer that is as long may be met."""
    grade = grade_answer("\\boxed{A} " * 3_000, gold, kind, choices)
    assert (grade.value, grade.reason) == (0.0, "an answer of 30,000 characters, and at most 20,000 are read")
    assert grade_answer("word " * 5_000, "word " * 5_000, "text", None).value == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_is_read_and_graded(name: str) -> None:
    text = HOSTILE[name]
    answer = parse_response(text[:MAX_RESPONSE_CHARS]).answer
    assert len(scan_tags(text)) < 1_000_000
    assert isinstance(normalise(text), str)
    for kind, gold, choices in GOLDS:
        for predicted in (text, answer):
            assert grade_answer(predicted, gold, kind, choices).value in {0.0, None}


@settings(max_examples=400)
@given(predicted=st.none() | TEXT, gold=TEXT, kind=st.sampled_from([*ANSWER_TYPES]), choices=st.lists(TEXT, max_size=5))
def test_any_answer_gets_a_grade(predicted: str | None, gold: str, kind: str, choices: list[str]) -> None:
    grade = grade_answer(predicted, gold, kind, tuple(choices) or None)
    assert grade.value in {0.0, 1.0, None}
    assert (grade.value is None) == (grade.method in {"judge", "boxes", "gold"})


@settings(max_examples=200)
@given(gold=TEXT, kind=st.sampled_from(["numeric", "text"]))
def test_the_gold_itself_is_never_wrong(gold: str, kind: str) -> None:
    # Text of several numbers is no number, and a formula that can't be read is no formula: those may be unscored.
    assert grade_answer(gold, gold, kind, None).value != 0.0
