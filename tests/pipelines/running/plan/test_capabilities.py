"""What endpoints can do beside what an input and a recipe ask of them."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.dual_stream import RECIPE as DUAL_STREAM
from groundtrace.pipelines.grounded_cot import RECIPE
from groundtrace.pipelines.running.plan.capabilities import (
    SCANNED_RECORDS,
    AnswerScan,
    MediaScan,
    check_capabilities,
    check_judge,
    scan_answers,
    scan_media,
)
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import RowSettings, Source
from tests.wired import default_stages

STAGES = default_stages(RECIPE)

ABLE = EndpointSettings("openai", "m", base_url="http://127.0.0.1:9/v1", video=True)
ROLES = ("policy", "teacher", "pointer", "judge", "detector", "segmenter")
ONE, TWO, FILM = MediaScan(9, 1, 0), MediaScan(9, 2, 0), MediaScan(9, 1, 3)


def test_the_media_of_lines(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"media": "a.png"}, {"media": ["a.png", "b.png", "c.MP4"]}, {"media": "clip.webm"}, {"id": 1}, [1], "x",
        {"media": None}, {"media": [1, None]},
    ]  # fmt: skip
    lines = [*(json.dumps(row).encode() for row in rows), b"\xff{", b"", b"[" * 100_000]
    (tmp_path / "records.jsonl").write_bytes(b"\n".join(lines))
    sources = [Source("jsonl", str(tmp_path / "records.jsonl"))]
    assert scan_media(sources, RowSettings()) == MediaScan(records=4, most_media=3, videos=2)
    assert scan_media(sources, RowSettings(columns={"media": "id"})) == MediaScan(1, 1, 0)
    assert scan_media(sources, RowSettings(), most_records=1) == MediaScan(1, 1, 0)
    assert scan_media([Source("datasets", "org/name")], RowSettings()) == MediaScan()


@pytest.mark.parametrize(
    ("column", "rows", "settings", "scan"),
    [
        ("media", ["a.png", "b.mov"], RowSettings(), MediaScan(2, 1, 1)),
        ("images", [[{"bytes": b"x", "path": "a.png"}] * 2, []], RowSettings(), MediaScan(2, 2, 0)),
        ("pictures", [["a.png", "b.png"]], RowSettings(columns={"media": "pictures"}), MediaScan(1, 2, 0)),
        ("other", ["a.png"], RowSettings(), MediaScan()),
    ],
)
def test_the_media_of_parquet(
    column: str, rows: list[Any], settings: RowSettings, scan: MediaScan, tmp_path: Path
) -> None:
    pq.write_table(pa.table({column: rows}), tmp_path / "a.parquet")
    assert scan_media([Source("parquet", str(tmp_path / "a.parquet"))], settings) == scan


@pytest.mark.parametrize(
    ("changes", "scan", "unable", "noted"),
    [
        ({}, TWO, [], []),
        ({"multi_image": False}, ONE, [], []),
        ({"multi_image": False}, TWO, ["judge", "policy", "teacher"], []),
        ({"video": False}, FILM, [], []),
        ({"multi_image": False}, FILM, ["judge", "policy", "teacher"], []),
        ({"structured_output": False}, TWO, [], ["detector", "judge", "segmenter", "teacher"]),
        ({"samples_per_request": 1, "logprobs": False}, TWO, [], []),
    ],
)
def test_what_an_endpoint_cannot_do(
    changes: dict[str, Any], scan: MediaScan, unable: list[str], noted: list[str]
) -> None:
    endpoints = tuple((role, replace(ABLE, **changes)) for role in ROLES)
    problems, notes = check_capabilities(
        STAGES, ModelsSettings(endpoints, tuple(zip(ROLES, ROLES, strict=True)), "c", "i", "r"), scan
    )
    assert [line.split()[0] for line in problems] == unable
    assert [line.split()[0] for line in notes] == noted


def test_roles_of_one_endpoint_are_told_together() -> None:
    models = ModelsSettings(
        (("e", replace(ABLE, multi_image=False)),), (("policy", "e"), ("pointer", "e")), "c", "i", "r"
    )
    [problem], notes = check_capabilities(STAGES, models, TWO)
    assert problem.startswith("e (policy) takes one image per request, but the input has records with 2;")
    assert notes == []


def test_clips_that_cannot_be_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModelsSettings((("e", ABLE),), (("policy", "e"),), "c", "i", "r")
    assert check_capabilities(STAGES, models, FILM)[0] == []
    monkeypatch.setitem(sys.modules, "molmo_utils", None)
    needs = "reading clips needs the extra video: pip install 'groundtrace[video]' (the module molmo_utils is not "
    needs += "installed)"
    assert check_capabilities(STAGES, models, FILM)[0] == [f"3 of the first 9 records have a clip, but {needs}"]
    assert check_capabilities(STAGES, models, TWO)[0] == []


ANSWERS: list[Any] = [
    {"answer": "sofa"},
    {"answer": "sofa", "answer_type": "text", "choices": None},
    {"answer": "sofa", "choices": ["sofa", "chair"]},
    {"answer": "sofa", "answer_type": "text", "choices": ["sofa", "chair"]},
    {"answer": "12 cm", "answer_type": "text"},
    {"answer": "seven", "answer_type": "text"},
    {"answer": "red, blue"},
    {"answer": "yes"},
    {"answer": "5"},
    {"answer": 5},
    {"answer": "sofa", "answer_type": "boxes"},
    {"answer": None},
    {"answer": ""},
    {},
]


def test_free_text_among_the_gold_answers(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in ANSWERS]
    (tmp_path / "records.jsonl").write_text("\n".join([*lines, "[1]", "{"]))
    sources = [Source("jsonl", str(tmp_path / "records.jsonl"))]
    assert scan_answers(sources, RowSettings()) == AnswerScan(14, 3)
    assert scan_answers(sources, RowSettings(), most_records=1) == AnswerScan(1, 1)
    assert scan_answers(sources, RowSettings(columns={"answer": "said"})) == AnswerScan(14, 0)
    assert scan_answers(sources, RowSettings(columns={"choices": "options"})) == AnswerScan(14, 4)
    assert scan_answers([Source("datasets", "org/name")], RowSettings()) == AnswerScan()


def test_free_text_in_parquet(tmp_path: Path) -> None:
    rows = [{"answer": "sofa", "choices": None, "image": b"x"}, {"answer": "sofa", "choices": ["sofa", "chair"]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    source = Source("parquet", str(tmp_path / "a.parquet"))
    assert scan_answers([source], RowSettings()) == AnswerScan(2, 1)
    assert scan_answers([source], RowSettings(constants={"answer_type": "mcq"})) == AnswerScan(2, 1)
    assert scan_answers([source], RowSettings(columns={"answer": "said"})) == AnswerScan(2, 0)


def test_free_text_without_a_judge() -> None:
    judged = ModelsSettings((("e", ABLE),), (("judge", "e"), ("policy", "e")), "c", "i", "r")
    alone = replace(judged, roles=(("policy", "e"),))
    embedded = replace(judged, endpoints=(("e", EndpointSettings("classical", "colour")),))
    assert check_judge(judged, AnswerScan(9, 9), STAGES) == ([], [])
    assert check_judge(alone, AnswerScan(9, 0), STAGES) == ([], [])
    for models, judge in ((alone, "names no endpoint"), (embedded, "is the embedded engine, which reads no prose")):
        said = (
            f"of the first 9 records would be rejected as ungradable by the stage attempt: their gold answers are free "
            f"text, and roles.judge {judge}; set roles.judge to a model, or remove these records"
        )
        assert check_judge(models, AnswerScan(9, 3), STAGES) == ([], [f"3 {said}"])
        assert check_judge(models, AnswerScan(9, 9), STAGES) == ([f"9 {said}"], [])
    assert check_judge(alone, AnswerScan(SCANNED_RECORDS, SCANNED_RECORDS), STAGES)[0] == []  # others may follow


def test_free_text_without_a_judge_where_only_a_part_of_the_records_is_graded() -> None:
    alone = ModelsSettings((("e", ABLE),), (("policy", "e"),), "c", "i", "r")
    [said] = check_judge(alone, AnswerScan(9, 9), default_stages(DUAL_STREAM))[1]
    assert said.startswith("9 of the first 9 records would be rejected as ungradable by the stage streams, if they ")


def test_free_text_without_a_judge_where_no_stage_rejects_it() -> None:
    alone = ModelsSettings((("e", ABLE),), (("policy", "e"),), "c", "i", "r")
    stages = StageList(tuple(stage for stage in STAGES if stage.name != "attempt"))
    noted = "9 of the first 9 records have free text as their gold answer, and no judge reads them: answers in other"
    assert check_judge(alone, AnswerScan(9, 9), stages) == (
        [],
        [f"{noted} words are unscored; set roles.judge to a model"],
    )
