"""Ingest: every record leaves once, as a draft or as a typed rejection, whatever the order of the lines."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to
from PIL import Image

from groundtrace.grading.input_record import parse_record
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, MediaRef, RawRecord
from groundtrace.stages.ingest_records import IngestRecords, assemble
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.stage import Reject
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.media import MediaRoots, MediaStore

from .matching import assert_that

GREY = Image.new("RGB", (60, 40), (211, 211, 211))


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of 60x40, stored with each EXIF orientation, and one that is not there."""
    made = tmp_path_factory.mktemp("data")
    (made / "a.png").write_bytes(encoded(GREY, "PNG"))
    for value in range(9):
        exif = Image.Exif()
        exif[274] = value
        (made / f"exif{value}.jpg").write_bytes(encoded(GREY, "JPEG", exif=exif))
    return made


def checked(folder: Path, name: str) -> MediaRef:
    found = check_medium(f"input:{name}", MediaStore(str(folder), str(folder)))
    assert found.ref is not None, found.detail
    return found.ref


def assembled(folder: Path, fields: dict[str, Any]) -> Draft | Reject:
    parsed = parse_record(RawRecord(1, json.dumps(fields)))
    store = MediaStore(str(folder), str(folder))
    try:
        return assemble(parsed, {uri: check_medium(uri, store) for uri in parsed.media})
    except Reject as why:
        return why


@pytest.mark.parametrize("value", range(9))
def test_boxes_are_in_upright_pixels(value: int, folder: Path, record: Callable[..., dict[str, Any]]) -> None:
    ref = checked(folder, f"exif{value}.jpg")
    turned = value >= 5
    assert (ref.width, ref.height) == ((40, 60) if turned else (60, 40))
    assert ref.orientation == max(value, 1)
    inside = [0, 0, 40, 60] if turned else [0, 0, 60, 40]
    outside = [0, 0, 60, 40] if turned else [0, 0, 40, 60]
    fine = assembled(folder, record(media=f"exif{value}.jpg", boxes=[{"label": "a", "bbox": inside}]))
    assert isinstance(fine, Draft)
    assert fine.question.gold_boxes == (Box("a", *map(float, inside)),)
    wrong = assembled(folder, record(media=f"exif{value}.jpg", boxes=[{"label": "a", "bbox": outside}]))
    assert isinstance(wrong, Reject)
    assert wrong.reason == "invalid_boxes"
    assert f"is outside the {ref.width}x{ref.height} image" in wrong.detail


CLIPPED = [
    ([-0.6, -0.4, 60.6, 40.4], (0.0, 0.0, 60.0, 40.0)),
    ([-0.61, 0, 5, 5], None),
    ([0, 0, 5, 40.41], None),
    ([60.1, 0, 60.5, 5], None),
    ([1000, 1000, 1001, 1001], None),
    ([59, 39, 60, 40], (59.0, 39.0, 60.0, 40.0)),
]


@pytest.mark.parametrize(("bbox", "kept"), CLIPPED)
def test_boxes_are_clipped_by_one_percent_at_most(
    bbox: list[float], kept: tuple[float, ...] | None, folder: Path, record: Callable[..., dict[str, Any]]
) -> None:
    found = assembled(folder, record(boxes=[{"label": "a", "bbox": bbox}]))
    if kept is None:
        assert isinstance(found, Reject)
        assert found.reason == "invalid_boxes"
    else:
        assert isinstance(found, Draft)
        assert found.question.gold_boxes == (Box("a", *kept),)


def test_choices_beside_a_declared_type_are_kept(folder: Path, record: Callable[..., dict[str, Any]]) -> None:
    found = assembled(folder, record(answer="3", answer_type="numeric", choices=["3", "4"]))
    assert isinstance(found, Draft)
    assert (found.question.choices, found.question.opened_choices) == (None, ("3", "4"))


