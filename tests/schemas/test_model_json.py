"""JSON of models: keys that are written twice, and half characters."""

import json
from typing import Any

import pytest

from groundtrace.schemas.model_json import ConflictingValues, one_value_per_key, whole_texts


def read(text: str) -> Any:
    return json.loads(text, object_pairs_hook=one_value_per_key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        ('{"a": 1, "b": 1}', {"a": 1, "b": 1}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        ('{"a": {"b": 1, "c": 2}, "a": {"c": 2, "b": 1}}', {"a": {"b": 1, "c": 2}}),
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('{"a": null, "a": null}', {"a": None}),
    ],
)
def test_one_value_for_each_key(text: str, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 0}',
        '{"a": 1, "a": true}',
        '{"a": 1, "a": "1"}',
        '{"a": [1, 2], "a": [2, 1]}',
        '{"a": 1, "b": 2, "a": 1, "a": 3}',
        '{"x": [{"a": 1, "a": 0}]}',
        '{"a": {"b": 1}, "a": {"b": true}}',
    ],
)
def test_two_values_for_a_key(text: str) -> None:
    with pytest.raises(ConflictingValues, match=r"a key twice with different values \('a'\)"):
        read(text)


def test_half_characters_in_any_text_are_unreadable() -> None:
    found = whole_texts(json.loads(r'{"\ud83d": ["a\udc00", {"b": "\ud83d\ude00"}, 1, null]}'))
    assert found == {"\ufffd": ["a\ufffd", {"b": "\N{GRINNING FACE}"}, 1, None]}
