"""RuCL's data side: planted rates come out, the golden rows, one result whatever the order, and the embedded demo."""

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import load_config
from groundtrace.pipelines.rubric_curriculum import Settings
from groundtrace.schemas.ordering import order_key

from .far_server import serving
from .planted_rubrics import Plant, Rates, played_by, write_questions

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = str(ROOT / "pipelines/rubric_curriculum.py")
SAMPLE = ROOT / "data/sample"
GOLDEN = Path(__file__).parent / "golden"
SMALL = Plant({"seen": (1.0, 0.95), "steps": (1.0, 0.4), "units": (0.4, 1.0), "never": (0.0, 0.0)}, right=0.6)
TWENTY: Mapping[str, Rates] = {f"easy{n}": (1.0, 0.97) for n in range(4)} | {
    f"hard{n}": (1.0, 0.2 + 0.1 * n) for n in range(4)
} | {f"rare{n}": (0.05 + 0.07 * n, 0.1 + 0.08 * n) for n in range(11)}  # fmt: skip


@pytest.fixture(scope="session")
def run_rucl(run_beam: Callable[..., Any]) -> Callable[..., Any]:
    """``beam run`` of this recipe, which has to succeed."""

    def run(data: Path, output: Path, *extra: str, **more: Any) -> Any:
        uncapped = ("--set", "rl.max_same_answer=1", "--set", "rl.max_absent=1")  # the questions have few answers
        ran = run_beam(data, output, *uncapped, *extra, pipeline=PIPELINE, **more)
        assert ran.code == 0, ran.err
        return ran

    return run


@pytest.fixture
def questions(tmp_path: Path, write_scene: Callable[..., Path], write_records: Callable[..., Path]) -> Callable:
    return lambda count: write_questions(count, tmp_path / f"questions{count}", write_scene, write_records)


