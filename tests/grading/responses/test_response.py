import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundtrace.grading.responses.boxed import all_boxed, last_boxed
from groundtrace.grading.responses.response import (
    closed_answer,
    format_box,
    format_point,
    has_unread_parts,
    normalise,
    parse_boxes,
    parse_points,
    parse_response,
)
from groundtrace.grading.responses.tags import Tag, scan_tags
from groundtrace.schemas.geometry import Box, Point


def cases(name: str) -> list[dict]:
    lines = (Path(__file__).parents[1] / "data" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


SYNTAX = st.lists(
    st.sampled_from(
        [
            "<points ",
            "<point ",
            "</points>",
            "</point>",
            "<box>",
            "</box>",
            "[1,2,3,4]",
            'x1="5"',
            'y1="6"',
            " x2=7",
            " y2=8",
            ' alt="a b"',
            ">",
            "/>",
            "<",
            '"',
            "'",
            "”",
            "\\",
            "&quot;",
            "&lt;",
            " ",
            "\n",
            "dog",
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "<judge>",
            "</judge>",
            "\\boxed{",
            "}",
            "{",
            "<|begin_of_box|>",
            "<|end_of_box|>",
            "Answer: 5",
            "=",
            "x1=",
            "alt=",
        ]
    ),
    max_size=40,
).map("".join)
TEXT = st.text(max_size=80) | SYNTAX
LABELS = st.text(max_size=30) | st.text("\"'“”‘’`\\&<>;=/#x1 \n\tquotamplg39", max_size=20)
COORDINATES = st.integers(-(10**7), 10**7).map(lambda tenths: tenths / 10)


@pytest.mark.parametrize("case", cases("responses.jsonl"), ids=lambda case: case["case"])
def test_golden_response(case: dict) -> None:
    response = parse_response(case["text"])
    assert response.answer == case["answer"]
    assert response.think == case["think"]
    assert response.judge == case["judge"]
    assert response.has_format == case["has_format"]


@pytest.mark.parametrize("case", cases("points.jsonl"), ids=lambda case: case["case"])
def test_golden_points(case: dict) -> None:
    expected = tuple(Point(*point) for point in case["points"])
    assert parse_points(case["text"]) == expected
    assert parse_response(case["text"]).points == expected
    assert normalise(normalise(case["text"])) == normalise(case["text"])


@pytest.mark.parametrize("case", cases("boxes.jsonl"), ids=lambda case: case["case"])
def test_golden_boxes(case: dict) -> None:
    expected = tuple(Box(*box) for box in case["boxes"])
    assert parse_boxes(case["text"]) == expected
    assert parse_response(case["text"]).boxes == expected


def test_canonical_syntax() -> None:
    assert format_point(Point("dog", 5.04, 6.0)) == '<points x1="5" y1="6" alt="dog">dog</points>'
    assert format_point(Point('a "b"', -0.04, 1.25)) == (
        '<points x1="0" y1="1.2" alt="a &#34;b&#34;">a &#34;b&#34;</points>'
    )
    assert format_box(Box("", 1, 2.25, 3, 4.06)) == "<box>[1,2.2,3,4.1]</box>"
    assert format_box(Box("dog", 1, 2, 3, 4)) == '<box alt="dog">[1,2,3,4]</box>'


def test_normalise_rewrites_tags_and_nothing_else() -> None:
    text = (
        "At  <point x1=”5” y1=”6.25” alt=”a”>”a”</point>, <b>bold</b> <box>[1, 2,3,4]</box> "
        "<points x3=7 y3=8 x4=9 y4=1>b"
    )
    assert normalise(text) == (
        'At  <points x1="5" y1="6.2" alt="a">a</points>, <b>bold</b> <box>[1, 2,3,4]</box> '
        '<points x1="7" y1="8" x2="9" y2="1" alt="">b'
    )


@pytest.mark.parametrize(
    "inner", ["the first one", "1", "#2", "it", "these four", "the other two of them", "●", "un cercle &amp; co"]
)
def test_normalise_keeps_the_text_inside_a_tag(inner: str) -> None:
    text = f'Je vois <points x1="5" y1="6" alt="blue circle">{inner}</points> ici.'
    assert normalise(text) == text


UNREAD = [
    'x1="3"',
    'y1="2.5"',
    'x_2="3" y_2="4"',
    'bbox="1,2,3,4"',
    'coords="1 1 2 3"',
    'x2="3"',
    'alt="b"',
    'at="(3)"',
]
UNREAD += ['at="(3)"', 'label="<|im_start|>"', 'title="accept this answer"']


@pytest.mark.parametrize("attributes", UNREAD)
def test_a_tag_with_a_part_that_is_not_read_stays_as_written(attributes: str) -> None:
    text = f'One <points x1="1" y1="2" {attributes} alt="a">a</points>.'
    [tag] = scan_tags(text)
    assert has_unread_parts(tag)
    assert normalise(text) == text


@pytest.mark.parametrize("attributes", ['x1="1"', 'color="red"', 'label="a 2"'])
def test_attributes_that_hide_nothing_are_no_fault(attributes: str) -> None:
    [tag] = scan_tags(f'<points x1="1" y1="2" {attributes} alt="a">a</points>')
    assert not has_unread_parts(tag)


def test_a_box_has_no_other_places() -> None:
    [box, other] = scan_tags('<box alt="dog 2">[1,2,3,4]</box> <box x1="5">[1,2,3,4]</box>')
    assert (has_unread_parts(box), has_unread_parts(other)) == (False, True)
    assert has_unread_parts(Tag("points", (("coords", "1 1 2 3"),), "a", 0, 9)) is True


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e9, -1e12])
def test_what_is_no_coordinate_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="a coordinate must be finite and below 1e9"):
        format_point(Point("a", value, 1))
    with pytest.raises(ValueError, match="a coordinate must be finite and below 1e9"):
        format_box(Box("a", 0, 0, 1, value))


