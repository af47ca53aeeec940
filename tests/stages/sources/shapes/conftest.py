"""Records of rows in a shape, as a run reads them from a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.sources.registry import format_of, read_source
from groundtrace.vision.media import MediaStore


@pytest.fixture
def records(tmp_path: Path) -> Callable[..., list[Any]]:
    """What each record of a file is: the valid record, or the line that says what is wrong with it."""

    def read(path: Path, **settings: Any) -> list[Any]:
        rows = RowSettings(**{"constants": {"source": "made", "license": "CC0-1.0"}} | settings)
        found = find_input(str(path), rows)
        store = MediaStore(found.media_root, str(tmp_path / "run"))
        given: list[Any] = []
        for source in found.sources:
            raws = list(read_source(source, rows, store))
            assert format_of(source).count(source) == len(raws)
            assert [raw.number for raw in raws] == list(range(source.first_number, source.first_number + len(raws)))
            for raw in raws:
                try:
                    given.append(parse_record(raw))
                except InvalidRecord as error:
                    given.append(f"{error.record_id}: {error.detail}")
        return given

    return read


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[..., Path]:
    """An array in a .json file, or lines in a .jsonl file."""

    def write(name: str, rows: list[Any]) -> Path:
        path = tmp_path / name
        lines = "\n".join(json.dumps(row) for row in rows)
        path.write_text(json.dumps(rows, indent=1) if path.suffix == ".json" else lines, "utf-8")
        return path

    return write
