"""Labels of tags as the prose around them reads them: with their number only if it claims a count."""

import pytest

from groundtrace.grading.responses.stated_counts import spoken_label, stated_counts


@pytest.mark.parametrize(
    ("label", "points", "before", "expected"),
    [
        ("one cup", 1, "I see ", "cup"),
        ("one cup", 1, "", "cup"),
        ("two cups", 2, "There are ", "cups"),
        ("five cups", 4, "There are ", "five cups"),
        ("a total of five cups", 4, "I see ", "a total of five cups"),
        ("five", 1, "there are ", "five"),
        ("one cup", 1, "So there is ", "one cup"),
        ("one cup", 1, "I see it. In total ", "one cup"),
        ("one cup", 1, "So much for that. I see ", "cup"),
        ("cup 5", 1, "So there is ", "cup"),
        ("5. cup", 1, "So there is ", "cup"),
        ("the second cup", 1, "So there is ", "cup"),
    ],
)
def test_spoken_label(label: str, points: int, before: str, expected: str) -> None:
    assert spoken_label(label, points, before) == expected


@pytest.mark.parametrize("junk", ["1,", "٠", "5 ", "1/", "- ", "\n", "x"])
def test_a_long_sentence_of_junk_is_read(junk: str) -> None:
    """A time that is quadratic in the length would be many minutes here."""
    words = frozenset({"square"})
    counts = [count.value for count in stated_counts(f"There are 2 squares. {junk * 500_000} So 2.", words, words)]
    assert counts[0] == counts[-1] == 2
