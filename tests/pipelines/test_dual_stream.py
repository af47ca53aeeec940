"""The recipe of two streams: on the bundled sample, and with a scripted teacher on sheets whose ends are known."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.config.settings import load_config
from groundtrace.grading.question_text import BOXES, TEXTUAL, user_text
from groundtrace.grading.responses.response import parse_response
from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.dual_stream import RECIPE, Settings
from groundtrace.rewards.form import FORMS, form_fault
from groundtrace.rewards.scorers.boxes import score_boxes
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question
from groundtrace.stages.assign_stream import form_of
from tests.wired import default_stages

from .dual_stream_world import (
    ALL,
    COLD_START,
    COPIED,
    GOOD,
    INEXACT,
    OPTIONS,
    SHIFTED,
    SWAPPED,
    UNNAMED,
    WHOLE,
    Sheet,
    boxed,
    draw,
    playing,
    worded,
)
from .far_server import serving

SAMPLE = Path(__file__).resolve().parents[2] / "data/sample"
GOLDEN = Path(__file__).parent / "golden/dual_stream.json"
STREAMS = ["grounded", "textual"]

SHEETS = [
    Sheet("boxed", "sft", BOXES, "sft", ALL, traces=(SHIFTED, GOOD)),
    Sheet("more", "sft", BOXES, "sft", ALL, traces=(GOOD,)),
    Sheet("located", "sft", BOXES, "sft", targets=ALL, traces=(GOOD,)),
    Sheet("inexact", "sft", BOXES, "sft", ALL, traces=(INEXACT,)),
    Sheet("whole", "sft", BOXES, "low_grounding", ALL, traces=(WHOLE,)),
    Sheet("shifted", "sft", BOXES, "low_grounding", ALL, traces=(SHIFTED,)),
    Sheet("swapped", "sft", BOXES, "low_grounding", ALL, traces=(SWAPPED,)),
    Sheet("copied", "sft", BOXES, "low_grounding", ALL, traces=(COPIED,)),
    Sheet("unnamed", "sft", BOXES, "low_grounding", ALL, traces=(UNNAMED,)),
    Sheet("one", "sft", BOXES, "low_grounding", targets=ALL, traces=(boxed("red square"),)),
    Sheet("bare", "sft", BOXES, "low_grounding", ALL, traces=(worded(),)),
    Sheet("astray", "sft", BOXES, "low_grounding", targets=("square",), traces=(SHIFTED,)),
    Sheet("hidden", "sft", BOXES, "no_boxes", targets=("green circle",)),
    Sheet("words", "sft", TEXTUAL, "sft", ALL, traces=(GOOD, worded())),
    Sheet("plain", "sft", TEXTUAL, "over_quota", traces=(worded("They stand in a row."),)),
    Sheet("left", "sft", TEXTUAL, "sft", ALL, traces=(worded(),)),
    Sheet("boxes", "sft", TEXTUAL, "malformed", ALL, traces=(GOOD, worded("The red one is at [8, 30, 28, 50]."))),
    Sheet("both", "rl", BOXES, "rl", ALL),
    Sheet("found", "rl", BOXES, "rl", targets=("red square", "square")),
    Sheet("lost", "rl", TEXTUAL, "rl", targets=("red square", "dog"), right=2),
    Sheet("empty", "rl", BOXES, "rl", (), right=1),
    Sheet("never", "rl", BOXES, "too_hard", (), right=0),
    Sheet("often", "rl", BOXES, "too_easy", (), right=3),
    Sheet("always", "rl", TEXTUAL, "too_easy", targets=("dog",), right=5),
]


def run(source: Path, output: Path, *more: str) -> dict:
    assert cli.main(["run", "dual_stream", "--input", str(source), "--output", str(output), *more]) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def rows(output: Path, side: str) -> list[dict]:
    return [row for file in sorted((output / side).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def digests(output: Path) -> dict[str, str]:
    files = [*sorted((output / "sft").iterdir()), *sorted((output / "rl").iterdir()), output / "batch_plan.json"]
    return {str(file.relative_to(output)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def without_boxes(folder: Path) -> Path:
    """The sample as a source that says nothing of boxes."""
    folder.mkdir()
    shutil.copytree(SAMPLE / "images", folder / "images")
    records = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    (folder / "records.jsonl").write_text("".join(json.dumps(each | {"boxes": None}) + "\n" for each in records))
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs: over the sample, and over the sample without its boxes."""
    folder = tmp_path_factory.mktemp("done")
    run(SAMPLE, folder / "gold", "--cache", str(folder / "cache"))
    run(without_boxes(folder / "bare"), folder / "located", "--cache", str(folder / "cache"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gold", "located"])
def test_every_record_ends_once_and_no_image_stands_on_both_sides(done: Path, name: str) -> None:
    counts = json.loads((done / name / "run.json").read_text("utf-8"))["counts"]
    ids = [row["id"] for side in ("sft", "rl", "rejected") for row in rows(done / name, side)]
    assert counts["input"] == len(ids) == len(set(ids)) == 120
    assert counts["sft"] >= 20
    assert counts["rl"] >= 20
    images = [
        {hashlib.sha256(image["bytes"]).hexdigest() for row in rows(done / name, side) for image in row["images"]}
        for side in ("sft", "rl")
    ]
    assert all(images)
    assert not images[0] & images[1]


@pytest.mark.parametrize("name", ["gold", "located"])
def test_the_streams_of_sft_rows_are_in_the_ratio_and_of_disjoint_questions(done: Path, name: str) -> None:
    found = rows(done / name, "sft")
    forms = {row["id"]: BOXES if "<box" in row["messages"][1]["content"] else TEXTUAL for row in found}
    cold_start = Settings().cold_start
    assert forms == {row["id"]: form_of(row["id"], cold_start) for row in found}
    grounded, textual = (list(forms.values()).count(form) for form in (BOXES, TEXTUAL))
    assert textual
    assert abs(textual - grounded * 3 / 32) < 1


def as_question(row: dict) -> Question:
    return Question(row["id"], "", "", (), row["question"], row["answer"], row["answer_type"], row["choices"])


@pytest.mark.parametrize("name", ["gold", "located"])
def test_textual_rows_carry_no_box_text_and_grounded_ones_have_boxes(done: Path, name: str) -> None:
    for row in rows(done / name, "sft"):
        asked, said = (turn["content"] for turn in row["messages"])
        form = form_of(row["id"], Settings().cold_start)
        if form == TEXTUAL:
            assert "box" not in asked.replace(row["question"], "")
            assert not re.search(r"<\s*/?\s*(box|point)|bbox|\[\s*\d", said)
        else:
            assert "<box alt=" in asked
            assert row["boxes"]
        assert form_fault(said, parse_response(said), as_question(row), FORMS[form]) is None


@pytest.mark.parametrize(("name", "source"), [("gold", "gold"), ("located", "detector")])
def test_an_rl_row_with_boxes_is_one_row_with_both_prompts(done: Path, name: str, source: str) -> None:
    both = [row for row in rows(done / name, "rl") if row["streams"] == STREAMS]
    assert both
    for row in both:
        assert (row["boxes_source"], row["domain"], row["pass_rate"]) == (source, "boxed", None)
        assert row["gold_boxes"]
        prompts = {each["stream"]: each["content"] for each in row["stream_prompts"]}
        assert list(prompts) == STREAMS
        assert "<box alt=" in prompts["grounded"]
        assert "in words alone" in prompts["textual"]
        assert row["prompt"] == [{"role": "user", "content": prompts["textual"]}]


def test_kept_boxes_lie_on_the_gold_objects_that_nobody_was_shown(done: Path) -> None:
    gold = {
        each["id"]: tuple(Box(box["label"], *box["bbox"]) for box in each["boxes"] or ())
        for each in map(json.loads, (SAMPLE / "records.jsonl").read_text("utf-8").splitlines())
    }
    grounded = [row for row in rows(done / "located", "sft") if row["boxes"]]
    counted = [row for row in grounded if row["answer_type"] == "numeric"]
    assert len(counted) >= 15
    on = [max(Box(**box).iou(other) for other in gold[row["id"]]) for row in grounded for box in row["boxes"]]
    assert sum(iou >= 0.5 for iou in on) / len(on) >= 0.99
    scores = [score_boxes(tuple(Box(**box) for box in row["boxes"]), gold[row["id"]]).value or 0.0 for row in counted]
    assert sum(score >= 0.9 for score in scores) / len(scores) >= 0.95


@pytest.mark.slow
def test_a_second_run_writes_the_same_bytes_for_nothing(done: Path, tmp_path: Path) -> None:
    workers = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_threading")
    again = run(SAMPLE, tmp_path / "again", "--cache", str(done / "cache"), *workers)
    assert sum(role["requests"] for role in again["ledger"].values()) == 0
    assert digests(tmp_path / "again") == digests(done / "gold")


@pytest.mark.slow
def test_a_target_is_met_in_the_ratio(done: Path, tmp_path: Path) -> None:
    target = 7
    options = ("--cache", str(done / "cache"), "--target-sft", str(target), "--set", "cold_start.textual=16")
    run(SAMPLE, tmp_path / "run", *options)
    found = rows(tmp_path / "run", "sft")
    textual = sum("<box" not in row["messages"][1]["content"] for row in found)
    assert len(found) == target
    assert abs(textual - target / 3) < 1


def test_the_card_says_what_is_true_of_this_recipe(done: Path) -> None:
    card = (done / "located/README.md").read_text("utf-8")
    assert "batch_plan.json" in card
    assert "detector" in card
    assert "Pass rates of the rows kept" not in (done / "gold/README.md").read_text("utf-8"), "no row kept has one"
    for absent in ("pointer", "rubric", "overlay", "propose", "`points`"):
        assert absent not in card.lower(), absent


def test_validate_shows_a_record_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "dual_stream", "--input", str(SAMPLE)]) == 0
    shown = capsys.readouterr().out
    assert '<box alt="label">' in shown
    assert "in words alone" in shown
    assert "<points" not in shown


