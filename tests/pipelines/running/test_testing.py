"""The functions for tests of a user's own stage."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.testing import make_draft, make_models, run_stage
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Draft
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Route, Stage
from groundtrace.vision.media import MediaRoots

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "data/sample"
ASKED = {"question": "How many?", "answer": "1", "answer_type": "numeric"}


def sort(draft: Draft) -> Draft | Route:
    if draft.id == "a":
        raise Reject("first", "it is the first")
    if draft.id == "c":
        raise ValueError("no c")
    return Route("aside", draft) if draft.id == "b" else draft


class SortDrafts(DraftStage):
    stage = Stage("sort", "drafts are sorted", reasons={"first": "it is the first"})
    routes = ("aside",)

    def work(self) -> Any:
        return sort


def drafts_of(folder: Path, ids: str) -> list[Draft]:
    (folder / "a.png").write_bytes((SAMPLE / "images/dev-1226-1-0.png").read_bytes())
    return [make_draft({"id": name, "media": ["a.png"], **ASKED}, folder) for name in ids]


def test_a_draft_is_that_of_the_record(tmp_path: Path) -> None:
    [draft] = drafts_of(tmp_path, "d")
    [medium] = draft.question.media
    assert (medium.uri, draft.question.answer, draft.question.source) == ("input:a.png", "1", "test")
    assert min(medium.width, medium.height) > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"media": ["b.png"]}, "no such file: 'input:b.png'"),
        ({"answer": ""}, "answer"),
        ({"answer_type": "angel"}, "answer_type"),
        ({"boxes": [{"label": "x", "bbox": [0, 0, 9000, 9]}]}, "is outside the"),
    ],
)
def test_a_record_that_ingest_rejects_is_an_error(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    drafts_of(tmp_path, "d")
    with pytest.raises(
        UserError, match=rf"make_draft\(\) cannot use the record or one of its media \(.*{said}.*\): correct the record"
    ):
        make_draft({"media": ["a.png"], **ASKED, **change}, tmp_path)


def test_each_output_of_a_stage_is_returned_in_the_order_of_the_ids(tmp_path: Path) -> None:
    outputs = run_stage(SortDrafts(), drafts_of(tmp_path, "edba"))
    assert {name: [each.id for each in found] for name, found in outputs.items()} == {
        "kept": ["d", "e"],
        "rejected": ["a"],
        "aside": ["b"],
    }
    assert outputs["rejected"][0].reason == "first"
    assert run_stage(SortDrafts(), []) == {"kept": [], "rejected": [], "aside": []}


def test_an_error_of_the_stage_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no c$"):
        run_stage(SortDrafts(), drafts_of(tmp_path, "cd"))


def test_a_stage_that_calls_models_has_the_embedded_engine(tmp_path: Path) -> None:
    stage = AttemptQuestions(AttemptSettings(k=4), make_models(MediaRoots(str(SAMPLE), str(tmp_path))))
    record = json.loads((SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[0])
    [attempted] = run_stage(stage, [make_draft(record, SAMPLE)])["kept"]
    assert len(attempted.attempts) == 4
    assert "policy" in {call.role for call in attempted.calls}
