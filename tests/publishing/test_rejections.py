"""What a run says if it rejected most or all of its records for one reason."""

import tomllib
from typing import Any

import pytest

from groundtrace.config.settings import settings_from, to_toml
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.publishing.rejections import options_to_keep, why_few_rows, why_no_rows
from groundtrace.publishing.run_text import summary_text
from groundtrace.schemas.loop_step import step_environment
from groundtrace.schemas.run_summary import Counts, RunSummary

HARD = "--set difficulty.low=0 --set difficulty.include_low=true"
EASY = "--set difficulty.high=1 --set difficulty.include_high=true"
EFFECT = "but GRPO learns nothing from the answers to a question at which all attempts are"
NARROW = {"difficulty": {"low": 0.2, "high": 0.8, "include_low": False, "include_high": False}}


def summary(counts: Counts) -> RunSummary:
    return RunSummary("r", "in", counts, {}, {}, {}, {}, "now", 1.0, "rev", "sha", False)


@pytest.mark.parametrize(
    ("counts", "few", "none"),
    [
        (
            Counts(33, 2, 1, {"ingest": {"media_missing": 3}, "difficulty": {"too_easy": 25, "too_hard": 2}}),
            f"25 of 30 usable records were too_easy: to keep them, add {EASY} ({EFFECT} right)",
            "",
        ),
        (
            Counts(5, 1, 0, {"ingest": {"media_missing": 1}, "difficulty": {"too_hard": 3}}),
            f"3 of 4 usable records were too_hard: to keep them, add {HARD} ({EFFECT} wrong)",
            "",
        ),
        (Counts(4, 1, 1, {"difficulty": {"too_easy": 2}}), "", ""),  # half is not most
        (Counts(10, 1, 0, {"verify": {"wrong_answer": 9}}), "", ""),  # no setting keeps them
        (
            Counts(4, 0, 0, {"difficulty": {"too_hard": 4}}),
            "",
            f"all records were rejected, 4 of 4 as too_hard: to see traces all the same, add {HARD}",
        ),
        (Counts(4, 0, 0, {"verify": {"wrong_answer": 4}}), "", "all records were rejected, 4 of 4 as wrong_answer"),
        (Counts(0, 0, 0, {}), "", ""),
    ],
)
def test_why(counts: Counts, few: str, none: str) -> None:
    found = summary(counts)
    assert (why_few_rows(found, NARROW), why_no_rows(found, NARROW)) == (few, none)
    lines = summary_text(found, "RUN", NARROW).splitlines()
    assert [line for line in lines if "--set" in line or line.startswith("no rows")] == (
        [few] if few else [f"no rows: {none}"] if none else []
    )


def test_the_keys_of_a_loop() -> None:
    wanted = "--set rl.set.difficulty.low=0 --set rl.set.difficulty.include_low=true"
    assert options_to_keep("too_hard", NARROW, "rl.set.") == wanted
    assert options_to_keep("wrong_answer", NARROW) == ""


@pytest.mark.parametrize(
    ("band", "easy", "hard"),
    [
        ({}, "--set difficulty.include_high=true", "--set difficulty.include_low=true"),
        ({"high": 0.8, "include_high": True}, "--set difficulty.high=1", "--set difficulty.include_low=true"),
        ({"low": 0.2}, "--set difficulty.include_high=true", HARD),
        ({"include_low": True}, "--set difficulty.include_high=true", ""),
    ],
)
def test_only_settings_that_change_something_are_named(band: dict[str, Any], easy: str, hard: str) -> None:
    config = tomllib.loads(to_toml(settings_from(Settings, {"difficulty": band})))
    assert (options_to_keep("too_easy", config), options_to_keep("too_hard", config)) == (easy, hard)


def test_a_recipe_without_these_settings_has_no_options() -> None:
    assert options_to_keep("too_easy", {"verify": {"min_score": 0.5}}) == ""


def test_in_a_step_of_a_loop_the_advice_names_keys_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in step_environment("rl").items():
        monkeypatch.setenv(name, value)
    few = why_few_rows(summary(Counts(9, 1, 0, {"difficulty": {"too_hard": 8}})), NARROW)
    assert "add --set rl.set.difficulty.low=0 --set rl.set.difficulty.include_low=true (" in few
    assert options_to_keep("too_hard", NARROW, "curate.set.").startswith("--set curate.set.difficulty.low=0")
