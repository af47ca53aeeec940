"""The report and the figure of what is done so far: means, differences, nothing of what is not done."""

import json
from pathlib import Path

import pytest

from benchmarks.learning import figure
from benchmarks.learning.pool import RIGHT_ONLY, UNFILTERED, VERIFIED, PoolEntry, VerifiedText
from benchmarks.learning.report import collect, print_tables
from benchmarks.learning.scenes import write_scenes
from benchmarks.learning.training import EXAMS, Model

ENTRIES = [
    PoolEntry(
        "a", "wrong answer", 0.1, VerifiedText("r", True, True, ""), VerifiedText("w", False, False, "wrong_answer")
    )
]
RIGHT = {VERIFIED: 5, RIGHT_ONLY: 3, UNFILTERED: 1}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Three models of two seeds that answered 6 questions; of seed 1 the unfiltered one is not done."""
    write_scenes(tmp_path / "held", 2, seed=2, prefix="held")
    lines = (tmp_path / "held" / "records.jsonl").read_text("utf-8").splitlines()
    golds = [(record["id"], record["answer"]) for record in map(json.loads, lines)]
    for seed in (0, 1):
        for name, right in RIGHT.items():
            folder = tmp_path / Model(name, 0.4, seed).folder
            for how in EXAMS if (name, seed) != (UNFILTERED, 1) else ("sampled",):
                answers = [
                    {
                        "id": id,
                        "text": f"<think>I look at all.</think>\n<answer>{gold if number < right else 'none'}</answer>",
                        "verdicts": {"outcome": {"value": float(number < right), "reason": ""}},
                    }
                    for number, (id, gold) in enumerate(golds)
                ]
                (folder / how).mkdir(parents=True)
                (folder / how / "responses.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers), "utf-8")
                (folder / how / "eval.json").write_text("{}", "utf-8")
            (folder / "seconds.json").write_text("12", "utf-8")
    return tmp_path


def test_means_and_differences_are_of_what_is_done(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = collect(output, ENTRIES)
    assert [(row["name"], row["seeds"]) for row in results["means"]] == [
        (VERIFIED, [0, 1]),
        (RIGHT_ONLY, [0, 1]),
        (UNFILTERED, [0]),
    ]
    means = {row["name"]: row["greedy"]["accuracy"][0] for row in results["means"]}
    assert means == pytest.approx({name: right / 6 for name, right in RIGHT.items()})
    assert [(row["name"], row["seeds"]) for row in results["differences"]] == [
        (f"{VERIFIED} − {RIGHT_ONLY}", [0, 1]),
        (f"{VERIFIED} − {UNFILTERED}", [0]),
    ]
    assert results["differences"][1]["sampled"]["accuracy"][0] == pytest.approx(4 / 6)
    assert results["pool"]["wrong answer"] == {"traces": 1, "kept": 0, "right": 0}
    print_tables(results)
    assert "| verified − unfiltered | 0.4 | 0 | +0.667 [" in capsys.readouterr().out


def test_the_figure_shows_each_model_and_is_the_same_twice(output: Path) -> None:
    (output / "results.json").write_text(json.dumps(collect(output, ENTRIES)), "utf-8")
    drawn = []
    for name in ("one.svg", "two.svg"):
        assert figure.main([str(output / "results.json"), str(output / name)]) == 0
        drawn.append((output / name).read_text("utf-8"))
    assert drawn[0] == drawn[1] and all(f"{right / 6:.2f}" in drawn[0] for right in RIGHT.values())
