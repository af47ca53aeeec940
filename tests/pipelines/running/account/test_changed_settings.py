"""The changed settings of the stages: those of endpoints and inputs are left out, and no path is shown."""

from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.settings import settings_from
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.running.account.changed_settings import changed_settings


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
