import pytest

from groundtrace.pages.render import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (6, "6.0 s"),
        (59.94, "59.9 s"),
        (61.4, "1 min 1 s"),
        (3599.6, "1 h 0 min"),
        (11_420, "3 h 10 min"),
    ],
)
def test_a_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
