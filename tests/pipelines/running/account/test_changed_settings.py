"""The changed settings of the stages: those of endpoints and inputs are left out, and no path is shown."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import pytest

from groundtrace.config.settings import settings, settings_from
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.running.account.changed_settings import changed_settings
from groundtrace.pipelines.running.settings import RunSettings


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ({}, {}),
        ({"verify": {"min_score": 0.7}, "attempt": {"k": 4}}, {}),
        ({"verify": {"floors": {"spatial": 0.0}}}, {"verify.floors.spatial": ("0", "1")}),
        ({"verify": {"gate": {"skip": ["spatial"]}}}, {"verify.gate.skip": ("spatial", "none")}),
        ({"difficulty": {"include_high": True}}, {"difficulty.include_high": ("true", "false")}),
        ({"verify": {"scorers": {"brevity": {"words": 9}}}}, {"verify.scorers.brevity.words": ("9", "none")}),
        ({"input": {"keep": ["author"]}, "max_failed": 0.5, "write": {"shards": 7}}, {}),
    ],
)
def test_what_differs_from_the_defaults(values: dict[str, Any], changed: dict[str, tuple[str, str]]) -> None:
    found = changed_settings(settings_from(Settings, values))
    assert {name: (pair["value"], pair["default"]) for name, pair in found.items()} == changed


def test_of_a_path_only_the_last_part_is_shown(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()
    settings = settings_from(Settings, {"decontaminate": {"benchmark": str(tmp_path)}})
    assert changed_settings(settings) == {"decontaminate.benchmark": {"value": tmp_path.name, "default": "none"}}


@settings
class Tables(RunSettings):
    """Holds a list of tables, by name, and a mapping with free names."""

    tables: Annotated[tuple[Mapping[str, str], ...], "the tables"] = ()
    weights: Annotated[Mapping[str, float], "the weight of each file"] = field(default_factory=dict)


@settings
class Required(RunSettings):
    """Holds a setting that must be set."""

    name: Annotated[str, "the name"] = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must be set")


def test_no_path_is_shown_inside_a_list_or_as_a_key() -> None:
    found = changed_settings(Tables(tables=({"path": "/home/ann/x.csv"},), weights={"/home/ann/y": 2.0}))
    assert found == {
        "tables": {"value": "path x.csv", "default": "none"},
        "weights.y": {"value": "2", "default": "none"},
    }


def test_a_recipe_without_defaults_has_no_list() -> None:
    """The list is made at the end of a run, which must not fail because of it."""
    assert changed_settings(Required(name="mine")) is None


@settings
class Words:
    """Holds the settings of a stage of a user."""

    max_words: Annotated[int, "the most words"] = 24


@settings
class WithWords(Settings):
    """Adds a stage of a user to a bundled recipe."""

    words: Words = field(default_factory=Words)


def test_all_settings_of_a_users_stage_are_listed() -> None:
    assert changed_settings(WithWords()) == {"words.max_words": {"value": "24", "default": "24"}}
