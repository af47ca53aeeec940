"""The report and the figure of what is done so far: means, differences, nothing of what is not done."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.learning import figure
from benchmarks.learning.pool import COLUMNS, RIGHT_ONLY, UNFILTERED, VERIFIED, PoolEntry, VerifiedText
from benchmarks.learning.report import Examined, Model, collect, print_tables
from benchmarks.learning.scenes import write_scenes
from benchmarks.learning.training import EXAMS

ENTRIES = [
    PoolEntry(
        "a", "wrong answer", 0.1, VerifiedText("r", True, True, ""), VerifiedText("w", False, False, "wrong_answer")
    )
]
RIGHT = {VERIFIED: 5, RIGHT_ONLY: 3, UNFILTERED: 1}


@pytest.fixture
def examined(tmp_path: Path) -> Mapping[Model, Examined]:
    """Three models of two seeds that answered 6 questions; of seed 1 the unfiltered one is not done."""
    write_scenes(tmp_path / "held", 2, seed=2, prefix="held")
    lines = (tmp_path / "held" / "records.jsonl").read_text("utf-8").splitlines()
    golds = [(record["id"], record["answer"]) for record in map(json.loads, lines)]
    turns = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": text}] for text in "rw"]
    rows = {name: [""] * 2 for name in COLUMNS} | {"id": ["a", "a"], "messages": turns}
    (tmp_path / "rows" / "sft").mkdir(parents=True)
    pq.write_table(pa.table(rows), tmp_path / "rows" / "sft" / "train.parquet")
    found = {}
    for seed, name in [(0, VERIFIED), (0, RIGHT_ONLY), (0, UNFILTERED), (1, VERIFIED), (1, RIGHT_ONLY)]:
        answers = [
            {
                "id": id,
                "text": f"<think>I look at all.</think>\n<answer>{gold if number < RIGHT[name] else 'none'}</answer>",
                "verdicts": {"outcome": {"value": float(number < RIGHT[name]), "reason": ""}},
            }
            for number, (id, gold) in enumerate(golds)
        ]
        path = tmp_path / f"{name}-{seed}.jsonl"
        path.write_text("".join(json.dumps(answer) + "\n" for answer in answers), "utf-8")
        found[Model(name, 0.4, seed)] = Examined(tmp_path / "rows", 12, dict.fromkeys(EXAMS, path))
    return found


def test_means_and_differences_are_of_what_is_done(
    examined: Mapping[Model, Examined], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = collect(examined, tmp_path / "held", ENTRIES)
    assert {(row["rows"], row["faulty_rows"], row["seconds"]) for row in results["models"]} == {(2, 1, 12)}
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


def test_the_figure_shows_each_model_and_is_the_same_twice(examined: Mapping[Model, Examined], tmp_path: Path) -> None:
    output = tmp_path
    (output / "results.json").write_text(json.dumps(collect(examined, tmp_path / "held", ENTRIES)), "utf-8")
    drawn = []
    for name in ("one.svg", "two.svg"):
        assert figure.main([str(output / "results.json"), str(output / name)]) == 0
        drawn.append((output / name).read_text("utf-8"))
    assert drawn[0] == drawn[1] and all(f"{right / 6:.2f}" in drawn[0] for right in RIGHT.values())
