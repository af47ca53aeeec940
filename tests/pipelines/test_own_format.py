"""A further input format takes one file and one line: tab-separated values, from `--input` to the rows of a run."""

import csv
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.plan.inputs import InputError, find_input
from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources import registry
from groundtrace.stages.sources.base import Format, Input, NothingHere, RowSettings, Source
from groundtrace.stages.sources.rows import row_records
from groundtrace.vision.media import MediaStore


class Psv(Format):
    """A .psv file with a header; media are paths from its folder."""

    name = "psv"

    def find(self, name: str, path: Path, rows: RowSettings) -> Input:
        if not (path.is_file() and path.suffix == ".psv"):
            raise NothingHere("no .psv file")
        with path.open(encoding="utf-8", newline="") as stream:
            columns = frozenset(next(csv.reader(stream, delimiter="|"), ()))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return Input(name, (Source(self.name, str(path)),), str(path.parent), digest, columns)

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        with Path(source.path).open(encoding="utf-8", newline="") as stream:
            yield from row_records(csv.DictReader(stream, delimiter="|"), source, rows, store)

    def count(self, source: Source) -> int:
        with Path(source.path).open(encoding="utf-8", newline="") as stream:
            return sum(1 for _ in csv.DictReader(stream, delimiter="|"))

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        with Path(source.path).open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream, delimiter="|"):
                yield row[rows.columns.get("media", "media")]


@pytest.fixture
def with_psv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(registry.FORMATS, "ours", {"psv": Psv(), **registry.FORMATS.ours})


@pytest.fixture
def questions(tmp_path: Path, write_scene: Callable[..., Path]) -> Path:
    """Three questions, one of them on an image that is not there."""
    write_scene(tmp_path / "data/a.png")
    lines = ["query|gold|media", "How many squares are there?|3|a.png", "How many red squares are there?|1|a.png"]
    (tmp_path / "data/q.psv").write_text("\n".join([*lines, "How many?|2|gone.png"]) + "\n")
    return tmp_path / "data/q.psv"


MAP = [word for name in ("question=query", "answer=gold") for word in ("--set", f"input.columns.{name}")]
MAP += ["--set", "input.constants.source=made", "--set", "input.constants.license=MIT"]


@pytest.mark.usefixtures("with_psv")
def test_a_run_over_another_format(questions: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    done = run_beam(questions, tmp_path / "run", *MAP)
    assert (done.code, done.err.count("beam: ")) == (0, 0)
    done.check_balance(3)
    assert set(done.ends) == {"row-1", "row-2", "row-3"}
    assert done.ends["row-3"] == "media_missing"
    [row] = [row for side in ("sft", "rl") for row in done.rows(side) if row["id"] == "row-1"]
    assert (row["question"], row["answer"], row["license"]) == ("How many squares are there?", "3", "MIT")
    again = run_beam(questions, tmp_path / "run", *MAP, "--limit", "2")
    again.check_refused(2, "holds a finished run of 3 records")


@pytest.mark.slow
@pytest.mark.usefixtures("with_psv")
def test_a_preview_counts_what_another_format_holds(
    questions: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    done = run_beam(questions, tmp_path / "look", *MAP, "--limit", "1", command="preview")
    assert done.code == 0
    assert "forecast for 3 records from 1" in done.out


@pytest.mark.usefixtures("with_psv")
def test_what_another_format_lacks_is_refused_in_the_same_words(questions: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'querry'; did you mean query\?"):
        find_input(str(questions), RowSettings(columns={"question": "querry"}))
    with pytest.raises(
        InputError,
        match=r"no \.psv file, no \.csv or \.tsv file, no records\.jsonl, no \.parquet file, and "
        "the name is not the id of a Hugging Face data set",
    ):
        find_input(str(questions.parent / "none.psv"))
