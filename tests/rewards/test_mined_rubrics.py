"""RuCL App. D.2: figures with their intervals, what they leave open, and what rubrics.json says."""

import json
from pathlib import Path

import numpy as np
import pytest

from groundtrace.rewards.mined_rubrics import (
    MinedRubrics,
    RubricFigures,
    figures_of,
    missing_stratum,
    rubrics_json,
    uncertain_about,
)
from groundtrace.rewards.rubrics import RubricScore, RubricSettings, measure, stratify
from groundtrace.schemas.records import Rubric

PAPER = json.loads((Path(__file__).parent / "data" / "rucl_table6.json").read_text(encoding="utf-8"))
GOLD_CHECK = PAPER["gold_answer_check"]


def rubric(name: str, applicability: float = 0.0, pass_rate: float | None = None, stratum: str = "") -> Rubric:
    return Rubric(name, f"what {name}", f"when {name}", applicability, pass_rate, stratum)


def test_intervals_are_those_of_the_counts() -> None:
    found = figures_of(rubric("a", 0.5, 0.5), 20)
    assert found.applicability_interval == (pytest.approx(0.2993, abs=5e-5), pytest.approx(0.7007, abs=5e-5))
    assert found.pass_rate_interval == (pytest.approx(0.2366, abs=5e-5), pytest.approx(0.7634, abs=5e-5))
    never = figures_of(rubric("a", 0.0, None), 10)
    assert (never.pass_rate, never.pass_rate_interval) == (None, None)


@pytest.mark.parametrize(
    ("eta", "p", "is_kept", "left_open"),
    [
        ((0.995, 1.0), (0.85, 0.95), True, ()),
        ((0.985, 1.0), (0.85, 0.95), True, ("filter",)),
        ((0.995, 1.0), (0.75, 0.85), True, ("stratum",)),
        ((0.985, 0.995), (0.75, 0.85), True, ("filter", "stratum")),
        ((0.985, 0.995), (0.75, 0.85), False, ("filter",)),
        ((0.2, 0.3), (0.75, 0.85), False, ()),
        ((0.2, 0.99), (0.75, 0.85), False, ("filter",)),
        ((0.99, 1.0), (0.8, 0.9), True, ()),
        ((0.2, 0.3), None, False, ()),
    ],
)
def test_what_an_interval_leaves_open(eta, p, is_kept, left_open) -> None:
    figures = RubricFigures(eta[0], eta, None if p is None else p[0], p)
    assert uncertain_about(figures, is_kept, RubricSettings()) == left_open


def mined_table6(judged: int) -> MinedRubrics:
    rows = PAPER["candidates"].items()
    measured = tuple(rubric(name, eta / 100, p / 100) for name, (eta, p) in rows if name != GOLD_CHECK)
    kept = stratify(measured, RubricSettings())
    return MinedRubrics(kept, measured, judged, apart=(rubric(GOLD_CHECK),), pool="teacher", graded=judged, right=958)


def test_rucl_table6_as_a_file() -> None:
    """The paper's figures on its N = 2,000: six survive, and what 2,000 questions leave open is said."""
    content = json.loads(rubrics_json(mined_table6(2000), RubricSettings()))
    rows = {row["id"]: row for row in content["rubrics"]}
    assert len(rows) == 20
    assert {name: row["stratum"] for name, row in rows.items() if row["kept"]} == {
        name: stratum for name, (_, stratum) in PAPER["strata"].items()
    }
    assert rows["11"]["pass_rate_interval"] == [pytest.approx(0.6734, abs=1e-3), pytest.approx(0.7138, abs=1e-3)]
    assert {name: row["uncertain_about"] for name, row in rows.items() if row["uncertain"]} == {
        "01": ["filter"], "02": ["filter"], "13": ["filter"],
    }  # fmt: skip
    assert {row["reason"] for row in rows.values() if not row["kept"]} == {"low_applicability", "asks_for_right_answer"}
    assert rows[GOLD_CHECK]["reason"] == "asks_for_right_answer"
    assert rows[GOLD_CHECK]["applicability"] is None
    assert content["right_answers"]["pass_rate"] == pytest.approx(0.479)


def test_what_the_curriculum_of_a_training_needs() -> None:
    content = json.loads(rubrics_json(MinedRubrics(), RubricSettings()))
    assert content["curriculum"] == {
        "ramp_steps": None, "alpha": 0.7, "window": 20, "tau": 0.9, "lambda_max": 1.0, "lambda_base": 0.0,
        "require_place": True, "growth": "sigmoid", "aggregation": "stratified",
    }  # fmt: skip
    assert (content["judged"], content["pool"], content["rubrics"]) == (0, None, [])
    assert content["right_answers"] == {"graded": 0, "pass_rate": None, "pass_rate_interval": None}


def test_the_reason_of_a_rubric_that_never_applied() -> None:
    mined = MinedRubrics((), (rubric("a", 0.0, None), rubric("b", 0.5, 1.0)), 10, pool="teacher")
    rows = json.loads(rubrics_json(mined, RubricSettings(min_applicability=0.0)))["rubrics"]
    assert [row["reason"] for row in rows] == ["never_applicable", "low_applicability"]


def drawn_score(name: str, eta: float, p: float, draw: np.random.Generator) -> RubricScore:
    applies = bool(draw.random() < eta)
    return RubricScore(name, applies, int(draw.random() < p) if applies else None)


@pytest.mark.slow
def test_planted_rates_lie_in_their_intervals_as_often_as_stated() -> None:
    """20 rubrics with known applicability and pass rates, judged on 300 attempts, 50 times: coverage of 95 % intervals.

    2,000 intervals cover 1,900 on average with a standard error of 10.
    """
    draw = np.random.default_rng(7)
    planted = {f"r{i:02}": (draw.uniform(0.05, 1.0), draw.uniform(0.02, 0.98)) for i in range(20)}
    rubrics = tuple(rubric(name) for name in planted)
    covered = total = 0
    for _ in range(50):
        rows = [tuple(drawn_score(name, *rates, draw) for name, rates in planted.items()) for _ in range(300)]
        for found in measure(rubrics, rows):
            figures, (eta, p) = figures_of(found, 300), planted[found.id]
            assert figures.pass_rate_interval is not None
            covered += figures.applicability_interval[0] <= eta <= figures.applicability_interval[1]
            covered += figures.pass_rate_interval[0] <= p <= figures.pass_rate_interval[1]
            total += 2
    assert 0.93 <= covered / total <= 0.97


@pytest.mark.parametrize(
    ("strata", "said"),
    [(["easy", "hard", None], ""), (["easy", "easy"], "No hard"), (["hard", None], "No easy"), ([None], ""), ([], "")],
)
def test_a_curriculum_on_one_stratum_is_told_of(strata, said) -> None:
    rubrics = {"rubrics": [{"kept": stratum is not None, "stratum": stratum} for stratum in strata]}
    found = missing_stratum(rubrics)
    assert found.startswith(said) and bool(found) is bool(said)
