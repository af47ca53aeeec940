"""The differences between the configs of two runs: a section that only one of them has is one difference."""

import tomllib
from typing import Any

import pytest

from groundtrace.config.flat import default_values
from groundtrace.config.settings import settings_from, to_toml
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.running.account.config_changes import config_changes

DEFAULTS = default_values(Settings)
MODEL = {"kind": "openai", "base_url": "http://localhost:8000/v1", "model": "qwen", "max_retries": 3}
SHOWN = "kind = 'openai', model = 'qwen', base_url = 'http://localhost:8000/v1', max_retries = 3"


def config(**values: Any) -> dict[str, Any]:
    return tomllib.loads(to_toml(settings_from(Settings, values)))


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


CHANGES = {
    "nothing": ({}, {}, []),
    "a value": ({}, {"trace": {"n": 4}}, [("trace.n", "8", "4")]),
    "a new endpoint": ({}, {"endpoints": {"mine": MODEL}}, [("endpoints.mine", "(none)", SHOWN)]),
    "a removed endpoint": ({"endpoints": {"mine": MODEL}}, {}, [("endpoints.mine", SHOWN, "(none)")]),
    "an endpoint in both": (
        {"endpoints": {"mine": MODEL}},
        {"endpoints": {"mine": MODEL | {"max_retries": 4}}},
        [("endpoints.mine.max_retries", "3", "4")],
    ),
    "a new table in a section": (
        {},
        {"verify": {"scorers": {"brevity": {"words": 9}}}},
        [("verify.scorers.brevity", "(none)", "words = 9")],
    ),
    "a long value": (
        {"input": {"keep": ["a" * 90, "b"]}},
        {"input": {"keep": ["a" * 90, "c"]}},
        [("input.keep", *(f"['{'a' * 75}..." for _ in range(2)))],
    ),
}


@pytest.mark.parametrize(("old", "new", "changes"), CHANGES.values(), ids=CHANGES)
def test_what_differs(old: dict[str, Any], new: dict[str, Any], changes: list[tuple[str, str, str]]) -> None:
    assert [*config_changes(config(**old), config(**new), DEFAULTS)] == changes


def test_a_section_that_an_older_version_lacks() -> None:
    now = config()
    assert [*config_changes(without(now, "dedup"), now, DEFAULTS)] == [], "all its values are the defaults"
    changed = now | {"dedup": now["dedup"] | {"near": False}}
    assert [*config_changes(without(now, "dedup"), changed, DEFAULTS)] == [("dedup", "(none)", "near = False")]
    [(key, old, new)] = config_changes(without(now, "dedup"), now, {})
    assert (key, old) == ("dedup", "(none)") and "near = True" in new, "without defaults, all values are listed"
