import io
import json
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.running.plan import sampling
from groundtrace.pipelines.running.plan.inputs import check_fields, fields_lacking, find_input
from groundtrace.pipelines.running.plan.sampling import Problem, RecordSample, sample_records
from groundtrace.stages.sources.base import InputError, RowSettings
from groundtrace.vision.media import MediaRoots

GOOD = {"source": "s", "license": "MIT", "media": "a.png", "question": "How many?", "answer": "2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    cv2.imwrite(str(tmp_path / "data/a.png"), np.full((20, 30, 3), 200, np.uint8))
    return tmp_path / "data"


def look(folder: Path, *records: dict[str, object]) -> RecordSample:
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    found = find_input(str(folder))
    return sample_records(found.sources, RowSettings(), MediaRoots(found.media_root, ""), None)


def test_records_are_read_checked_and_their_media_decoded(folder: Path) -> None:
    (folder / "bad.png").write_bytes(b"no picture")
    sample = look(
        folder,
        GOOD | {"id": "a"},
        GOOD | {"id": "b", "question": None},
        GOOD | {"id": "c", "question": None},
        GOOD | {"id": "d", "media": "gone.png"},
        GOOD | {"id": "e", "media": "bad.png"},
        GOOD | {"id": "a"},
    )
    assert sample.read == 6
    assert [(draft.id, draft.question.media[0].width) for draft in sample.drafts] == [("a", 30)]
    assert sample.problems[0] == Problem(
        "invalid_record",
        "question: the value is missing or empty",
        2,
        ("records.jsonl, line 2", "records.jsonl, line 3"),
    )
    others = {problem.reason: problem.where for problem in sample.problems[1:]}
    [repeated] = [problem.detail for problem in sample.problems if problem.reason == "duplicate_id"]
    assert (
        repeated
        == "'a' is also the id of records.jsonl, line 1: of the records read here, records.jsonl, line 1 keeps the id"
    )
    lines = {"media_missing": 4, "undecodable_media": 5, "duplicate_id": 6}
    assert others == {reason: f"records.jsonl, line {number}" for reason, number in lines.items()}


def test_of_two_records_with_one_id_the_one_is_named_that_a_run_keeps(folder: Path) -> None:
    pair = [GOOD | {"id": "a", "answer": "3"}, GOOD | {"id": "a", "answer": "4"}]
    kept = set()
    for records in (pair, pair[::-1]):
        sample = look(folder, *records)
        [draft], [problem] = sample.drafts, sample.problems
        kept.add(draft.question.answer)
        where = draft.question.origin.input_row
        assert problem.detail == f"'a' is also the id of {where}: of the records read here, {where} keeps the id"
        assert problem.places != (where,)
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("places", "text"),
    [
        (["a.csv, line 5"], "a.csv, line 5"),
        (["a.csv, line 5", "a.csv, line 9"], "a.csv, lines 5, 9"),
        ([f"a, b.csv, line {n}" for n in range(1, 14)], "a, b.csv, lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more"),
        (["a.csv, line 5", "b.json, entry 2", "a.csv, line 7"], "a.csv, lines 5, 7; b.json, entry 2"),
        (["a.parquet, row 3", "a.parquet, row 3", "cat.png"], "a.parquet, row 3; cat.png"),
        ([f"{n}.png" for n in range(11)], "; ".join(f"{n}.png" for n in range(10)) + " and 1 more"),
    ],
)
def test_the_places_of_a_problem_are_short(places: list[str], text: str) -> None:
    assert Problem("invalid_record", "a detail", len(places), tuple(places)).where == text


@pytest.mark.parametrize(
    ("bounds", "read"),
    [
        ({}, 80),
        ({"MAX_RECORDS": 60}, 60),
        ({"MAX_READ_S": -1.0}, sampling.MIN_RECORDS),
    ],
)
def test_all_records_are_read_up_to_a_number_and_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, float], read: int
) -> None:
    for name, value in bounds.items():
        monkeypatch.setattr(sampling, name, value)
    records = [GOOD | {"id": f"q{n}"} for n in range(79)]
    sample = look(folder, *records, GOOD | {"id": "q7"})
    assert (sample.read, len(sample.drafts)) == (read, min(read, 79))
    assert [problem.reason for problem in sample.problems] == (["duplicate_id"] if read == 80 else [])


def test_nothing_is_left_behind(folder: Path) -> None:
    look(folder, GOOD | {"id": "a"})
    assert sorted(path.name for path in folder.parent.rglob("*")) == ["a.png", "data", "records.jsonl"]


def image_rows(form: str, folder: Path, image: bytes) -> tuple[str, RowSettings]:
    """An input of one image without a question, and the settings to read it."""
    constants = {"source": "made", "license": "CC0-1.0"}
    if form == "folder":
        (folder / "a.png").write_bytes(image)
        return str(folder), RowSettings()
    if form == "jsonl":
        (folder / "a.png").write_bytes(image)
        (folder / "records.jsonl").write_text('{"id": "a", "media": "a.png"}\n')
        return str(folder), RowSettings(constants=constants)
    if form == "parquet":
        pq.write_table(pa.table({"image": [{"bytes": image, "path": "a.png"}]}), folder / "x.parquet")
        return str(folder), RowSettings(constants=constants)
    with tarfile.open(folder / "train-0.tar", "w") as archive:
        member = tarfile.TarInfo("a.png")
        member.size = len(image)
        archive.addfile(member, io.BytesIO(image))
    return str(folder), RowSettings(columns={"media": "png", "id": "__key__"}, constants=constants)


@pytest.mark.parametrize("form", ["folder", "jsonl", "parquet", "webdataset"])
def test_images_without_questions_are_read_from_every_format(form: str, tmp_path: Path, folder: Path) -> None:
    image = (folder / "a.png").read_bytes()
    (folder / "a.png").unlink()
    name, rows = image_rows(form, folder, image)
    found = find_input(name, rows, may_lack_questions=True)
    assert fields_lacking(found, rows, may_lack_questions=True) == []
    check_fields(found, rows, may_lack_questions=True)
    roots = MediaRoots(found.media_root, str(tmp_path / "run"))
    [draft] = sample_records(found.sources, rows, roots, None, may_lack_question=True).drafts
    assert not draft.question.is_asked
    assert len(draft.question.media) == 1
    sample = sample_records(found.sources, rows, roots, None)
    assert [(problem.reason, problem.detail.split(":")[0]) for problem in sample.problems] == [
        ("invalid_record", "question")
    ]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_else_an_input_lacks_is_still_named(form: str, folder: Path) -> None:
    image = (folder / "a.png").read_bytes()
    (folder / "a.png").unlink()
    name, _ = image_rows(form, folder, image)
    found = find_input(name, may_lack_questions=True)
    assert fields_lacking(found, RowSettings(), may_lack_questions=True) == ["source", "license"]
    with pytest.raises(InputError, match="has no column for source, license"):
        check_fields(found, RowSettings(), may_lack_questions=True)
    with pytest.raises(InputError):
        check_fields(found, RowSettings())