def test_the_papers_numbers_stay_where_a_config_changes_a_key_beside_them() -> None:
    given = load_config(Settings, None, ["difficulty.high=0.5", "trace.temperature=0.9", "verify.floors.boxes=0.6"])
    assert (given.difficulty.low, given.difficulty.include_low, given.trace.n) == (0.2, True, 4)
    assert given.verify.floors["boxes_located"] == 1.0


def test_a_teacher_whose_coordinates_are_unknown_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = {
        "endpoints.far.kind": "openai",
        "endpoints.far.model": "m",
        "endpoints.far.base_url": "http://127.0.0.1:9",
    }
    options |= {"roles.teacher": "far", "allow_embedded": "true"}
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    assert cli.main(["run", "dual_stream", "--input", str(SAMPLE), "--output", str(tmp_path / "run"), *words]) == 2
    assert "endpoints.far.family is not set, and the teacher writes coordinates" in capsys.readouterr().err


def shown(row: dict) -> dict:
    """What of a row is compared: all that the recipe decides, without bytes, lineage and repeated columns."""
    left_out = {"images", "lineage", "source", "license", "recipe", "problem", "data_source", "extra_info", "ability"}
    row = {name: value for name, value in row.items() if name not in left_out and value not in (None, [])}
    for name in ("boxes", "gold_boxes"):
        if name in row:
            row[name] = [f"{b['label']} {b['x1']:.1f} {b['y1']:.1f} {b['x2']:.1f} {b['y2']:.1f}" for b in row[name]]
    if "attempts" in row:
        row["attempts"] = [attempt["correct"] for attempt in row["attempts"]]
    if "traces" in row:
        row["traces"] = [trace["text"] for trace in row["traces"]]
    return row


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory, write_scene, write_records) -> Path:
    """The sheets, with a teacher, a policy and a judge that say what is planned, and the embedded detector."""
    folder = tmp_path_factory.mktemp("sheets")
    records = [draw(folder / "data", sheet, number, write_scene) for number, sheet in enumerate(SHEETS)]
    write_records(folder / "data", records)
    with serving(playing(SHEETS)) as server:
        far = {"kind": "openai", "model": "m", "base_url": server.url, "max_retries": 0, "frame": "px"}
        options = {f"endpoints.far.{name}": value for name, value in far.items()} | OPTIONS
        options |= {f"roles.{role}": "far" for role in ("teacher", "policy", "judge")}
        options |= {"rl.max_same_answer": 1, "rl.max_absent": 1}  # the sheets ask for few answers
        run(folder / "data", folder / "run", *(word for o in options.items() for word in ("--set", f"{o[0]}={o[1]}")))
    return folder / "run"


