from dataclasses import dataclass, field

import pytest

from groundtrace.schemas.checked import checked_value


@dataclass(frozen=True)
class Part:
    name: str
    counts: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": 5}, "^name: Input should be a valid string$"),
        ({"name": "a", "counts": {"x": "y"}}, "^counts.x: Input should be a valid integer"),
        ({"name": "a", "counts": {"x": 10**400}}, "^a whole number has more than 63 bits$"),
        (5, "dictionary"),
    ],
)
def test_a_value_of_another_type_is_named(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_value(Part, value)


def test_a_valid_value() -> None:
    assert checked_value(Part, {"name": "a", "counts": {"x": 2}}) == Part("a", {"x": 2})
