import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.wrapping import bare_answer, without_answer_phrase, without_markup, without_wrapping


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        (r"\text{B}", "B"),
        (r"\textbf{\text{(B)}}", "(B)"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"$\text{B}$", "B"),
        (r"\(x\)", "x"),
        ("$3 cm$", "3 cm"),
        ("$3m$", "$3m$"),
        ("$5 or $6", "$5 or $6"),
        ("$a$ or $b$", "$a$ or $b$"),
        ("**(B)**", "(B)"),
        ("B。", "B"),
        ("...", "..."),
        ("“red”", "red"),
        ('"red" or "blue"', '"red" or "blue"'),
        ('74"', '74"'),
        (r"\text{a} and \text{b}", r"\text{a} and \text{b}"),
        ("", ""),
    ],
)
def test_what_encloses_all_of_it(text: str, inner: str) -> None:
    assert without_wrapping(text) == inner


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("The answer is B", "B"),
        ("So, the final answer is: 5", "5"),
        ("It's a dog", "a dog"),
        ("I think it is a sofa", "a sofa"),
        ("答案是B", "B"),
        ("因此，正确答案为 B", "B"),
        ("選B", "B"),
        ("正解はBです", "B"),
        ("정답은 B입니다", "B"),
        ("La respuesta correcta es la B", "B"),
        ("réponse : B", "B"),
        ("Die richtige Antwort ist B", "B"),
        ("答案不是B", "不是B"),
        ("La respuesta no es B", "no es B"),
        ("not B", "not B"),
        ("The answer", "The answer"),
        ("答案", "答案"),
    ],
)
def test_leading_phrases(text: str, rest: str) -> None:
    assert without_answer_phrase(text) == rest


def test_markup_within_a_text() -> None:
    assert without_markup(r"\textbf{B}. \text{red \emph{car}}") == "B. red car"


@pytest.mark.parametrize("text", ['"{}?', "${}?", "$$ {}?", r"\({} x", r"\text{{{}", "「{}"])
def test_long_spaces_take_little_time(text: str) -> None:
    unfinished = text.format(" " * 5_000)
    assert without_wrapping(unfinished) == unfinished.strip()


@given(st.text(max_size=60) | st.text("$\\{}text*`\"'.。B答案是 ", max_size=40))
def test_any_text_keeps_something(text: str) -> None:
    for form in (bare_answer, without_answer_phrase, without_wrapping, without_markup):
        assert isinstance(form(text), str)
    assert without_wrapping(text).strip() or not text.strip()
