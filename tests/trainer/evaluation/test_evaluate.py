"""Evaluations end to end, of a model with random weights and of one that says what it is told."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.rewards.rows.shards import ShardError
from groundtrace.schemas.errors import UserError
from groundtrace.trainer.evaluation import evaluate as module
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.settings import TrainerSettings

from ..runs import SAMPLE, Said, lines_of, other_weights, records, rl_row, settings_of, write_records

POINT = '<points x1="42" y1="560" alt="blue triangle">blue triangle</points>'
RIGHT, WRONG = f"<think>Here: {POINT}</think> <answer>1</answer>", "<answer>7</answer>"
IDS = ("662-1-0-c0", "662-1-0-c1")


def settings(folders: Any, **changes: Any) -> TrainerSettings:
    """Two answers to each question."""
    chosen = {"samples": 2, "k": [1, 2]} | changes.pop("eval", {})
    return settings_of(folders["qwen3"], eval=chosen, **changes)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, list[str]]], None]:
    """Let the model say these answers to the questions."""

    def say(script: dict[str, list[str]]) -> None:
        rounds = {f"nlvr-dev-{id}": [texts] for id, texts in script.items()}
        monkeypatch.setattr(module, "make_sampler", lambda vlm, *_: Said(vlm, rounds))

    return say


def test_the_sample_data(folders: Any, tmp_path: Path) -> None:
    """Four questions of real data, answered by garbage: figures and page are whole, and all is wrong."""
    path = evaluate(settings(folders, eval={"questions": 4}), SAMPLE, tmp_path / "out")
    assert path == tmp_path / "out" / "eval.json"
    report = json.loads(path.read_text("utf-8"))
    assert (report["all"]["questions"], report["all"]["answers"], report["all"]["unscored"]) == (4, 8, 0)
    assert (report["all"]["accuracy"], report["all"]["pass_at_k"]) == (0.0, {"1": 0.0, "2": 0.0})
    assert report["all"]["best_constant"] == 0.5
    assert {name: part["questions"] for name, part in report["answer_type"].items()} == {"bool": 2, "numeric": 2}
    lines = lines_of(tmp_path / "out" / "responses.jsonl")
    assert [line["id"] for line in lines[::2]] == [line["id"] for line in lines[1::2]]
    assert all(1 <= line["tokens"] <= 12 for line in lines)
    assert (tmp_path / "out" / "eval.html").read_text("utf-8").startswith("<!doctype html>")
    run = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert (run["command"], run["ended"]) == ("eval", "done")


def test_questions_that_need_a_judge_are_told_in_advance(
    folders: Any, scripted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = [record | {"answer": "a blue triangle", "answer_type": "text"} for record in records(IDS[0])]
    data = write_records(tmp_path / "q", [*free, *records(IDS[1])])
    scripted({"662-1-0-c0": [RIGHT, WRONG], "662-1-0-c1": [WRONG, WRONG]})
    evaluate(settings(folders), data, tmp_path / "out")
    note = "1 of 2 questions in the data have free text as gold answer: answers in other words are unscored"
    assert note in capsys.readouterr().err
    evaluate(settings(folders), write_records(tmp_path / "r", records(IDS[1])), tmp_path / "other")
    assert "free text" not in capsys.readouterr().err


def test_the_same_twice(folders: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        evaluate(settings(folders, eval={"questions": 2}), SAMPLE, tmp_path / name)
    for file in ("eval.json", "responses.jsonl", "eval.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    other = settings(folders, eval={"questions": 2}, seed=1)
    evaluate(other, SAMPLE, tmp_path / "c")
    assert (tmp_path / "a" / "responses.jsonl").read_bytes() != (tmp_path / "c" / "responses.jsonl").read_bytes()


@pytest.fixture
def run_folder(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    return write_shards(tmp_path / "run", [rl_row(record) for record in records(*IDS)], "rl")


def test_shards(folders: Any, scripted: Any, run_folder: Path, tmp_path: Path) -> None:
    """RL rows: one question right once, pointing, and the other never."""
    scripted({"662-1-0-c0": [RIGHT, WRONG], "662-1-0-c1": [WRONG, WRONG]})
    report = json.loads(evaluate(settings(folders), run_folder, tmp_path / "out").read_text("utf-8"))["all"]
    assert (report["accuracy"], report["pass_at_k"]) == (0.25, {"1": 0.25, "2": 0.5})
    assert (report["spatial"], report["points_in_gold_boxes"], report["thinks"]) == (1.0, 1.0, 0.25)
    assert report["exact_points"] == 0.25, "one of the four answers points at just what it counts"
    assert report["reward"] == 0.25
    first, second, *_ = lines_of(tmp_path / "out" / "responses.jsonl")
    assert (first["point_f1"], second["point_f1"]) == (1.0, 0.0)
    assert (first["gold"], first["reward"], first["verdicts"]["spatial"]["value"]) == ("1", 1.0, 1.0)
    assert 'x1="16.8" y1="56"' in first["text"], "points stand in original pixels"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["a blue triangle", "some object"], "accuracy 1, 1 of 2 answers unscored\n"),
        (["some object", "no circle"], "2 of 2 answers unscored\n"),
        (["a blue triangle", "a blue triangle"], "accuracy 1\n"),
    ],
)
def test_answers_that_nobody_scored_are_counted(
    answers: list[str], said: str, folders: Any, scripted: Any, write_shards: Any, tmp_path: Path, capsys: Any
) -> None:
    """Without a judge, only the exact words of the gold answer are scored."""
    scripted({IDS[0]: [f"<answer>{answer}</answer>" for answer in answers]})
    row = rl_row(records(IDS[0])[0], answer="a blue triangle", answer_type="text", choices=None)
    data = write_shards(tmp_path / "run", [row], "rl")
    evaluate(settings(folders, reward={"roles": {"judge": ""}}), data, tmp_path / "out")
    assert capsys.readouterr().err.endswith(f"step 1/1: {said}")


def test_records_and_shards_agree(folders: Any, scripted: Any, run_folder: Path, tmp_path: Path) -> None:
    """The same questions as an input folder get the same figures."""
    scripted({"662-1-0-c0": [RIGHT, WRONG], "662-1-0-c1": [WRONG, WRONG]})
    data = write_records(tmp_path / "data", records(*IDS))
    found = [evaluate(settings(folders), source, tmp_path / f"out{n}") for n, source in enumerate([data, run_folder])]
    assert found[0].read_bytes() == found[1].read_bytes()


def test_the_rows_of_one_side(folders: Any, scripted: Any, run_folder: Path, tmp_path: Path) -> None:
    """The folder of the shards serves as well as the run's, as it does in training."""
    scripted({"662-1-0-c0": [RIGHT, WRONG], "662-1-0-c1": [WRONG, WRONG]})
    report = json.loads(evaluate(settings(folders), run_folder / "rl", tmp_path / "out").read_text("utf-8"))
    assert report["all"]["questions"] == 2