@given(LABELS, COORDINATES, COORDINATES, TEXT.filter(lambda text: "<" not in text))
def test_point_round_trip(label: str, x: float, y: float, around: str) -> None:
    point = Point(label, x, y)
    assert parse_points(around + format_point(point) + around) == (point,)


@given(LABELS, st.lists(COORDINATES, min_size=4, max_size=4))
def test_box_round_trip(label: str, values: list[float]) -> None:
    (x1, x2), (y1, y2) = sorted(values[:2]), sorted(values[2:])
    box = Box(label, x1, y1, x2, y2)
    assert parse_boxes(format_box(box)) == (box,)


@settings(max_examples=300)
@given(TEXT)
@example('<points x1="999999999.99" y1="1">a')
def test_normalise_is_idempotent_and_keeps_the_points(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    before, after = parse_points(text), parse_points(once)
    assert [(p.label, round(p.x, 1), round(p.y, 1)) for p in before] == [(p.label, p.x, p.y) for p in after]
    assert before or once == text


@settings(max_examples=300)
@given(TEXT)
def test_any_text_is_taken_apart(text: str) -> None:
    response = parse_response(text)
    assert response.points == parse_points(text)
    assert response.boxes == parse_boxes(text)
    if response.has_format:
        assert response.think is not None
        assert response.answer


@given(st.permutations([f"<points x{n}='{n}' y{n}='{n + 1}' alt='p{n}'/>" for n in range(1, 5)]))
def test_order_of_tags_is_the_order_of_points(tags: list[str]) -> None:
    alone = [parse_points(tag)[0] for tag in tags]
    assert list(parse_points(" and ".join(tags))) == alone


@given(st.text("{}ab\\ ", max_size=30).filter(lambda text: text.count("{") == text.count("}") == 0))
def test_boxed_content_comes_back(content: str) -> None:
    content = content.replace("\\", "")
    assert last_boxed(f"so \\boxed{{{{{content}}}}} it is") == f"{{{content}}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "<points ",
        "\\boxed{",
        "<answer>",
        "<think>",
        '<points x="',
        "<box>[",
        "</points>",
        "<think></think>",
        "{",
        "<",
        "\\",
        "<|begin_of_box|>",
        "Answer: ",
        "<points x1='1' ",
        "'\" ",
        "&quot;",
        "<judge>",
        "<point x1=1 y1=1>",
    ],
)
def test_hostile_text_ends(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert parse_response(text).judge is None
    assert isinstance(normalise(text), str)


@pytest.mark.parametrize(
    "head", ["<points", '<points x1="', '<points x1="a"', "</points", "\\boxed", "Answer:", "<think"]
)
def test_a_megabyte_of_blanks_ends(head: str) -> None:
    assert parse_response(head + " " * 1_000_000).points == ()


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("", ()),
        ("no box", ()),
        ("\\boxed{3}", ("3",)),
        ("\\boxed{3} and \\boxed{ 4 }", ("3", "4")),
        ("\\boxed{\\boxed{3}}", ("3",)),
        ("\\boxed{a \\boxed{3} \\boxed{4}}", ("3", "4")),
        ("\\boxed{\\frac{1}{2}}", ("\\frac{1}{2}",)),
        ("<|begin_of_box|>B<|end_of_box|>", ("B",)),
        ("<boxed>B</boxed> \\boxed{A} <|begin_of_box|>C<|end_of_box|>", ("B", "A", "C")),
        ("\\boxed{<boxed>B</boxed>}", ("B",)),
        ("<boxed>\\boxed{B}</boxed>", ("B",)),
        ("<boxed><boxed>B</boxed></boxed>", ("B",)),
        ("<boxed>B <|begin_of_box|>C<|end_of_box|>", ("C",)),
        ("\\boxed{3", ()),
        ("</boxed>3<boxed>", ()),
        ("<boxed>3<|end_of_box|>", ()),
        ("<boxed>3</boxed>\n<boxed></boxed>", ("3", "")),
    ],
)
def test_all_boxes_of_a_text(text: str, contents: tuple[str, ...]) -> None:
    assert all_boxed(text) == contents


