import pytest

from groundtrace.grading.answers.cjk_numerals import value_of_numeral, with_arabic_digits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("三", "3"),
        ("三个", "3个"),
        ("三只猫", "3只猫"),
        ("一百二十", "120"),
        ("一百零二", "102"),
        ("一百二", "120"),
        ("两万五千", "25000"),
        ("2.5万", "25000"),
        ("一亿二千万", "120000000"),
        ("二〇二一年", "2021年"),
        ("一九九八", "1998"),
        ("三点五", "3.5"),
        ("三分之二", "2/3"),
        ("百分之二十", "20%"),
        ("第二", "2nd"),
        ("第十一", "11th"),
        ("三角形", "三角形"),
        ("一样", "一样"),
        ("三四个", "三四个"),
        ("零分之二", "0分之2"),
        ("plain", "plain"),
        ("5百", "5百"),
        pytest.param("5" + "亿" * 600, "5" + "亿" * 600, id="a scale without end"),
    ],
)
def test_numerals_become_digits(text: str, expected: str) -> None:
    assert with_arabic_digits(text) == expected


@pytest.mark.parametrize(
    ("numeral", "value"), [("十", 10), ("二十五", 25), ("叁", 3), ("三四", None), ("三四十", None)]
)
def test_value_of_numeral(numeral: str, value: int | None) -> None:
    assert value_of_numeral(numeral) == value
