"""Evaluations side by side: figures, paired differences, and what is refused."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.cli import main
from groundtrace.trainer.evaluation import compare as module
from groundtrace.trainer.evaluation.compare import CompareError, compare, comparison_json, comparison_lines
from groundtrace.trainer.evaluation.comparison import difference, estimate
from groundtrace.trainer.evaluation.few_questions import few_in_comparison

ARGOS = '[reward]\nrecipe = "argos"\n'
Values = Mapping[str, float | None]


def write_evaluation(folder: Path, outcomes: Values, toml: str = ARGOS, **changes: Any) -> str:
    """An evaluation with one answer to each question; two questions are of one image. None is an unscored answer."""
    folder.mkdir(parents=True)
    run = {"command": "eval", "ended": "done", "model": f"{folder.name}/model"} | changes.pop("run", {})
    (folder / "run.json").write_text(json.dumps(run), "utf-8")
    (folder / "config.toml").write_text(toml, "utf-8")
    lines = [
        {"id": name, "gold": "3", "media_group": f"g{place // 2}", "reward": outcome, "text": "t", "tokens": 3}
        | {"verdicts": {"outcome": {"value": outcome, "reason": ""}}}
        | changes
        for place, (name, outcome) in enumerate(outcomes.items())
    ]
    kept = [{key: value for key, value in line.items() if value != "left out"} for line in lines]
    (folder / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
    return str(folder)


NO_INTERVAL = "A figure has no interval if there is only one media group, or if all media groups have the same value."


def right(numbers: Sequence[int], count: int = 40) -> dict[str, float | None]:
    return {f"q{n}": float(n in numbers) for n in range(count)}


def read(*folders: str) -> list[module.Evaluation]:
    return [module.read_evaluation(each) for each in folders]


def test_figures_and_paired_differences(tmp_path: Path) -> None:
    """They are those of the loop's page."""
    values = [right(range(10)), right(range(5, 25)), right(range(10)) | {"q39": None}]
    found = compare(read(*(write_evaluation(tmp_path / f"e{n}", each) for n, each in enumerate(values))))
    groups = {f"q{n}": f"g{n // 2}" for n in range(40)}
    known = [{key: value for key, value in each.items() if value is not None} for each in values]
    assert (found.questions, found.groups) == (40, 20)
    assert [each["accuracy"] for each in found.figures] == [estimate(each, groups, is_share=True) for each in known]
    assert [each["accuracy"] for each in found.differences] == [
        difference(known[0], o, groups, is_share=True) for o in known[1:]
    ]
    first, second = found.differences
    assert first["accuracy"] is not None and first["accuracy"].value == 0.25
    assert second["accuracy"] is not None and (second["accuracy"].value, second["accuracy"].questions) == (0.0, 39)
    assert first["reward"] == first["accuracy"] and first["point_f1"] is None
    assert second["accuracy"].low is not None and second["reward"] is not None and second["reward"].low is None
    assert found.notes == [*few_in_comparison(40, 20), NO_INTERVAL]


def test_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_evaluation(tmp_path / "a", right([0, 1, 2, 3], 4), point_f1=0.5)
    write_evaluation(tmp_path / "b", right([0, 1], 4), point_f1=0.25)
    lines, inside = comparison_lines(compare(read("a", "b"))), "[-1.000, +0.000] (0 is inside)"
    assert lines == [
        "4 questions in 2 media groups, 95 % intervals in brackets:",
        "  a: accuracy 1.000 [0.510, 1.000], point F1 0.500, reward 1.000",
        "  b: accuracy 0.500 [0.150, 0.850], point F1 0.250, reward 0.500 [0.000, 1.000]",
        f"  b − a: accuracy -0.500 {inside}, point F1 -0.250, reward -0.500 {inside}",
        *few_in_comparison(4, 2),
        NO_INTERVAL,
    ]


def test_the_json(tmp_path: Path) -> None:
    names = [write_evaluation(tmp_path / "a", right(range(9))), write_evaluation(tmp_path / "b", right(range(4)))]
    found = json.loads(comparison_json(compare(read(*names))))
    assert (found["questions"], found["media_groups"], found["notes"]) == (40, 20, few_in_comparison(40, 20))
    assert [(each["name"], each["model"]) for each in found["evaluations"]] == list(
        zip(names, ["a/model", "b/model"], strict=True)
    )
    [apart] = found["differences"]
    assert (apart["name"], apart["minus"], apart["point_f1"]) == (names[1], names[0], None)
    assert apart["accuracy"]["value"] == pytest.approx(-5 / 40)
    assert apart["accuracy"]["low"] < -5 / 40 < apart["accuracy"]["high"]


