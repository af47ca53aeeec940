"""LLaVA's and ShareGPT's conversations: which questions they hold, what is shown with each, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.sources.shapes.base import BadRow
from groundtrace.stages.sources.shapes.conversations import Conversations, placed, read_turns


def llava(*texts: str, **fields: Any) -> dict[str, Any]:
    turns = [{"from": "gpt" if n % 2 else "human", "value": text} for n, text in enumerate(texts)]
    return {"id": "a", "image": "a.png", "conversations": turns} | fields


def sharegpt(*texts: Any, **fields: Any) -> dict[str, Any]:
    turns = [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)]
    return {"messages": turns} | fields


def asked(found: list[Any]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(each.id, each.question, each.answer, each.media) for each in found]


@pytest.mark.parametrize("name", ["q.json", "q.jsonl"])
def test_each_question_of_llava_is_a_record(name: str, records: Any, write_json: Callable[..., Path]) -> None:
    rows = [
        llava("<image>\nHow many?", "3", "Is it red?", "yes"),
        llava("What is it?\n<image>", "A cat.", id="b"),
        llava("Is it?", "no", id=7, image=["x/b.png"]),
    ]
    found = records(write_json(name, rows), shape="conversations")
    assert asked(found) == [
        ("a-1", "How many?", "3", ("input:a.png",)),
        ("a-2", "Is it red?", "yes", ("input:a.png",)),
        ("b", "What is it?", "A cat.", ("input:a.png",)),
        ("7", "Is it?", "no", ("input:x/b.png",)),
    ]
    assert [each.answer_type for each in found] == ["numeric", "bool", "text", "bool"]
    first = records(write_json(name, rows), shape="conversations", turns="first")
    assert [each.id for each in first] == ["a-1", "b", "7"]


def test_media_of_sharegpt_in_their_order(records: Any, write_json: Callable[..., Path]) -> None:
    parts = [
        {"type": "text", "text": "How many in "},
        {"type": "image", "image": "p.png"},
        {"type": "text", "text": "?"},
    ]
    rows = [
        sharegpt("<image><image>Which differs?", "1", "And in <image>?", "2", images=["a.png", "b.png", "c.png"]),
        sharegpt("<video>What then? <image>", "a fall", images=["a.png"], videos=["v.mp4"]),
        {"messages": [{"role": "system", "content": "Be brief."}, *sharegpt(parts, "4")["messages"]]},
    ]
    assert asked(records(write_json("q.jsonl", rows), shape="conversations")) == [
        ("row-1", "Which differs?", "1", ("input:a.png", "input:b.png")),
        ("row-2", "And in picture 3?", "2", ("input:a.png", "input:b.png", "input:c.png")),
        ("row-3", "What then?", "a fall", ("input:v.mp4", "input:a.png")),
        ("row-4", "How many in the picture?", "4", ("input:p.png",)),
    ]


def test_several_parquet_files_with_embedded_images(records: Any, tmp_path: Path, image: bytes) -> None:
    for name in ("1.parquet", "2.parquet"):
        rows = [sharegpt("<image>How many?", "3", "Why?", "so", images=[{"bytes": image, "path": None}])]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "made" / name)
    found = records(tmp_path / "made", shape="conversations")
    assert [each.id for each in found] == ["row-1", "row-2", "row-3", "row-4"]
    assert len({medium for each in found for medium in each.media}) == 1


OPTIONS = "Which?\nA. cat\nB. a dog.\nAnswer with the letter."


@pytest.mark.parametrize(
    ("text", "answer", "choices", "gold"),
    [
        (OPTIONS, "B", ("cat", "a dog."), "a dog."),
        (OPTIONS, "(B) a dog", ("cat", "a dog."), "a dog."),
        (OPTIONS, "cat", ("cat", "a dog."), "cat"),
        ("Which?\n(A) 1\n(B) 2", "(A)", ("1", "2"), "1"),
        ("Which?\nA. cat\nC. dog", "A", None, "A"),
        ("Which?\nA. cat\n(B) dog", "A", None, "A"),
        ("A. Smith painted it. Who?", "A", None, "A"),
    ],
)
def test_options_in_the_text(
    text: str, answer: str, choices: Any, gold: str, records: Any, write_json: Callable[..., Path]
) -> None:
    path = write_json("q.json", [llava(text, answer)])
    [found] = records(path, shape="conversations", choices_in_text=True)
    assert (found.choices, found.answer) == (choices, gold)
    [found] = records(path, shape="conversations")
    assert (found.choices, found.question) == (None, text)


def test_an_answer_that_is_no_option(records: Any, write_json: Callable[..., Path]) -> None:
    path = write_json("q.json", [llava(OPTIONS, "C"), llava(OPTIONS, "B. cat", id="b")])
    for found in records(path, shape="conversations", choices_in_text=True):
        assert "is not among" in found


BAD = [
    (
        llava("<image><image> What?", "x"),
        "a: conversations: the questions have 2 marks <image>, but the row has 1 such media",
    ),
    (llava("What?", "x", image=None), "a: media: expected one or more paths, got []"),
    (llava("What?"), "a: answer: the value is missing or empty"),
    (llava("What?", " "), "a: answer: the value is missing or empty"),
    (llava("<image>", "a cat"), "a: question: the value is missing or empty"),
    (llava(conversations=[{"from": "gpt", "value": "x"}]), "do not alternate at turn 1 (assistant)"),
    (llava(conversations=[{"from": "human", "value": "x"}] * 2), "do not alternate at turn 2 (user)"),
    (llava(conversations=[]), "expected a list of turns, got []"),
    (llava(conversations="hello"), "expected a list of turns, got 'hello'"),
    (llava(conversations=["hello"]), "turn 1 is not an object with 'from' and 'value'"),
    (
        llava(conversations=[{"from": "tool", "value": "x"}]),
        "turn 1 has the unknown role 'tool': known roles are human, user",
    ),
    (llava(conversations=[{"from": "human", "value": 3}]), "the content of turn 1 is neither a text nor a list: 3"),
    (llava(conversations=[{"role": "system", "content": "x"}]), "no turn of the conversation is a question"),
    (sharegpt([{"type": "image_url", "image_url": "x"}]), "a part of type 'image_url': use only text"),
    (sharegpt([{"type": "image", "image": "a.png"}], "x", image="a.png"), "both in the turns and in other columns"),
    (llava("What?", "x", id=None), "None: id: the value is missing or empty"),
    (llava("What?", "x", "Why?", "y", id=[1]), "None: id: expected a text, got [1]"),
]


@pytest.mark.parametrize(("row", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_what_is_refused(row: dict[str, Any], said: str, records: Any, write_json: Callable[..., Path]) -> None:
    columns = {"id": "id"} if "id" in row else {}
    for found in records(write_json("q.json", [row]), shape="conversations", columns=columns):
        assert said in found
        assert "\n" not in found


def test_ids_that_repeat_can_be_numbered(records: Any, write_json: Callable[..., Path]) -> None:
    path = write_json("q.json", [llava("Q?", "1"), llava("R?", "2")])
    assert [each.id for each in records(path, shape="conversations")] == ["a", "a"]
    assert [each.id for each in records(path, shape="conversations", number_ids=True)] == ["row-1", "row-2"]


def test_a_line_that_is_no_object_keeps_its_place(records: Any, write_json: Callable[..., Path]) -> None:
    path = write_json("q.jsonl", [llava("Q?", "1"), [1], llava("R?", "2", id="b")])
    first, bad, last = records(path, shape="conversations")
    assert (first.id, last.id, last.number) == ("a", "b", 3)
    assert bad.startswith("None: the record must be a JSON object")


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["from", "value", "role", "content", "type", "text", "image"]), inner)))  # fmt: skip
def test_anything_is_turns_or_is_refused(value: Any) -> None:
    try:
        assert all(isinstance(turn.text, str) for turn in read_turns(value))
    except BadRow as error:
        assert str(error).startswith("conversations: ")
    shape = Conversations()
    try:
        rows = list(shape.read({"conversations": value, "image": "a.png"}, RowSettings(), "id"))
    except BadRow:
        return
    assert all(row["question"] is not None for row in rows)


@given(
    st.lists(st.sampled_from(["<image>", "<video>", " ", "\n", "in", "What", "?", "is"]), max_size=12),
    st.integers(1, 4),
)
def test_no_mark_is_left(parts: list[str], media: int) -> None:
    text = placed("".join(parts), 0, media)
    assert "<image>" not in text
    assert "<video>" not in text
