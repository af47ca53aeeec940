"""Arrays read a window at a time: the same objects as from the whole text, whatever the window's size."""

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas import json_lines
from groundtrace.stages.sources import json_arrays
from groundtrace.stages.sources.json_arrays import NotAnArray, array_entries

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3)
)
ARRAYS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=5)


@pytest.fixture(params=[1, 2, 7, 2**20])
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "CHUNK_CHARS", request.param)


@settings(max_examples=150)
@given(ARRAYS, st.sampled_from([None, 0, 1]), st.booleans(), st.integers(1, 40), st.text(" \t\r\n", max_size=3))
def test_the_objects_of_any_array(found: Any, indent: int | None, ascii_: bool, chunk: int, blanks: str) -> None:
    text = blanks + json.dumps(found, indent=indent, ensure_ascii=ascii_) + blanks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "CHUNK_CHARS", chunk)
        assert list(array_entries(io.StringIO(text))) == found


def test_a_value_of_many_lists_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_BRACKETS", 100)
    monkeypatch.setattr(json_arrays, "CHUNK_CHARS", 40)
    with pytest.raises(NotAnArray, match=r"line 1, entry 2: one value has more than \d+ lists and objects"):
        list(array_entries(io.StringIO('[{"a": 1}, {"a": [' + "[]," * 200 + "[]]}]")))


LONG = [
    ('[{"a": "' + "x" * 300, "line 1, entry 1: one value has more than 100 characters"),
    ('[\n{"a": 1},\n{"a": [' + "1, " * 100, "line 3, entry 2: one value has more than 100 characters"),
    ('[{"a": ' + "1" * 300, "line 1, entry 1: "),
    ("[" + " " * 1000 + "]", ""),
    ("[" + '{"a": "xxx"}, ' * 50 + '{"a": 1}]', ""),
]


@pytest.mark.parametrize(("text", "said"), LONG)
def test_a_value_that_may_fill_the_memory_is_an_error(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "MAX_VALUE_CHARS", 100)
    monkeypatch.setattr(json_arrays, "CHUNK_CHARS", 40)
    if said:
        with pytest.raises(NotAnArray, match=said):
            list(array_entries(io.StringIO(text)))
    else:
        assert list(array_entries(io.StringIO(text))) == json.loads(text)


@settings(max_examples=150)
@given(ARRAYS.filter(bool), st.data())
def test_a_part_of_an_array_is_none(found: Any, data: st.DataObject) -> None:
    text = json.dumps(found)
    with pytest.raises(NotAnArray):
        list(array_entries(io.StringIO(text[: data.draw(st.integers(0, len(text) - 1))])))


WRONG = [
    ("", "line 1, entry 0: expected a JSON array, which begins with ["),
    ('{"a": 1}', "line 1, entry 0: expected a JSON array, which begins with ["),
    ('[\n{"a": 1},\n]', "line 3, entry 2: expected a JSON object in braces"),
    ("[,]", "line 1, entry 1: expected a JSON object in braces"),
    ('[{"a": 1}, 3]', "line 1, entry 2: expected a JSON object in braces"),
    ('[{"a": 1}\n{"a": 1}]', "line 2, entry 1: expected a comma or ] after this entry"),
    ('[{"a": 1}', "line 1, entry 1: expected a comma or ] after this entry"),
    ('[{"a": 1}] x', "line 1, entry 1: the file has more text after the end of the array"),
    ('[{"a": 1}]\0', "line 1, entry 1: the file has more text after the end of the array"),
    ('[{"a": 1},\n{"b" 2}]', "line 2, entry 2: the JSON is invalid: Expecting ':' delimiter"),
    ('[{"a": 1},\n{"b": 2 3}\n]', "line 2, entry 2: the JSON is invalid: Expecting ',' delimiter"),
    ('[{"a": 1},\n{"b": "2}]', "line 2, entry 2: the JSON is invalid: Unterminated string starting at"),
    ('[{"a": ' + "1" * 5000 + "}]", "line 1, entry 1: a number cannot be read: Exceeds the limit (4300 digits)"),
    ('[{"a": ' + "[" * 100_000, "line 1, entry 1: the value is nested too deeply"),
]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text[:20] for text, _ in WRONG])
def test_what_is_said_of_texts_that_are_no_arrays(text: str, message: str) -> None:
    with pytest.raises(NotAnArray) as refused:
        list(array_entries(io.StringIO(text)))
    assert str(refused.value).startswith(message)


def test_an_array_is_not_held_whole() -> None:
    class Long(io.StringIO):
        """32 million characters of an array, made as they are read."""

        left, begun = 32, False

        def read(self, size: int | None = -1, /) -> str:
            if not self.left:
                return ""
            self.left -= 1
            before, self.begun = (", " if self.begun else "["), True
            return before + ", ".join([f'{{"question": "{"How many? " * 100}"}}'] * 1000) + ("" if self.left else "]")

    tracemalloc.start()
    try:
        assert sum(1 for _ in array_entries(Long())) == 32 * 1000
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_what_stands_behind_a_mistake_is_not_read() -> None:
    text = io.StringIO('[{"a" 1}, ' + " " * 3 * json_arrays.CHUNK_CHARS)
    with pytest.raises(NotAnArray, match="Expecting ':' delimiter"):
        list(array_entries(text))
    assert text.tell() == json_arrays.CHUNK_CHARS
