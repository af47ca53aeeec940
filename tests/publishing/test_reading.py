"""Run folders whose JSON files and config have other types than a run writes: each ends in one line with the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.judge_agreement import judge_rows
from groundtrace.publishing.reading import InspectError, read_config, read_rubrics, read_summary
from groundtrace.schemas.run_summary import Counts, RunSummary

NOTHING: dict[str, Any] = {"stages": {}, "ledger": {}, "roles": {}, "prompts": {}}
TEXTS = {"recipe": "r", "input": "in", "finished": "now", "revision": "a", "config_sha256": "b"}
SUMMARY = RunSummary(**TEXTS, **NOTHING, counts=Counts(0, 0, 0, {}), wall_s=1.0, self_judged=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sets": ["sft", "../../other/sft"]}, "the field 'sets' must contain only sft, rl"),
        ({"sets": ["/tmp/sft"]}, "the field 'sets' must contain only sft, rl"),
        ({"recipe": 5}, "recipe: "),
        ({"input": 5}, "input: "),
        ({"finished": 5}, "finished: "),
        ({"revision": {"a": 1}}, "revision: "),
        ({"roles": [1]}, "roles: "),
        ({"roles": {"judge": 5}}, "roles.judge: "),
        ({"prompts": 5}, "prompts: "),
        ({"details": 5}, "details: "),
        ({"warnings": [None]}, "warnings.0: "),
        ({"counts": {"input": 10**400, "sft": 0, "rl": 0, "rejected": {}}}, "a whole number has more than 63 bits"),
        ({"ledger": {"judge": {"stages": {"s": {"calls": None}}}}}, "ledger.judge.stages.s.calls: "),
    ],
)
def test_a_summary_of_other_types_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    fields = SUMMARY.to_fields()
    (tmp_path / "run.json").write_text(json.dumps(fields))
    assert read_summary(tmp_path) == SUMMARY
    (tmp_path / "run.json").write_text(json.dumps(fields | changes))
    with pytest.raises(InspectError, match=rf"run\.json is damaged \({said}.*\): repeat the run$"):
        read_summary(tmp_path)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("judges.json", '{"judges": [5]}', judge_rows),
        ("judges.json", DEEP, judge_rows),
        ("rubrics.json", "[]", read_rubrics),
        ("rubrics.json", '{"rubrics": [5]}', read_rubrics),
        ("rubrics.json", DEEP, read_rubrics),
        ("config.toml", "endpoints = 5", read_config),
        ("config.toml", 'roles = "x"', read_config),
    ],
)
def test_a_file_of_another_form_is_named(name: str, text: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InspectError, match=rf"{name} is damaged \(.+\): [^\n]*$"):
        read(tmp_path)