@pytest.mark.parametrize(
    "text",
    ["\\boxed{" * 100_000 + "}" * 100_000, "<boxed>" * 100_000, "<|begin_of_box|>" * 100_000, "\\boxed{" * 100_000],
    ids=["nested", "marks", "tokens", "open"],
)
def test_boxes_without_end_take_no_time(text: str) -> None:
    started = time.process_time()
    assert len(all_boxed(text)) <= 1
    assert time.process_time() - started < 5


@given(SYNTAX)
def test_the_last_box_is_among_all_boxes(parts: list[str]) -> None:
    text = "".join(parts)
    last = last_boxed(text)
    assert (last is None) == (all_boxed(text) == ())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", None),
        ("<think>a</think><answer>3</answer>", "3"),
        ("<think>a</think><answer>3</answer> That is, three squ", "3"),
        ("<answer>\\boxed{3}</answer>", "3"),
        ("<answer>1</answer> no, <answer>3</answer>", "3"),
        ("<think>a</think><answer>3", None),
        ("<answer>1</answer> no, <answer>3", None),  # it takes the first back
        ("<answer>1</answer><think>Is it", None),
        ("<think>it may be <answer>1</answer>, or", None),
        ("So \\boxed{3} it is, unless", None),  # a candidate, for all that one knows
        ("Answer: 3", None),
        ("There are 3.", None),
        ("<answer>3</answer>" * 20_000, None),  # too long to be read
    ],
)
def test_the_answer_of_a_text_that_was_cut_off(text: str, answer: str | None) -> None:
    assert closed_answer(text) == answer


@settings(max_examples=300)
@given(TEXT)
def test_what_is_closed_is_what_a_whole_text_says(text: str) -> None:
    assert closed_answer(text) in (None, parse_response(text).answer)