def test_sft_rows_where_there_are_no_others(folders: Any, row: Any, write_shards: Any, tmp_path: Path) -> None:
    data = write_shards(tmp_path / "run", [row(id="s0"), row(id="s1")], "sft")
    report = json.loads(evaluate(settings(folders), data, tmp_path / "out").read_text("utf-8"))
    assert report["all"]["questions"] == 2
    assert {line["id"] for line in lines_of(tmp_path / "out" / "responses.jsonl")} == {"s0", "s1"}


def test_what_cannot_be_asked_is_left_out(folders: Any, scripted: Any, tmp_path: Path) -> None:
    """Each with its reason; ``eval.questions`` counts those that can be asked."""
    good, other = records(*IDS)
    cut, long = other | {"id": "cut", "media": ["cut.png"]}, other | {"id": "long", "question": "How many? " * 300}
    data = write_records(
        tmp_path / "data", ["{", cut, other | {"id": "gone", "media": ["gone.png"]}, long, good, other]
    )
    (data / "cut.png").write_bytes((SAMPLE / good["media"][0]).read_bytes()[:-30])
    scripted({"662-1-0-c0": [RIGHT, WRONG]})
    report = json.loads(evaluate(settings(folders, eval={"questions": 1}), data, tmp_path / "out").read_text("utf-8"))
    assert (report["all"]["questions"], report["all"]["accuracy"]) == (1, 0.5)
    reasons = [line["reason"] for line in lines_of(tmp_path / "out" / "left_out.jsonl")]
    assert len(reasons) == 4
    for reason, said in zip(
        reasons, ("not JSON", "cut: image 1 does not", "no such file", "kept for the answer"), strict=True
    ):
        assert said in reason
    assert json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))["rows_left_out"] == 4


def test_questions_with_a_common_image_are_in_one_media_group(
    folders: Any, write_shards: Callable[..., Path], tmp_path: Path
) -> None:
    rows = [rl_row(record) for record in records(*IDS, "3949-1-0-c0")]
    asked = [{"role": "user", "content": "How many?"}]
    wordy = [rows[0] | {"id": id, "images": [], "prompt": asked, "gold_boxes": None} for id in ("words", "more words")]
    two = rows[2] | {"id": "two", "images": rows[0]["images"] + rows[2]["images"], "gold_boxes": None}
    two["prompt"] = [{"role": "user", "content": "<image><image>How many?"}]
    found = []
    for name, shown in (("a", [*rows, *wordy]), ("b", [*rows, two])):
        evaluate(settings(folders), write_shards(tmp_path / name, shown, "rl"), tmp_path / f"out-{name}")
        lines = lines_of(tmp_path / f"out-{name}" / "responses.jsonl")
        found.append({line["id"]: line["media_group"] for line in lines})
    apart, joined = found
    first, second, third = (row["id"] for row in rows)
    assert len(apart) == 5 and apart[first] == apart[second] and len(set(apart.values())) == 4
    assert len(joined) == 4 and joined[first] == joined[third], "the row with both images connects them"


