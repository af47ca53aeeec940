"""Nested values by dotted key."""

from groundtrace.config.flat import flat, flat_values


def test_nested_values_have_dotted_keys() -> None:
    values = {"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": "x", "g": {}}
    assert dict(flat_values(values)) == {"a.b.c": 1, "a.d": [1, {"e": 2}], "f": "x"}
    assert dict(flat(values))["f"] == "'x'"
