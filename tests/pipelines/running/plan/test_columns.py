import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.pipelines.running.plan.columns import (
    guess_columns,
    input_block,
    keep_lines,
    missing_fields,
    suggestions,
    unused_columns,
)
from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.sources.shapes.base import Row

OWN = ("id", "source", "license", "media", "question", "answer")


@pytest.mark.parametrize(
    ("columns", "guessed"),
    [
        (OWN, dict(zip(OWN, OWN, strict=True))),
        (("Query", "label", "image"), {"question": "Query", "answer": "label", "media": "image"}),
        (
            ("Problem", "Ground Truth", "IMAGE-PATH"),
            {"question": "Problem", "answer": "Ground Truth", "media": "IMAGE-PATH"},
        ),
        (("question", "prompt"), {"question": "question"}),
        (("options", "uid", "Dataset"), {"choices": "options", "id": "uid", "source": "Dataset"}),
        (("prompt", "picture", "truth"), {"question": "prompt", "media": "picture", "answer": "truth"}),
        (("hash", "width"), {}),
        ((), {}),
    ],
)
def test_columns_are_guessed_by_their_names(columns: tuple[str, ...], guessed: dict[str, str]) -> None:
    assert guess_columns(columns) == guessed


ASKED = {"picture": "a.png", "task": "How many cats are there?", "gold": "2", "collected_by": "ana"}


@pytest.mark.parametrize(
    ("rows", "question"),
    [
        ([ASKED] * 2 + [ASKED | {"task": "Count the cats."}], "task"),
        ([ASKED | {"task": "有几只猫？ "}], "task"),
        ([ASKED, ASKED | {"task": "Count the cats."}], None),
        ([ASKED | {"collected_by": "who?"}], None),
        ([ASKED | {"task": 7}], None),
        ([ASKED | {"gold": "a?", "task": "none"}], None),
        ([ASKED | {"query": "none"}], "query"),
        ([], None),
    ],
)
def test_a_question_without_a_known_name_is_found_by_its_values(rows: list[Row], question: str | None) -> None:
    columns = {*ASKED, *(rows[0] if rows else ())}
    guessed = guess_columns(columns, rows)
    assert guessed.get("question") == question
    assert (guessed["media"], guessed["answer"]) == ("picture", "gold")
    assert unused_columns(columns, rows) == sorted(columns - {"picture", "gold", question})


@pytest.mark.parametrize(
    ("columns", "rows", "are_rows", "missing"),
    [
        (OWN, RowSettings(), False, []),
        (("Query", "label", "image"), RowSettings(), True, ["question", "answer", "source", "license"]),
        (("Query", "label", "image"), RowSettings(), False, ["question", "answer", "media", "id", "source", "license"]),
        (("Query", "label", "photo"), RowSettings(), True, ["question", "answer", "media", "source", "license"]),
        (("question", "answer", "media", "id"), RowSettings(constants={"source": "s", "license": "MIT"}), False, []),
        (
            ("q", "a", "media", "id", "source", "license"),
            RowSettings(columns={"question": "q", "answer": "a"}),
            False,
            [],
        ),
    ],
)
def test_what_is_missing(columns: tuple[str, ...], rows: RowSettings, are_rows: bool, missing: list[str]) -> None:
    assert missing_fields(columns, rows, are_rows) == missing


def test_the_block_maps_what_is_guessed_and_says_what_is_not() -> None:
    block = input_block(("Query", "image"), ("question", "answer", "media", "source", "license"), "shop")
    assert block[:4] == [
        "[input.columns]",
        'question = "Query"',
        '# answer = "…"  # no column has a similar name: write the right name here',
        'media = "image"',
    ]
    read = tomllib.loads("\n".join(block))
    assert read == {
        "input": {
            "columns": {"question": "Query", "media": "image"},
            "constants": {"source": "shop", "license": "unknown"},
        }
    }


@given(st.text(min_size=1).map(lambda text: f"{text} query"), st.text())
def test_any_name_is_written_as_toml(column: str, source: str) -> None:
    block = input_block((column, "Query"), ("question", "source"), source)
    assert tomllib.loads("\n".join(block))["input"]["constants"]["source"] == source


@pytest.mark.parametrize(
    ("columns", "unused", "suggested", "kept"),
    [
        (OWN, [], [], []),
        ((*OWN, "boxes", "answer_type"), [], [], []),
        (("question", "prompt", "image"), ["prompt"], [], ["prompt"]),
        (("Answer Type", "BBox", "day"), ["Answer Type", "BBox", "day"], ["answer_type", "boxes"], ["day"]),
        (tuple("abcd"), [*"abcd"], [], [*"abc"]),
        (("a.b", "type"), ["a.b", "type"], ["answer_type"], []),
    ],
)
def test_columns_that_are_not_used(
    columns: tuple[str, ...], unused: list[str], suggested: list[str], kept: list[str]
) -> None:
    assert unused_columns(columns) == unused
    lines = suggestions(unused)
    assert [line.split()[1] for line in lines] == suggested
    shown = [line.removeprefix("# ") for line in keep_lines(unused, lines)[1:]]
    assert tomllib.loads("\n".join(shown)).get("keep", []) == kept


@given(st.sets(st.text(min_size=1)))
def test_unused_columns_of_any_name_stay_in_their_comments(columns: set[str]) -> None:
    unused = unused_columns(columns)
    lines = suggestions(unused)
    assert tomllib.loads("\n".join([*keep_lines(unused, lines), *lines])) == {}


def test_a_missing_id_names_the_setting_that_numbers_the_records() -> None:
    [_, line] = input_block(("question",), ("id",), "shop")
    assert line.startswith('# id = "…"') and line.endswith("or set number_ids = true in [input]")