def test_a_repeated_id(folders: Any, scripted: Any, tmp_path: Path) -> None:
    """Two records of one id: the second is not graded by the gold answer of the first."""
    first, second = records("662-1-0-c0", "3949-1-0-c0")
    data = write_records(tmp_path / "data", [first, second | {"id": first["id"]}])
    scripted({"662-1-0-c0": ["<answer>4</answer>", "<answer>4</answer>"]})
    evaluate(settings(folders), data, tmp_path / "out")
    lines = lines_of(tmp_path / "out" / "responses.jsonl")
    assert all(line["verdicts"]["outcome"]["value"] == float(line["gold"] == "4") for line in lines)


def test_nothing_can_be_asked(folders: Any, tmp_path: Path) -> None:
    data = write_records(tmp_path / "data", ["{", "["])
    with pytest.raises(ShardError, match=r"none of the 2 rows of the data can be used \(.+\): see left_out\.jsonl"):
        evaluate(settings(folders), data, tmp_path / "out")
    assert len(lines_of(tmp_path / "out" / "left_out.jsonl")) == 2


def test_again_into_the_same_folder(folders: Any, tmp_path: Path) -> None:
    """The outputs are those of the last evaluation, not of both."""
    data = write_records(tmp_path / "data", ["{", *records(*IDS)])
    for _ in range(2):
        evaluate(settings(folders), data, tmp_path / "out")
    assert len(lines_of(tmp_path / "out" / "responses.jsonl")) == 4
    assert len(lines_of(tmp_path / "out" / "left_out.jsonl")) == 1
    assert len(lines_of(tmp_path / "out" / "metrics.jsonl")) == 1


@pytest.mark.parametrize(
    ("changes", "ids", "said"),
    [
        ({"seed": 1}, IDS, "seed was 0 and is now 1"),
        (
            {"eval": {"samples": 3, "k": [1]}},
            IDS,
            r"eval\.samples was 2 and is now 3; eval\.k was \[1, 2\] and is now \[1\]",
        ),
        ({}, IDS[:1], "the data was '2 rows, sha256 .*' and is now '1 rows, sha256 "),
        ({"model": {"path": "elsewhere"}}, IDS, "model.path was '.*' and is now 'elsewhere'"),
    ],
)
def test_another_evaluation_is_not_replaced(
    changes: dict[str, Any], ids: tuple[str, ...], said: str, folders: Any, tmp_path: Path
) -> None:
    path = evaluate(settings(folders), write_records(tmp_path / "data", records(*IDS)), tmp_path / "out")
    before = path.read_bytes()
    with pytest.raises(UserError, match=rf"already holds an evaluation .*: {said}.*Choose another --output, or remove"):
        evaluate(settings(folders, **changes), write_records(tmp_path / "data", records(*ids)), tmp_path / "out")
    assert path.read_bytes() == before


def test_an_evaluation_of_earlier_weights_is_not_replaced(folders: Any, tmp_path: Path) -> None:
    """The model has the same path. An evaluation of an earlier version names no weights, and may be replaced."""
    model = tmp_path / "model"
    shutil.copytree(folders["qwen3"], model)
    data, own = write_records(tmp_path / "data", records(*IDS)), settings(folders, model={"path": str(model)})
    path = evaluate(own, data, tmp_path / "out")
    before, file = path.read_bytes(), tmp_path / "out/run.json"
    other_weights(model)
    with pytest.raises(UserError, match=r"the digest of the weights in model.path was '\w+' and is now '\w+'"):
        evaluate(own, data, tmp_path / "out")
    assert path.read_bytes() == before
    run = json.loads(file.read_text("utf-8"))
    del run["identity"]["weights"]
    file.write_text(json.dumps(run), "utf-8")
    assert evaluate(own, data, tmp_path / "out").is_file()


def test_an_interrupted_evaluation_is_replaced_by_another(folders: Any, tmp_path: Path) -> None:
    """Its folder may still have the figures of an earlier one, which are not of its settings."""
    data = write_records(tmp_path / "data", records(*IDS))
    evaluate(settings(folders), data, tmp_path / "out")
    file = tmp_path / "out/run.json"
    run = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(run | {"ended": "KeyboardInterrupt: "}), "utf-8")
    assert evaluate(settings(folders, seed=1), data, tmp_path / "out").is_file()


def test_an_incomplete_evaluation_is_replaced_by_another(folders: Any, tmp_path: Path) -> None:
    data = write_records(tmp_path / "data", records(*IDS))
    evaluate(settings(folders), data, tmp_path / "out").unlink()
    other = settings(folders, seed=1)
    assert evaluate(other, data, tmp_path / "out").is_file()
    assert evaluate(replace(other, threads=2), data, tmp_path / "out").is_file(), "threads do not change the result"
