"""Settings that differ: what matters first, and what only another version or recipe explains folded."""

from collections.abc import Mapping
from typing import Any

import pytest

from groundtrace.publishing.comparison.setting_changes import SettingChanges, setting_changes
from groundtrace.publishing.reading import InspectError, read_summary

from .conftest import MakeRun


def changes(
    make_run: MakeRun, a: dict[str, Any], b: dict[str, Any], usual: Mapping[str, Any], names: str = "ab"
) -> SettingChanges:
    runs = [make_run(name, {}, **values) for name, values in zip(names, (a, b), strict=True)]
    first, second = ((run, read_summary(run)) for run in runs)
    return setting_changes(first, second, lambda: usual)


def test_what_matters_comes_first(make_run: MakeRun) -> None:
    config = "[split]\nseed = {0}\n[difficulty]\nhigh = 0.{0}\n[roles]\nteacher = 'e{0}'\n[input]\nname = 'n{0}'\n"
    found = changes(
        make_run,
        {"config": config.format(1), "input": "/data/one"},
        {
            "config": config.format(2),
            "roles": {"teacher": "other"},
            "prompts": {"trace.v1": "1" * 64, "new.v1": "2" * 64},
        },
        {},
    )
    assert found.shown == (
        ("input", "/data/one", "/data/questions"),
        ("model of the teacher", "big-model", "other"),
        ("input.name", "'n1'", "'n2'"),
        ("roles.teacher", "'e1'", "'e2'"),
        ("difficulty.high", "0.1", "0.2"),
        ("split.seed", "1", "2"),
        ("prompt new.v1", "–", "2" * 12),
        ("prompt trace.v1", "0" * 12, "1" * 12),
    )
    assert found.folded == ()


def test_the_floor_that_the_code_of_a_scorer_sets(make_run: MakeRun) -> None:
    """The floors that the config sets are shown as settings."""

    def floors(**values: float) -> dict[str, Any]:
        verify = {"in": 2, "kept": 1, "is_sample": False, "prompts": [], "wall_s": 1.0, "floors": values}
        spatial = f"[verify]\nmin_score = {values['final']}\n[verify.floors]\nspatial = {values['spatial']}\n"
        return {"config": spatial, "stages": {"verify": verify}}

    a, b = floors(spatial=1.0, terse=0.9, final=0.7), floors(spatial=0.5, terse=0.5, final=0.8, other=1.0)
    found = changes(make_run, a, b, {})
    assert found.shown == (
        ("verify.floors.spatial", "1.0", "0.5"),
        ("verify.min_score", "0.7", "0.8"),
        ("floor of terse", "0.9", "0.5"),
        ("floor of other", "–", "1"),
    )
    of_other_recipe = changes(make_run, a | {"recipe": "sort"}, b, {}, "cd")
    assert ("floor of other", "–", "1") in of_other_recipe.folded
    assert [row[0] for row in of_other_recipe.shown if row[0].startswith("floor")] == ["floor of terse"]
    earlier = changes(make_run, {"config": b["config"]}, b, {}, "ef")
    assert not (earlier.shown or earlier.folded), "the run.json of an earlier version lists no floors"


def test_a_default_that_one_config_lacks_is_folded(make_run: MakeRun) -> None:
    new = "[split]\nseed = 0\nby = 'group'\n[trace]\nn = 9\n"
    found = changes(make_run, {"config": "[split]\nseed = 0\n"}, {"config": new}, {"split.by": "group", "trace.n": 8})
    assert found.shown == (("trace.n", "–", "9"),)
    assert found.folded == (("split.by", "–", "'group'"),)
    section = found.section(False)
    assert (len(section.rows), section.more) == (1, "and 1 further setting (--settings shows them)")
    assert (len(found.section(True).rows), found.section(True).more) == (2, "")


def test_of_an_endpoint_of_one_run_only_its_own_values_are_shown(make_run: MakeRun) -> None:
    far = "[endpoints.far]\nkind = 'openai'\nmodel = 'm'\n"
    far += "max_retries = 8\ntimeout_s = 5.0\nserve_args = []\nadaptive = true\n"
    found = changes(make_run, {}, {"config": far}, {})
    assert [row[0] for row in found.shown] == ["endpoints.far.kind", "endpoints.far.model", "endpoints.far.timeout_s"]
    assert len(found.folded) == 3


def test_keys_of_one_recipe_alone_are_folded(make_run: MakeRun) -> None:
    other = {"recipe": "sort", "config": "[sort]\nby = 'size'\n[split]\nseed = 3\n", "prompts": {}, "roles": {}}
    found = changes(make_run, {"config": "[split]\nseed = 0\n"}, other, {})
    assert found.shown == (("recipe", "grounded_cot", "sort"), ("split.seed", "0", "3"))
    assert [row[0] for row in found.folded] == ["sort.by", "model of the teacher", "prompt trace.v1"]


def test_long_values_are_compared_whole(make_run: MakeRun) -> None:
    config = f"keep = '{'x' * 200}{{}}'\n"
    found = changes(make_run, {"config": config.format(1)}, {"config": config.format(2)}, {})
    assert [row[0] for row in found.shown] == ["keep"]


def test_another_content_under_the_same_name_is_named(make_run: MakeRun) -> None:
    runs = [make_run(name, {}) for name in "ab"]
    for run, digest in zip(runs, ("1" * 64, "2" * 64), strict=True):
        (run / "input.json").write_text(f'{{"fingerprint": "{digest}"}}', "utf-8")
    first, second = ((run, read_summary(run)) for run in runs)
    assert setting_changes(first, second).shown == (("content of the input, SHA-256", "1" * 12, "2" * 12),)


def test_a_damaged_config_is_an_error(make_run: MakeRun) -> None:
    with pytest.raises(InspectError, match="damaged"):
        changes(make_run, {"config": "x ="}, {}, {})
