"""Which equations and comparisons a text states, and whether they hold."""

import pytest

from groundtrace.embedded.arithmetic import calculations


@pytest.mark.parametrize(
    "text",
    [
        *("2 + 2 = 3 black squares", "one plus one equals three", "3 < 2", "4 - 2 = 3", "4 − 2 = 1", "2 × 2 = 5"),
        *(
            "two times two is five",
            "2 squares in the left box + 1 in the right box = 4 squares",
            "2+2=3",
            "$2 + 1 = 4$",
        ),
        *(
            "2 (left) + 1 (right) = 4",
            "zwei plus eins ergibt vier",
            "deux plus un font quatre",
            "2 + 1 ≤ 2",
            "6 / 2 = 2",
        ),
        *(
            "two plus one more makes four",
            "3 squares > 4 circles",
            "2 + 1 = 2 + 2",
            "2 + 3 * 2 = 10",
            "2 + 1 adds up to 4",
        ),
        *("black: 2 + 1 = 4", "we get 2 plus 2 is 5", "5 >= 6"),
    ],
)
def test_wrong_calculations(text: str) -> None:
    assert [each.holds for each in calculations(text)] == [False]


@pytest.mark.parametrize(
    "text",
    [
        *("2 + 0 + 1 = 3", "one plus two equals three", "3 > 2", "5 - 3 = 2", "two plus two is four", "6 / 2 = 3"),
        *("2 in the left box + 1 in the right box = 3", "zwei plus eins macht drei", "trois moins un font deux"),
        *("2 + 3 * 2 = 8", "2 + 1 = 4 - 1", "four squares > three circles", "2 <= 2", "2 x 3 = 6", "3 squares > 2"),
    ],
)
def test_right_calculations(text: str) -> None:
    assert [each.holds for each in calculations(text)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "black = 3, yellow = 2",
            "2 -> 3",
            "2 => 3",
            "1-2 squares",
            "the sum of 2 and 1 is 3",
            "boxes 1 + 2 contain 5",
        ),
        *(
            "in 2 + 1 boxes there are 5",
            "2 + 1 = 3 + 1 = 4",
            "2 + 2 are 2 more than 2",
            "1 + 1 = 2.5",
            "black: 3 > yellow: 4",
        ),
        *("3 / 0 = 1", "", "2 + 1", "tower 2 - 3 blocks", "1 + 1 = 2 or 3", "10:30 - 2 = 5-4"),
    ],
)
def test_what_is_no_calculation(text: str) -> None:
    assert [*calculations(text)] == []
