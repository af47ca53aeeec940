"""Texts with tags as prose."""

import pytest

from groundtrace.grading.responses.tag_prose import plain_proses, proses_of, tag_texts

BOX = '<box alt="dog">[1,2,3,4]</box>'


def tag(inner: str, label: str = "circle") -> str:
    return f'<points x1="1" y1="2" alt="{label}">{inner}</points>'


@pytest.mark.parametrize(
    ("text", "proses"),
    [
        ("No tags.", ("No tags.",)),
        (f"A {tag('circle')}.", ("A circle.",)),
        (f"A {tag('')}.", ("A circle.",)),
        (f"A {BOX}.", ("A dog.",)),
        (f"Je vois {tag('le cercle')} et {BOX}.", ("Je vois le cercle et dog.", "Je vois circle et dog.")),
        (f"See {tag('it')}, {tag('circle')}", ("See it, circle", "See circle, circle")),
        ('A <points x1="1" y1="2" alt="a &lt;b&gt;"/> c', ("A a <b> c",)),
    ],
)
def test_proses_of_a_text(text: str, proses: tuple[str, ...]) -> None:
    assert proses_of(text) == proses


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        (f"There are {tag('1')}, {tag('2')} and {tag('3')}.", "There are circle, circle and circle."),
        (f"Left {tag('1')}, {tag('2')}; right {tag('1')}.", "Left circle, circle; right circle."),
        (f"So there are {tag('5')}.", "So there are 5."),
        (f"{tag('1')}, {tag('2')}, so there are {tag('5')}.", "1, 2, so there are 5."),
        (f"I see {tag('one cup', 'one cup')}.", "I see cup."),
    ],
)
def test_numbers_of_objects_are_no_counts(text: str, prose: str) -> None:
    assert plain_proses(text)[0] == prose


def test_texts_of_tags() -> None:
    text = f"{tag('1')} {tag('5 in total')} {tag('circle')} {BOX}"
    assert tag_texts(text) == ("circle", "1", "5 in total", "dog")