OTHERS = [
    (right(range(4), 30), {}, 30, 10, 0),
    (right(range(4), 50), {}, 40, 0, 10),
    ({f"q{n}": 1.0 for n in range(10, 45)}, {}, 30, 10, 5),
]


@pytest.mark.parametrize(("values", "changes", "both", "first", "second"), OTHERS)
def test_other_questions_are_refused(
    values: Values, changes: dict[str, Any], both: int, first: int, second: int, tmp_path: Path
) -> None:
    a = write_evaluation(tmp_path / "a", right(range(10)))
    b = write_evaluation(tmp_path / "b", values, **changes)
    with pytest.raises(CompareError) as refused:
        compare(read(a, b))
    assert str(refused.value) == (
        f"{a} and {b} have different questions: {both} are in both, {first} only in {a}, and {second} only in {b}: "
        f"compare the {both} questions that both have with --shared, or evaluate the models on the same --data"
    )
    assert compare(read(a, b), is_shared=True).questions == both


@pytest.mark.parametrize(
    ("values", "changes"), [({f"other{n}": 1.0 for n in range(4)}, {}), (right([0]), {"gold": "4"})]
)
def test_nothing_in_common(values: Values, changes: dict[str, Any], tmp_path: Path) -> None:
    """Another gold answer is another question."""
    names = write_evaluation(tmp_path / "a", right([0])), write_evaluation(tmp_path / "b", values, **changes)
    for is_shared in (False, True):
        with pytest.raises(CompareError, match=r"0 are in both, .*: evaluate the models on the same --data$"):
            compare(read(*names), is_shared)


def test_the_shared_questions_of_three(tmp_path: Path) -> None:
    """Figures and differences are all of the same questions."""
    ranges = [range(40), range(10, 40), range(30)]
    names = [
        write_evaluation(tmp_path / f"e{n}", {f"q{key}": float(key % 2) for key in keys})
        for n, keys in enumerate(ranges)
    ]
    with pytest.raises(CompareError, match="compare the 20 questions that all have with --shared"):
        compare(read(*names))
    found = compare(read(*names), is_shared=True)
    assert found.questions == 20
    assert {each["accuracy"].questions for each in (*found.figures, *found.differences) if each["accuracy"]} == {20}


def test_evaluations_without_media_groups(tmp_path: Path) -> None:
    """An earlier version wrote them; the groups of any other evaluation of the same questions serve."""
    values = right(range(10)), right(range(5, 25))
    old = [write_evaluation(tmp_path / f"o{n}", each, media_group="left out") for n, each in enumerate(values)]
    new = write_evaluation(tmp_path / "new", values[1])
    found = compare(read(*old))
    assert found.groups is None and "the intervals may be too narrow" in comparison_lines(found)[-1]
    assert found.differences[0]["accuracy"] == difference(*(dict(each) for each in values), {}, is_share=True)  # type: ignore[arg-type]
    assert compare(read(old[0], new)).groups == 20


def test_a_figure_without_an_interval_has_a_note(tmp_path: Path) -> None:
    same = [write_evaluation(tmp_path / name, right([], 4)) for name in ("a", "b")]
    found = compare(read(*same))
    assert found.differences[0]["accuracy"] is not None and found.differences[0]["accuracy"].low is not None
    assert comparison_lines(found)[-1] == NO_INTERVAL and not found.is_worse
    all_right, none_right = (write_evaluation(tmp_path / f"c{n}", right(range(n), 40)) for n in (40, 0))
    assert compare(read(all_right, none_right)).is_worse


@pytest.mark.parametrize(
    ("count", "begins"),
    [(40, ["40 questions", "20 media groups"]), (58, ["58 questions", "29 m"]), (60, ["60"]), (100, [])],
)
def test_few_questions_and_few_groups_have_a_note(count: int, begins: list[str], tmp_path: Path) -> None:
    names = [write_evaluation(tmp_path / name, right(range(9), count)) for name in ("a", "b")]
    found = [note for note in compare(read(*names)).notes if note != NO_INTERVAL]
    assert len(found) == len(begins)
    for note, begin in zip(found, begins, strict=True):
        assert note.startswith(f"The comparison has only {begin}") and "evaluate the models on" in note


