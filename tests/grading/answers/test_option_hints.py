import pytest

from groundtrace.grading.answers.option_hints import has_collective, may_name

CARS = ("a red car", "a blue truck", "a green bike")


@pytest.mark.parametrize(
    ("answer", "choices", "expected"),
    [
        ("the truck", CARS, True),
        ("the blue one", CARS, True),
        ("the second option", CARS, True),
        ("option 3", CARS, True),
        ("option 4", CARS, False),
        ("an aeroplane", CARS, False),
        ("no idea", CARS, False),
        ("vitamin", ("vitamin A", "vitamin B"), False),
        ("increasing", ("Increase", "Decrease"), True),
        ("1500 m", ("1.5 km", "2.5 km"), True),
        ("1700 m", ("1.5 km", "2.5 km"), False),
        ("six o'clock", ("3:00", "6:00"), True),
        ("15.2", ("15.0", "16.0"), False),
        ("0.67", ("1/3", "2/3"), True),
        ("neither", ("cat", "None of the above"), True),
        ("neither", ("cat", "dog"), False),
        ("he isn't sitting", ("he is sitting", "he is not sitting"), True),
    ],
)
def test_may_name(answer: str, choices: tuple[str, ...], expected: bool) -> None:
    assert may_name(answer, choices) is expected


def test_collective_options() -> None:
    assert has_collective(("cat", "All of the above"))
    assert not has_collective(("Yes", "No"))