def mined(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "rubrics.json").read_text("utf-8"))


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted((folder / "rl").iterdir())}


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without what code revision and drawing library decide, and without what is null or empty."""
    shown = {
        name: value for name, value in row.items() if name not in ("lineage", "images") and value not in (None, [])
    }
    return shown | {"images": [image["path"] for image in row["images"]]}


@pytest.mark.slow
def test_the_rows_of_a_scripted_run(tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable) -> None:
    """Six questions, of which four are drawn, attempted and judged; all six become rows with the same rubrics."""
    with serving(SMALL.answer) as server:
        ran = run_rucl(questions(6), tmp_path / "run", *played_by(server.url), "--set", "rubrics.sample=4")
        asked = len(server.seen)
    ran.check_balance(6)
    assert asked == 4 + 1 + 4, "an attempt and a judgement for each question of the sample, candidates once"
    drawn = set(sorted((f"q{number}" for number in range(6)), key=order_key)[:4])
    rows = ran.rows("rl")
    assert {row["id"] for row in rows if row["attempts"]} == drawn
    assert all((row["pass_rate"] is None) == (row["id"] not in drawn) for row in rows)
    assert len({json.dumps(row["rubrics"]) for row in rows}) == 1
    written = "".join(json.dumps(readable(row), ensure_ascii=False) + "\n" for row in rows)
    assert written == (GOLDEN / "rubric_curriculum_rl.jsonl").read_text("utf-8")
    found = (tmp_path / "run/rubrics.json").read_text("utf-8") + "\n"
    assert found == (GOLDEN / "rubric_curriculum_rubrics.json").read_text("utf-8")


class Silent(Plant):
    """A judge whose replies hold no scores."""

    def _scores(self, text: str) -> str:
        return "I would rather not say."


@pytest.mark.slow
def test_a_judge_that_gives_no_score_is_told_at_the_end(
    tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable
) -> None:
    with serving(Silent(SMALL.rubrics, right=0.6).answer) as server:
        ran = run_rucl(questions(6), tmp_path / "run", *played_by(server.url))
    assert "rubric_judge: none of its 6 calls had a result" in ran.out
    assert len(mined(tmp_path / "run")["problems"]) == 6


@pytest.mark.slow
def test_two_runs_and_another_order_give_the_same_bytes(
    tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable
) -> None:
    data = questions(12)
    with serving(SMALL.answer) as server:
        options = (*played_by(server.url), "--set", "rubrics.sample=8")
        run_rucl(data, tmp_path / "first", *options)
        lines = (data / "records.jsonl").read_text("utf-8").splitlines(keepends=True)
        (data / "records.jsonl").write_text("".join(random.Random(3).sample(lines, len(lines))), "utf-8")
        run_rucl(data, tmp_path / "second", *options)
    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    assert mined(tmp_path / "first") == mined(tmp_path / "second")


@pytest.mark.slow
def test_planted_rates_lie_in_their_intervals(
    tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable
) -> None:
    """Known applicability, pass rates and policy: 95 % intervals hold them in at least 90 % of the cases, the planted
    strata come out, and nothing but the universal rubrics passes the filter.
    """
    data = questions(120)
    held = []
    for seed in range(3):
        plant = Plant(TWENTY, right=0.35 + 0.2 * seed, seed=seed)
        with serving(plant.answer) as server:
            found = mined(run_rucl(data, tmp_path / f"run{seed}", *played_by(server.url)).folder)
        rows = {row["id"]: row for row in found["rubrics"]}
        assert rows.pop("final_answer_correct")["reason"] == "asks_for_right_answer"
        assert found["judged"] == found["right_answers"]["graded"] == 120
        assert {name: row["stratum"] for name, row in rows.items() if row["kept"]} == {
            name: name[:4] for name in TWENTY if name[:4] != "rare"
        }
        held.append(within(plant.right, found["right_answers"]["pass_rate_interval"]))
        for name, (applicable, met) in TWENTY.items():
            held.append(within(applicable, rows[name]["applicability_interval"]))
            held.append(within(met, rows[name]["pass_rate_interval"]))
    assert len(held) == 3 * (2 * 19 + 1)
    assert sum(held) / len(held) >= 0.9


def within(value: float, interval: list[float]) -> bool:
    return interval[0] - 1e-12 <= value <= interval[1] + 1e-12


@pytest.mark.slow
def test_without_a_teacher_the_default_pool_is_measured(
    tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable
) -> None:
    found = mined(run_rucl(questions(3), tmp_path / "run", "--set", "roles.teacher=").folder)
    assert found["pool"] == "default"
    assert len(found["rubrics"]) == 20
    assert [row["id"] for row in found["rubrics"] if row["kept"]] == ["one_final_part"], "what the engine can judge"
    assert "teacher" not in json.loads((tmp_path / "run/run.json").read_text("utf-8"))["ledger"]


@pytest.mark.slow
def test_every_question_is_attempted_where_a_band_is_set(
    tmp_path: Path, questions: Callable[[int], Path], run_rucl: Callable
) -> None:
    plant = Plant(SMALL.rubrics, right=0.5)
    band = ("--set", "attempt_all=true", "--set", "difficulty.include_low=false", "--set", "rubrics.sample=2")
    with serving(plant.answer) as server:
        ran = run_rucl(questions(10), tmp_path / "run", *played_by(server.url), *band)
    ran.check_balance(10)
    wrong = {f"q{number}" for number in range(10) if not plant.is_right(str(number))}
    assert 0 < len(wrong) < 10
    assert {name for name, end in ran.ends.items() if end == "too_hard"} == wrong
    assert all(row["pass_rate"] == 1.0 for row in ran.rows("rl"))
    assert mined(ran.folder)["judged"] == 2


def test_a_band_needs_attempts_at_every_question() -> None:
    with pytest.raises(ConfigError, match="set attempt_all = true"):
        load_config(Settings, None, ["difficulty.low=0.2"])
    assert load_config(Settings, None, ["rubrics.examples=2"]).rubrics.sample == 2000


def test_the_embedded_engine_makes_rows_with_rubrics(tmp_path: Path, run_rucl: Callable) -> None:
    ran = run_rucl(SAMPLE, tmp_path / "run")
    ran.check_balance(120)
    rows = ran.rows("rl")
    assert len(rows) == 120
    strata = {rubric["id"]: rubric["stratum"] for rubric in rows[0]["rubrics"]}
    assert {*strata} == {"presence", "target", "answer_type", "one_final_part", "conclusion", "grounding"}
    assert {strata["grounding"], strata["one_final_part"]} == {"hard", "easy"}, "a curriculum has both"
    assert rows[0]["prompt"][0]["content"].count("points") == 0, "RuCL's responses need not point"
