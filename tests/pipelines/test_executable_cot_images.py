"""The whole DAG of executable reasoning on images without questions: a folder of them, and records of both kinds."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from tests.pipelines.test_executable_cot import SAMPLE, digests, rows

IMAGES = sorted((SAMPLE / "images").glob("*.png"))[:14]
WRITING = ("judge_image.v1", "write_question.v1", "ground_object.v1", "judge_pair.v1")

pytestmark = pytest.mark.sandbox


def run(data: Path, output: Path, *more: str) -> dict[str, Any]:
    assert cli.main(["run", "executable_cot", "--input", str(data), "--output", str(output), *more]) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def ends(output: Path) -> list[dict[str, Any]]:
    return [row for side in ("sft", "rl", "rejected") for row in rows(output, side)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, and a finished run over it with its cache."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "pictures/more").mkdir(parents=True)
    for image in IMAGES:
        shutil.copy(image, folder / "pictures" / ("more" if image.name < "dev-2" else "") / image.name)
    run(folder / "pictures", folder / "run", "--cache", str(folder / "cache"))
    return folder


def test_each_image_has_one_end(done: Path) -> None:
    summary = json.loads((done / "run/run.json").read_text("utf-8"))
    found = ends(done / "run")
    assert sorted(Path(row["id"]).name for row in found) == [image.name for image in IMAGES]
    assert summary["counts"]["input"] == len(IMAGES)
    assert {(row["source"], row["license"]) for row in found} == {("pictures", "unknown")}
    rejected = {row["id"]: row["reason"] for row in rows(done / "run", "rejected")}
    assert {"few_objects", "over_quota"} & {*rejected.values()}


def test_rows_say_that_question_answer_and_boxes_are_a_models(done: Path) -> None:
    found = [*rows(done / "run", "sft"), *rows(done / "run", "rl")]
    assert len(found) >= 4
    for row in found:
        assert (row["question_source"], row["boxes_source"]) == ("teacher", "detector")
        assert row["question"]
        assert row["gold_boxes"]
        for box in row["gold_boxes"]:
            assert 0 <= box["x1"] < box["x2"] <= 400
            assert 0 <= box["y1"] < box["y2"] <= 100
        assert {prompt["id"] for prompt in row["lineage"]["prompts"]} >= {*WRITING}
    assert {row["mode"] for row in rows(done / "run", "sft")} == {"direct", "code"}
    for row in rows(done / "run", "rl"):
        agreeing = Counter(attempt["correct"] for attempt in row["attempts"])
        assert agreeing[True] > agreeing[False] or len({attempt["answer"] for attempt in row["attempts"]}) > 2


def test_rejected_images_have_no_question_and_rejected_questions_say_whose_they_are(done: Path) -> None:
    for row in rows(done / "run", "rejected"):
        if row["stage"] == "judge_images":
            assert (row["question"], row["answer"], row["question_source"]) == (None, None, None)
        else:
            assert (bool(row["question"]), row["question_source"]) == (True, "teacher")


def test_card_and_run_tell_how_many_took_which_way(done: Path) -> None:
    stages = json.loads((done / "run/run.json").read_text("utf-8"))["stages"]
    assert stages["judge_images"]["in"] == len(IMAGES)
    written = stages["write_questions"]["in"]
    assert written == stages["judge_images"]["kept"] < len(IMAGES)
    assert stages["join_questions"]["kept"] == stages["judge_pairs"]["kept"] <= written
    card = (done / "run/README.md").read_text("utf-8")
    assert "write\\_questions" in card
    assert "question\\_source" in card


def test_again_and_with_two_workers_nothing_is_sent_and_nothing_changes(done: Path, tmp_path: Path) -> None:
    for name, beam_options in (("again", ()), ("two", ("--", "--direct_num_workers=2"))):
        summary = run(done / "pictures", tmp_path / name, "--cache", str(done / "cache"), *beam_options)
        assert sum(role["requests"] for role in summary["ledger"].values()) == 0
        assert digests(tmp_path / name) == digests(done / "run")


def test_records_with_and_without_a_question_in_one_input(tmp_path: Path) -> None:
    """Of the sample's records, every other one has lost its question, its answer and its boxes."""
    lines = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[:24]]
    bare = [index % 2 == 1 for index in range(len(lines))]
    for line, is_bare in zip(lines, bare, strict=True):
        if is_bare:
            line |= dict.fromkeys(("question", "answer", "answer_type", "choices", "boxes"))
    shutil.copytree(SAMPLE / "images", tmp_path / "data/images")
    (tmp_path / "data/records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    summary = run(tmp_path / "data", tmp_path / "run")
    found = ends(tmp_path / "run")
    assert sorted(row["id"] for row in found) == sorted(line["id"] for line in lines)
    source = {row["id"]: row["question_source"] for row in found if row.get("stage") not in ("dedup", "judge_images")}
    for line, is_bare in zip(lines, bare, strict=True):
        assert source.get(line["id"]) in ((None, "teacher") if is_bare else (None, "record"))
    assert summary["stages"]["join_questions"]["in"] == len(source) == sum(map(bool, source.values()))
    assert {*source.values()} == {"record", "teacher"}


def test_all_images_are_judged_if_the_config_says_so(done: Path, tmp_path: Path) -> None:
    more = ("--set", "judge_images.apply_to=all", "--limit", "6", "--cache", str(done / "cache"))
    summary = run(SAMPLE, tmp_path / "run", *more)
    stages = summary["stages"]
    assert stages["judge_images"]["in"] == 6
    assert "write_questions" not in stages
    assert stages["join_questions"]["in"] == stages["judge_images"]["kept"]


def test_validate_describes_a_folder_of_images(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "executable_cot", "--input", str(done / "pictures")]) == 0
    said = capsys.readouterr().out
    assert f"{len(IMAGES)} records without a question: the recipe writes one for each image that is fit" in said
    assert "MISSING" not in said


def test_another_recipe_still_refuses_such_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    shutil.copy(IMAGES[0], tmp_path / "pictures/a.png")
    words = ["run", "grounded_cot", "--input", str(tmp_path / "pictures"), "--output", str(tmp_path / "run")]
    assert cli.main(words) == 2
    assert "holds images and no questions" in capsys.readouterr().err