def test_each_sheet_ends_as_planned(scripted: Path) -> None:
    ends = {row["id"].rpartition("-")[0]: side for side in ("sft", "rl") for row in rows(scripted, side)}
    ends |= {row["id"].rpartition("-")[0]: row["reason"] for row in rows(scripted, "rejected")}
    assert ends == {sheet.name: sheet.end for sheet in SHEETS}


def test_the_shards_of_the_sheets_are_the_golden_ones(scripted: Path) -> None:
    found = {side: [shown(row) for row in rows(scripted, side)] for side in ("sft", "rl", "rejected")}
    for row in found["rejected"]:
        assert row.pop("media")
    found |= {"batch_plan": json.loads((scripted / "batch_plan.json").read_text("utf-8"))}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if not GOLDEN.exists():
        GOLDEN.write_text(text, "utf-8")
        pytest.fail(f"{GOLDEN} was not there and has been written: read it")
    assert text == GOLDEN.read_text("utf-8")


def test_no_question_is_paid_for_twice(scripted: Path) -> None:
    ledger = json.loads((scripted / "run.json").read_text("utf-8"))["ledger"]
    traced = [sheet for sheet in SHEETS if sheet.traces]
    looked_for = [sheet for sheet in SHEETS if sheet.gold is None]
    attempted = [sheet for sheet in SHEETS if sheet.side == "rl" and sheet.name not in ("both", "found")]
    assert ledger["teacher"]["calls"] == len(traced) + len(looked_for)
    assert ledger["policy"]["calls"] == len(attempted)


def test_the_prompts_of_rows_are_those_of_their_form(scripted: Path) -> None:
    for row in rows(scripted, "sft"):
        form = form_of(row["id"], COLD_START)
        assert row["messages"][0]["content"] == "<image>" + user_text(as_question(row), form)


def test_the_recipe_lists_its_roles() -> None:
    stages = default_stages(RECIPE)
    assert stages.roles == ("teacher", "detector", "policy")
    assert "judge" in stages.roles_asked
    assert "pointer" not in stages.roles