@pytest.mark.parametrize(
    ("toml", "is_same"),
    [
        (ARGOS + "wait_s = 5.0\n", True),
        ('[reward]\nrecipe = "rucl"\n', False),
        (ARGOS + "[reward.options]\ntau = 0.5\n", False),
        (ARGOS + "[reward.options]\ntau = 1.0\n", True),
    ],
)
def test_rewards_of_other_recipes_are_not_subtracted(toml: str, is_same: bool, tmp_path: Path) -> None:
    names = write_evaluation(tmp_path / "a", right([0])), write_evaluation(tmp_path / "b", right([1]), toml)
    found = compare(read(*names))
    assert (found.differences[0]["reward"] is not None) == is_same
    assert any("are not subtracted" in note for note in found.notes) == (not is_same)
    assert found.figures[1]["reward"] is not None and found.differences[0]["accuracy"] is not None


def test_rewards_of_other_code_of_the_user_are_not_subtracted(tmp_path: Path) -> None:
    revisions = {"a": "3f0c with own code 1a", "b": "77ab with own code 1a", "c": "3f0c with own code 2b", "d": "3f0c"}
    a, b, c, d = (
        write_evaluation(tmp_path / name, right([0]), run={"revision": each}) for name, each in revisions.items()
    )
    for other, is_same in ((b, True), (c, False), (d, False)):
        assert (compare(read(a, other)).differences[0]["reward"] is not None) == is_same


@pytest.mark.parametrize("toml", ['recipe = "evil:X"\n', 'recipe = "argos"\n[reward.options.scorers]\n"evil:X" = {}\n'])
def test_no_code_is_executed_that_an_evaluation_names(
    toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')\n")
    monkeypatch.chdir(tmp_path)
    names = [write_evaluation(tmp_path / name, right([0]), f"[reward]\n{toml}") for name in "ab"]
    assert compare(read(*names)).differences[0]["reward"] is not None
    assert "evil" not in sys.modules


@pytest.mark.parametrize("run", [{"command": "grpo"}, {"ended": "Stopped: stopped by SIGINT"}, {"ended": None}])
def test_no_finished_evaluation(run: dict[str, Any], tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "a", right([0]), run=run)
    for name in (folder, str(tmp_path / "none")):
        with pytest.raises(
            CompareError, match="does not hold a finished evaluation: give the --output folder of a fin"
        ):
            module.read_evaluation(name)


@pytest.mark.parametrize(
    ("file", "text"),
    [("responses.jsonl", '{"id": "q'), ("responses.jsonl", "[]"), ("responses.jsonl", "{}"), ("config.toml", "[[")],
)
def test_a_damaged_evaluation(file: str, text: str, tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "a", right([0]))
    (tmp_path / "a" / file).write_text(text, "utf-8")
    with pytest.raises(CompareError, match=r"a is damaged \(.+\): evaluate the model again$"):
        module.read_evaluation(folder)


@pytest.mark.parametrize("file", ["run.json", "config.toml", "responses.jsonl"])
def test_a_pipe_in_an_evaluation(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_evaluation(tmp_path / "a", right([0]))
    (tmp_path / "a" / file).unlink()
    os.mkfifo(tmp_path / "a" / file)
    with pytest.raises(UnsafeFile, match=f"{file} is not a regular file, but a pipe: move it away"):
        module.read_evaluation(folder)
    assert main(["compare", folder, folder]) == 2
    assert f"{file} is not a regular file, but a pipe" in capsys.readouterr().err


def test_a_repeated_id(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "a", right([0]))
    with (tmp_path / "a" / "responses.jsonl").open("a") as stream:
        line = {"id": "q0", "gold": "4", "reward": 1.0, "text": "t", "verdicts": {}}
        stream.write(json.dumps(line) + "\n")
    with pytest.raises(CompareError, match="several questions with the id 'q0'"):
        module.read_evaluation(folder)


@pytest.mark.parametrize(
    ("second", "options", "code"),
    [
        (right(range(20)), [], 0),
        (right(range(2)), [], 0),
        (right(range(2)), ["--fail-if-worse"], 1),
        (right(range(20)), ["--fail-if-worse"], 0),
        (right(range(9)), ["--fail-if-worse", "--json"], 0),
        (right(range(2), 10), [], 2),
        (right(range(2), 10), ["--shared"], 0),
    ],
    ids=["better", "worse", "worse, with the option", "better, with the option", "not clear", "others", "shared"],
)
def test_the_exit_code(
    second: Values, options: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = write_evaluation(tmp_path / "a", right(range(10))), write_evaluation(tmp_path / "b", second)
    assert main(["compare", *names, *options]) == code
    said = capsys.readouterr()
    assert bool(said.out) == (code != 2) and said.err.startswith("trainer: ") == (code == 2)
    if "--json" in options:
        assert json.loads(said.out)["questions"] == 40
