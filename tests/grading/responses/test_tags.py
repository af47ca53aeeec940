import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.tags import (
    format_box_tag,
    format_number,
    format_points_tag,
    parse_number,
    scan_tags,
    unescape,
)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (5, "5"),
        (5.0, "5"),
        (5.25, "5.2"),
        (-0.04, "0"),
        (-1.5, "-1.5"),
        (0.1 + 0.2, "0.3"),
        (123456.78, "123456.8"),
    ],
)
def test_format_number(value: float, written: str) -> None:
    assert format_number(value) == written


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5", 5.0),
        (" 5.5 ", 5.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-3", -3.0),
        ("1e3", None),
        ("nan", None),
        ("", None),
        ("1,5", None),
        ("٣", None),
        ("9" * 400, None),
        ("999999999.99", None),
        ("5 6", None),
    ],
)
def test_parse_number(written: str, value: float | None) -> None:
    assert parse_number(written) == value


def test_a_tag_is_read_with_its_place() -> None:
    text = 'a <points x1="5" ALT="b &amp; c">d</points> e'
    (tag,) = scan_tags(text)
    assert tag.attributes == (("x1", "5"), ("alt", "b & c"))
    assert (tag.name, tag.inner, tag.label) == ("points", "d", "b & c")
    assert text[tag.start : tag.end] == '<points x1="5" ALT="b &amp; c">d</points>'


@pytest.mark.parametrize(
    ("text", "plain"),
    [("a &lt; b", "a < b"), ("&amp;lt;", "&lt;"), ("R&C", "R&C"), ("&copy", "&copy"), ("&#34;", '"')],
)
def test_unescape(text: str, plain: str) -> None:
    assert unescape(text) == plain


@given(st.text(max_size=40), st.lists(st.tuples(*[st.integers(-999, 999)] * 2), min_size=1, max_size=5))
def test_points_tag_round_trip(label: str, positions: list[tuple[int, int]]) -> None:
    (tag,) = scan_tags(format_points_tag(label, positions))
    values = [parse_number(value) for name, value in tag.attributes if name != "alt"]
    assert values == [value for position in positions for value in position]
    assert tag.label == label
    assert "\n" not in format_points_tag(label, positions)


@given(st.text(min_size=1, max_size=40))
def test_box_label_round_trip(label: str) -> None:
    (tag,) = scan_tags(format_box_tag(label, (1, 2, 3, 4)))
    assert dict(tag.attributes)["alt"] == label
    assert tag.inner == "[1,2,3,4]"


@given(st.text(max_size=80))
def test_tags_lie_in_the_text_without_overlap(text: str) -> None:
    ends = 0
    for tag in scan_tags(f"<points {text} x=1><box>{text}"):
        assert ends <= tag.start < tag.end
        ends = tag.end
