"""One record as a view shows it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import SHARDS, InspectError
from groundtrace.publishing.view.audit_routes import _without_verdicts
from groundtrace.publishing.view.filters import Filters, read_filters
from groundtrace.publishing.view.images import THUMBNAIL_SIDE_PX, NoImage, RowImages
from groundtrace.publishing.view.record import NO_INPUT_ROW, record_of, traces_of
from groundtrace.publishing.view.rows import RowPlace, ViewedRows
from groundtrace.vision.decode import decode_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

from .viewed import image, sft_row, write_run

TRACE = (
    '<think>A <points x1="10" y1="12" x2="20" y2="22" alt="cat">cat</points> in <box>[1, 2, 30, 28]</box>'
    " &lt;b&gt;<b>bold</b></think><answer>2</answer>"
)


def opened(folder: Path, input_root: Path | None = None) -> tuple[ViewedRows, RowImages]:
    rows = ViewedRows(folder)
    return rows, RowImages(MediaStore(str(input_root or folder), str(folder), cache_bytes=0))


def place(rows: ViewedRows, row_id: str) -> RowPlace:
    n = rows.number_of(row_id)
    found = None if n is None else rows.place_of(n)
    assert found is not None
    return found


def shown(folder: Path, row_id: str, input_root: Path | None = None) -> dict[str, Any]:
    rows, images = opened(folder, input_root)
    return record_of(place(rows, row_id), images)


def test_the_trace_is_in_parts_whose_marks_have_the_numbers_of_its_text(run: Path, tmp_path: Path) -> None:
    gold = [{"label": "cat", "x1": 5.0, "y1": 6.0, "x2": 15.0, "y2": 16.0, "media_index": 0}]
    made = sft_row("one", trace=TRACE, gold_boxes=gold, scores={"spatial": 0.5, "final": 0.75})
    record = shown(write_run(tmp_path / "run", run, {"sft": [made]}), "one")
    (trace,) = record["traces"]
    marks = [(mark["kind"], mark["n"]) for mark in trace["marks"]]
    assert marks == [("point", 1), ("point", 2), ("box", 1)]
    assert (trace["marks"][1]["x"], trace["marks"][1]["y"]) == (20.0, 22.0)
    numbered = [(p["kind"], [m["n"] for m in p["marks"]]) for p in trace["parts"] if p["marks"]]
    assert numbered == [("points", [1, 2]), ("box", [1])]
    assert "".join(p["text"] for p in trace["parts"] if p["kind"] == "text").count("&lt;b&gt;") == 1
    assert (trace["score"], [(v["name"], v["value"]) for v in trace["verdicts"]][:2]) == (
        0.75,
        [("outcome", None), ("spatial", 0.5)],
    )
    assert record["gold"] == [{"n": 1, "kind": "box", "frame": None, **gold[0]}]
    assert [each["caption"] for each in record["images"]] == ["original 1"]
    assert [each["role"] for each in trace["prompt"]] == ["user"]


def test_a_shard_that_is_cut_off_in_its_place_is_an_error(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row(name, trace=TRACE) for name in ("one", "two")]})
    rows, images = opened(folder)
    where = place(rows, "two")
    assert images.thumbnail(where)
    with where.file.open("r+b") as stream:
        stream.truncate(8)
    with pytest.raises(InspectError, match="reload the page or repeat the command"):
        images.values(where, ["images"])


def test_equal_traces_are_one_item() -> None:
    traces = [("b", 0.5), ("a", 1.0), ("b", 0.5), ("c", None), ("a", 1.0), ("a", 1.0)]
    row = {"traces": [{"text": text, "answer": "1", "score": score, "verdicts": None} for text, score in traces]}
    assert [(each["score"], each["count"]) for each in traces_of(row)] == [(1.0, 3), (0.5, 2), (None, 1)]
    kept = sft_row("one", trace="a", scores={"final": 1.0}) | {"other_traces": row["traces"][1:]}
    assert [(each["score"], each["count"]) for each in traces_of(kept)] == [(1.0, 4), (0.5, 1), (None, 1)]


def test_points_that_miss_their_objects_are_marked(run: Path, tmp_path: Path) -> None:
    views = [
        {"number": 1, "x": 10.0, "y": 12.0, "media_index": 0, "frame": None, "on": True},
        {"number": 2, "x": 20.0, "y": 22.0, "media_index": 0, "frame": None, "on": False},
    ]
    odd = ["no JSON", "[1]", '{"on": false}', '{"on": false, "x": [1], "y": {}, "media_index": 0}', None, "[" * 100_000]
    evidence = [*map(json.dumps, views), *odd]
    verdict = {"name": "spatial", "value": 0.5, "failed": False, "reason": "", "evidence": evidence}
    plain = {"name": "outcome", "value": 1.0, "failed": False, "reason": "", "evidence": None}
    rows = [
        sft_row("one", trace=TRACE, verdicts=[verdict, plain, plain | {"name": None}]),
        sft_row("two", trace=TRACE),
    ]
    folder = write_run(tmp_path / "run", run, {"sft": rows})
    marks = shown(folder, "one")["traces"][0]["marks"]
    assert [(mark["kind"], mark["n"], mark["off"]) for mark in marks] == [
        ("point", 1, False),
        ("point", 2, True),
        ("box", 1, False),
    ]
    assert not any(mark["off"] for mark in shown(folder, "two")["traces"][0]["marks"])


def test_points_for_which_a_trace_was_rejected_are_marked(run: Path, tmp_path: Path) -> None:
    view = json.dumps({"x": 20.0, "y": 22.0, "media_index": 0, "frame": None, "on": False})
    traces = [tried(TRACE, score, verdict("spatial", value)) for score, value in ((0.2, 0.5), (0.1, 1.0))]
    traces[1]["text"] += " again"
    traces[0]["verdicts"][0]["evidence"] = [view]
    lost = {"id": "lost", "stage": "verify", "reason": "low_grounding", "question": "Why?", "traces": traces}
    folder = write_run(tmp_path / "run", run, {"rejected": [lost]})
    marks = [[mark["off"] for mark in trace["marks"]] for trace in shown(folder, "lost")["traces"]]
    assert marks == [[False, True, False], [False, False, False]]


def test_the_names_of_media_are_facts(run: Path, tmp_path: Path) -> None:
    lost = {"id": "lost", "stage": "ingest", "reason": "r", "question": "Why?", "media_names": ["pics/Dog.png", ""]}
    lost["input_row"] = "a.csv, line 7"
    rows = {"sft": [sft_row("one", media_names=["pics/cat.png"])], "rejected": [lost]}
    folder = write_run(tmp_path / "run", run, rows)
    assert ("input row", "a.csv, line 7") in shown(folder, "lost")["facts"]
    assert dict(shown(folder, "one")["facts"])["input row"] == NO_INPUT_ROW
    assert ("media", "pics/cat.png") in shown(folder, "one")["facts"]
    assert ("media", "pics/Dog.png") in shown(folder, "lost")["facts"]


def verdict(name: str, value: float | None, failed: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "failed": failed, "reason": ""}


def tried(text: str, score: float | None, *verdicts: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "answer": "1", "score": score, "verdicts": list(verdicts)}


WRONG = tried("wrong", 0.0, verdict("outcome", 0.0))
UNGRADED = tried("ungraded", None, verdict("outcome", None))
LOW = tried("low", 0.5, verdict("outcome", 1.0), verdict("spatial", 0.25), verdict("counting", None))
LOWER = tried("lower", 0.25, verdict("outcome", 1.0), verdict("spatial", 0.0))
UNCHECKED = tried("unchecked", None, verdict("outcome", 1.0), verdict("spatial", None, failed=True))


@pytest.mark.parametrize(
    ("reason", "by", "traces", "rejecting"),
    [
        ("low_grounding", "spatial", [UNCHECKED, WRONG, LOWER, LOW], [("low", "spatial")]),
        ("wrong_answer", "outcome", [WRONG, UNGRADED], [("wrong", "outcome")]),
        ("unverifiable", "spatial", [WRONG, UNCHECKED], [("unchecked", "spatial")]),
        ("unverifiable", "outcome", [UNGRADED], [("ungraded", "outcome")]),
        ("low_grounding", None, [LOW], []),
        ("low_grounding", "no_such_scorer", [LOW], []),
        ("call_failed", None, None, []),
    ],
)
def test_the_verdict_that_rejected_a_record_is_marked(
    reason: str, by: str | None, traces: list[Any] | None, rejecting: list[tuple[str, str]], run: Path, tmp_path: Path
) -> None:
    row = {"id": "no", "stage": "verify", "reason": reason, "rejected_by": by, "media": [], "traces": traces}
    record = shown(write_run(tmp_path / "run", run, {"rejected": [row]}), "no")
    assert [
        (trace["parts"][0]["text"], each["name"])
        for trace in record["traces"]
        for each in trace["verdicts"]
        if each.get("rejects")
    ] == rejecting


def test_the_points_of_the_pointer_are_those_of_a_rejected_record(run: Path, tmp_path: Path) -> None:
    point = {"label": "cat", "x": 3.0, "y": 4.0, "media_index": 0, "frame": None, "t_s": None}
    rejected = {"id": "no", "stage": "verify", "reason": "low_score", "media": [], "points": [point]}
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("one", points=[point])], "rejected": [rejected]})
    assert shown(folder, "no")["pointed"] == [{"n": 1, "kind": "point", **point}]
    assert shown(folder, "one")["pointed"] == []


def test_images_of_code_follow_those_of_the_question(run: Path, tmp_path: Path) -> None:
    turns = [
        {"text": "I look.", "code": "show(crop)", "status": "ok", "output": "done", "images": 2},
        {"text": "<answer>1</answer>", "code": "", "status": "", "output": "", "images": 0},
    ]
    images = [{"bytes": image(value=value), "path": f"{value}.png"} for value in (10, 20, 30)]
    made = sft_row("turns", images=images, turns=turns)
    record = shown(write_run(tmp_path / "run", run, {"sft": [made]}, turns=True), "turns")
    assert [each["kind"] for each in record["images"]] == ["original", "code", "code"]
    assert [(each["code"], each["status"], each["images"]) for each in record["turns"]] == [
        ("show(crop)", "ok", 2),
        ("", "", 0),
    ]


def test_points_and_boxes_are_numbered_over_all_turns(run: Path, tmp_path: Path) -> None:
    point = '<points x1="{x}" y1="4" alt="cat">cat</points>'
    texts = (point.format(x=3) + " <box>[1, 2, 3, 4]</box>", "<box>[5, 6, 7, 8]</box>" + point.format(x=9))
    turns = [{"text": text, "code": "1", "status": "ok", "output": "", "images": 0} for text in texts]
    off = {"name": "spatial", "value": 0.5, "failed": False, "reason": "", "evidence": []}
    off["evidence"] = [json.dumps({"media_index": 0, "frame": None, "x": 9.0, "y": 4.0, "on": False})]
    made = sft_row("turns", turns=turns, verdicts=[off])
    record = shown(write_run(tmp_path / "run", run, {"sft": [made]}, turns=True), "turns")
    marks = [[(each["kind"], each["n"], each["off"]) for each in turn["marks"]] for turn in record["turns"]]
    assert marks == [[("point", 1, False), ("box", 1, False)], [("point", 2, True), ("box", 2, False)]]
    parts = [[each["n"] for part in turn["parts"] for each in part["marks"]] for turn in record["turns"]]
    assert parts == [[1, 1], [2, 2]]
    blind = json.dumps(_without_verdicts(record))
    assert '"n": 2' in blind and '"off"' not in blind, "a reviewer of an audit must not see the verdicts"


def test_frames_of_a_clip_have_their_times(run: Path, tmp_path: Path) -> None:
    images = [{"bytes": image(value=value), "path": f"{value}.png"} for value in (10, 20)]
    frames = [{"media_index": 0, "frame": each, "t_s": each / 2} for each in (0, 3)]
    record = shown(write_run(tmp_path / "run", run, {"sft": [sft_row("c", images=images, frames=frames)]}), "c")
    assert [(each["kind"], each["frame"], each.get("t_s")) for each in record["images"]] == [
        ("frame", 0, 0.0),
        ("frame", 3, 1.5),
    ]


def test_every_row_of_a_real_run_can_be_shown(run: Path, rows: ViewedRows) -> None:
    images = RowImages(MediaStore(rows.summary.input, str(run), cache_bytes=0))
    for row_id in rows.ids(Filters()):
        found = place(rows, row_id)
        record = record_of(found, images)
        assert record["id"] == row_id and record["question"] and record["images"]
        kind, data = images.original(found, record["images"][0]["column"], 0)
        assert kind == "image/png" and decode_image(data).pixels.size


def test_thumbnails_are_small_and_of_the_right_row(run: Path, tmp_path: Path) -> None:
    made = [sft_row(f"r{n}", images=[{"bytes": image(600, 300, value=n * 20), "path": f"{n}.png"}]) for n in range(10)]
    rows, images = opened(write_run(tmp_path / "run", run, {"sft": made}))
    for number in range(10):
        kind, data = images.thumbnail(place(rows, f"r{number}"))
        pixels = decode_image(data).pixels
        assert kind == "image/jpeg" and pixels.shape[:2] == (THUMBNAIL_SIDE_PX // 2, THUMBNAIL_SIDE_PX)
        assert abs(int(pixels[0, 0, 0]) - number * 20) <= 4


@pytest.mark.parametrize(
    ("media", "message"),
    [
        ([], "the record has only 0 media"),
        ([{"uri": "input:gone.png", "sha256": "", "width": 1, "height": 1}], "cannot read the file of the image"),
        ([{"uri": "input:../secret", "sha256": "", "width": 1, "height": 1}], "cannot read the file of the image"),
        ([{"uri": "/etc/hostname", "sha256": "", "width": 1, "height": 1}], "cannot read the file of the image"),
        (
            [{"uri": "input:broken.png", "sha256": sha256_bytes(image()[:50]), "width": 1, "height": 1}],
            "cannot be decoded",
        ),
        ([{"uri": "input:a.png", "sha256": "", "width": 1, "height": 1}], "is not the file that the run read: restore"),
        ([{"uri": "input:a.png", "sha256": None, "width": 1, "height": 1}], "is not the file that the run read"),
        ([{"uri": "input:a.png", "sha256": sha256_bytes(b"")}], "is not the file that the run read"),
    ],
)
def test_an_image_that_cannot_be_shown_has_a_reason(
    run: Path, tmp_path: Path, media: list[dict[str, object]], message: str
) -> None:
    (tmp_path / "secret").write_bytes(image())
    data = tmp_path / "data"
    data.mkdir()
    (data / "broken.png").write_bytes(image()[:50])
    (data / "a.png").write_bytes(image())
    made = {"id": "r", "stage": "ingest", "reason": "undecodable_media", "media": media}
    rows, images = opened(write_run(tmp_path / "run", run, {"rejected": [made]}), data)
    with pytest.raises(NoImage, match=message):
        images.thumbnail(place(rows, "r"))


def test_a_run_that_was_repeated_meanwhile_is_noticed(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("a"), sft_row("b")]})
    rows, images = opened(folder)
    found = place(rows, "b")
    write_run(tmp_path / "other", run, {"sft": [sft_row("a")]})
    (tmp_path / "other/sft/train-00000-of-00001.parquet").replace(folder / "sft/train-00000-of-00001.parquet")
    with pytest.raises(InspectError, match="the run may have been repeated"):
        record_of(found, images)


def test_filters_apply_to_the_rows_that_are_shown(rows: ViewedRows) -> None:
    filters = read_filters([("set", "rl")], rows.dimensions)
    assert all(place(rows, each).set == "rl" for each in rows.ids(filters))


@pytest.mark.parametrize("image", [None, {"bytes": None, "path": "/home/user/private.png"}])
def test_an_image_without_bytes_is_missing(image: dict[str, Any] | None, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    schema = pa.schema([SHARDS["sft"].field("images")])
    pq.write_table(pa.Table.from_pylist([{"images": [image]}], schema), file)
    images = RowImages(MediaStore(str(tmp_path), str(tmp_path), cache_bytes=0))
    with pytest.raises(NoImage, match="has no bytes"):
        images.original(RowPlace("sft", file, 0), "images", 0)
