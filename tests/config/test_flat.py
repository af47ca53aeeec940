"""Nested values by dotted key."""

from typing import Annotated

from groundtrace.config.flat import default_values, flat_values
from groundtrace.config.settings import settings


@settings
class Band:
    """Holds two settings."""

    low: Annotated[float, "the lower end"] = 0.25
    names: Annotated[tuple[str, ...], "the names"] = ("a",)


@settings
class Required:
    """Holds a setting that must be set."""

    name: Annotated[str, "the name"] = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must be set")


def test_nested_values_have_dotted_keys() -> None:
    values = {"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": "x", "g": {}}
    assert dict(flat_values(values)) == {"a.b.c": 1, "a.d": [1, {"e": 2}], "f": "x"}


def test_default_values_have_the_form_of_a_config_file() -> None:
    assert default_values(Band) == {"low": 0.25, "names": ["a"]}
    assert default_values(Required) == {}, "a setting must be set"