@pytest.mark.parametrize(
    ("answers", "kept", "rejected"),
    [
        ([True, False], [("a", "yes"), ("b", "no")], []),
        ([2.5, float("nan")], [("a", "2.5")], [("b", "answer (column 'gold'): expected a text, got nan")]),
    ],
)
def test_answers_of_parquet_columns(
    answers: list[Any],
    kept: list[tuple[str, str]],
    rejected: list[tuple[str, str]],
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    check_stage: Callable[..., None],
) -> None:
    rows = [record(id=name, answer=..., gold=answer) for name, answer in zip("ab", answers, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    check_stage(
        IngestRecords(
            (Source("parquet", str(tmp_path / "rows.parquet")),),
            RowSettings(columns={"answer": "gold"}),
            MediaRoots(str(folder), str(tmp_path)),
        ),
        None,
        kept=kept,
        rejected=rejected,
        show=lambda draft: (draft.id, draft.question.answer),
        show_rejected=lambda found: (found.id, found.detail),
    )


def test_a_rejected_record_keeps_its_question_and_its_usable_media(
    folder: Path, tmp_path: Path, record: Callable[..., dict[str, Any]], check_stage: Callable[..., None]
) -> None:
    rows = [record(id="a", media=[record()["media"], "none.png"]), record(id="b"), record(id="b", question="Another?")]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    source = Source("jsonl", str(tmp_path / "rows.jsonl"))
    check_stage(
        IngestRecords((source,), RowSettings(), MediaRoots(str(folder), str(tmp_path))),
        None,
        kept=["b"],
        rejected=[("media_missing", True, 1), ("duplicate_id", True, 1)],
        show=lambda draft: draft.id,
        show_rejected=lambda found: (
            found.reason,
            bool(found.draft.question.question and found.draft.question.answer and found.draft.question.source),
            len(found.draft.question.media),
        ),
    )


def test_a_box_on_a_medium_that_is_not_there(folder: Path, record: Callable[..., dict[str, Any]]) -> None:
    found = assembled(folder, record(boxes=[{"label": "a", "bbox": [0, 0, 1, 1], "media_index": 1}]))
    assert isinstance(found, Reject)
    detail = "boxes: media_index (from 0) is 1, but the record has only 1 media"
    assert (found.reason, found.detail) == ("invalid_boxes", detail)


BROKEN = [({"media": [None]}, ""), ({"answer": None}, "answer"), ({"source": 7}, "source")]


@pytest.mark.parametrize(("change", "lost"), BROKEN)
def test_a_record_with_an_invalid_field_keeps_its_other_texts(
    change: dict[str, Any],
    lost: str,
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
    check_stage: Callable[..., None],
) -> None:
    whole = record(id="half")
    data = write_records(tmp_path, [whole | change])
    kept = [("" if name == lost else whole[name]) for name in ("question", "answer", "source", "license")]
    check_stage(
        IngestRecords(
            (Source("jsonl", str(data / "records.jsonl")),), RowSettings(), MediaRoots(str(folder), str(tmp_path))
        ),
        None,
        kept=[],
        rejected=[kept],
        show=lambda draft: draft.id,
        show_rejected=lambda found: [
            getattr(found.draft.question, name) for name in ("question", "answer", "source", "license")
        ],
    )


ROWS: list[dict[str, Any]] = [
    {"id": "once"},
    {"id": "twice", "answer": "1"},
    {"id": "twice", "answer": "2"},
    {"id": "thrice", "answer": "1"},
    {"id": "thrice", "answer": "1"},
    {"id": "thrice", "answer": "3"},
    {"id": "mixed", "answer": []},
    {"id": "mixed"},
    {"id": "broken", "choices": ["8", "9"]},
    {"id": "gone", "media": ["a.png", "gone.png"]},
    {"id": ...},
]


def ends(line_of: dict[int, int], winners: dict[str, str]) -> list[tuple[str, str]]:
    """The expected rejections of ROWS as (id, reason); ``line_of`` places each row, from 1."""
    found = [("broken", "answer_not_in_choices"), ("gone", "media_missing"), (f"line#{line_of[10]}", "invalid_record")]
    found.append((f"mixed#{line_of[6]}", "invalid_record"))
    for name in ("twice", "thrice"):
        rows = [index for index, row in enumerate(ROWS) if row["id"] == name]
        same = sorted((index for index in rows if ROWS[index]["answer"] == winners[name]), key=line_of.__getitem__)
        found += [(f"{name}#{line_of[index]}", "duplicate_id") for index in rows if index != same[0]]
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_repeated_ids_do_not_depend_on_the_order_of_lines(
    seed: int,
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
    check_stage: Callable[..., None],
) -> None:
    order = list(range(len(ROWS)))
    random.Random(seed).shuffle(order)
    data = write_records(tmp_path, [record(**ROWS[index]) for index in order])
    line_of = {index: line for line, index in enumerate(order, 1)}
    winners = {"twice": "2", "thrice": "3"}
    kept = [("once", "3"), ("mixed", "3"), *winners.items()]
    check_stage(
        IngestRecords(
            (Source("jsonl", str(data / "records.jsonl")),), RowSettings(), MediaRoots(str(folder), str(tmp_path))
        ),
        None,
        kept=kept,
        rejected=ends(line_of, winners),
        show=lambda draft: (draft.id, draft.question.answer),
        show_rejected=lambda found: (found.id, found.reason),
    )


TAKEN_NAMES = [
    ([{"id": "a"}, {"id": "a"}, {"id": "a#1", "answer": []}, {"id": "a#2", "answer": []}], ["a"]),
    ([{"id": "line#2", "answer": []}, {"id": ...}], []),
]


@pytest.mark.parametrize(("rows", "kept"), TAKEN_NAMES)
def test_rejections_never_share_a_name(
    rows: list[dict[str, Any]],
    kept: list[str],
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
) -> None:
    data = write_records(tmp_path, [record(**row) for row in rows])
    source, roots = Source("jsonl", str(data / "records.jsonl")), MediaRoots(str(folder), str(tmp_path))
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        found = pipeline | IngestRecords((source,), RowSettings(), roots)
        assert_that(found["kept"] | beam.Map(lambda draft: draft.id), equal_to(kept), label="Kept")
        names = found["rejected"] | "Names" >> beam.Map(lambda rejected: rejected.id)
        repeated = names | beam.combiners.Count.PerElement() | beam.Filter(lambda pair: pair[1] > 1)
        assert_that(repeated, equal_to([]), label="Repeated")
        assert_that(names | beam.combiners.Count.Globally(), equal_to([len(rows) - len(kept)]), label="All")


def test_a_limit_keeps_the_first_records(
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
    check_stage: Callable[..., None],
) -> None:
    data = write_records(tmp_path, [record(id=name) for name in "abcd"])
    source, roots = Source("jsonl", str(data / "records.jsonl")), MediaRoots(str(folder), str(tmp_path))
    check_stage(IngestRecords((source,), RowSettings(), roots, limit=2), None, kept=["a", "b"], rejected=[])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_a_limit_counts_over_all_sources(
    limit: int,
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    check_stage: Callable[..., None],
) -> None:
    sources = []
    for first, names in ((1, "ab"), (3, "cd")):
        file = tmp_path / f"{first}.parquet"
        pq.write_table(pa.Table.from_pylist([record(id=name) for name in names]), file)
        sources.append(Source("parquet", str(file), first))
    roots = MediaRoots(str(folder), str(tmp_path))
    kept = list("abcd"[:limit])
    check_stage(IngestRecords(tuple(sources), RowSettings(), roots, limit), None, kept=kept, rejected=[])


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ValueError, match="IngestRecords has no sources: pass the sources"):
        IngestRecords((), RowSettings(), MediaRoots("", ""))
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        IngestRecords((Source("jsonl", "x"),), RowSettings(), MediaRoots("", ""), limit=0)


def test_every_end_says_what_its_record_brought(
    tmp_path: Path, record: Callable[..., dict[str, Any]], write_records: Callable[..., Path],
    write_scene: Callable[..., Path],
) -> None:  # fmt: skip
    """Drafts and rejections alike, also where the record could not be read as one."""
    write_scene(tmp_path / "a.png")
    lines: list[Any] = [
        record(id="kept", media="a.png", by="Ann"),
        record(id="kept", media="a.png", by="Bob"),
        record(id="gone", media=["gone.png"], by="Cy"),
        record(id="silent", media="a.png", by="Di", question=""),
        record(id="", media="a.png", by="Ed"),
        b"{not json",
    ]
    source = Source("jsonl", str(write_records(tmp_path, lines) / "records.jsonl"))
    roots = MediaRoots(str(tmp_path), str(tmp_path / "run"))
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        found = pipeline | IngestRecords((source,), RowSettings(keep=("by",)), roots)
        drafts = found["kept"] | "Drafts" >> beam.Map(lambda draft: draft.question.origin)
        ends = (drafts, found["rejected"] | "Rejected" >> beam.Map(lambda end: end.origin)) | beam.Flatten()
        told = ends | beam.Map(lambda origin: ("".join(value.plain for value in origin.kept), origin.media_names))
        a = ("a.png",)
        expected = [("Ann", a), ("Bob", a), ("Cy", ("gone.png",)), ("Di", a), ("Ed", a), ("", ())]
        assert_that(told, equal_to(expected))


@pytest.mark.parametrize("may_lack_question", [False, True])
def test_images_without_a_question_are_kept_only_where_questions_are_written(
    may_lack_question: bool,
    folder: Path,
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
    check_stage: Callable[..., None],
) -> None:
    bare: dict[str, Any] = {"question": ..., "answer": ...}
    rows = [record(id="asked"), record(id="image", **bare), record(id="half", answer=...)]
    rows += [record(id="gone", media="gone.png", **bare), record(id="image", **bare)]
    source = Source("jsonl", str(write_records(tmp_path, rows) / "records.jsonl"))
    stage = IngestRecords(
        (source,), RowSettings(), MediaRoots(str(folder), str(tmp_path)), may_lack_question=may_lack_question
    )
    invalid = [(name, "invalid_record") for name in ("half", "gone", "image#2", "image#5")]
    lost = [("half", "invalid_record"), ("gone", "media_missing"), ("image#5", "duplicate_id")]
    check_stage(
        stage,
        None,
        kept=["asked", "image"] if may_lack_question else ["asked"],
        rejected=lost if may_lack_question else invalid,
        show_rejected=lambda found: (found.id, found.reason),
    )
