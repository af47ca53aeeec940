"""Planning a run: the stages of the plan are those of the DAG."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines import grounded_cot
from groundtrace.pipelines.running.plan.first_checks import check_command
from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.plumbing.stage_list import StageList


def test_the_bundled_recipe_can_be_wired(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{}\n", "utf-8")
    plan = make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run")))
    assert plan.recipe == grounded_cot.RECIPE
    assert plan.wire().stages == plan.stages
    assert not (tmp_path / "run").exists()


def test_a_plan_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam makes one for each pipeline, and removes it only after a run."""
    (tmp_path / "records.jsonl").write_text("{}\n", "utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run"))).wire()
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_config_may_be_a_pipe(tmp_path: Path) -> None:
    """The shell's ``<(…)`` gives its text once: if it were read again, the run would have the defaults."""
    (tmp_path / "records.jsonl").write_text("{}\n", "utf-8")
    reader, writer = os.pipe()
    os.write(writer, b"[trace]\nn = 3\n")
    os.close(writer)
    config = f"/dev/fd/{reader}"
    check_command("grounded_cot", str(tmp_path), config, ["attempt.k=5"])
    arguments = RunArguments(
        "grounded_cot", str(tmp_path), str(tmp_path / "run"), config=config, overrides=["attempt.k=5"]
    )
    settings: Any = make_plan(arguments).settings
    os.close(reader)
    assert (settings.trace.n, settings.attempt.k) == (3, 5)


def test_a_dag_that_changes_between_plan_and_run_is_refused(tmp_path: Path) -> None:
    """Funnel and card would be of other stages than those that ran."""
    (tmp_path / "records.jsonl").write_text("", "utf-8")
    plan = make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run")))
    *others, last = plan.stages
    more = Stage("more", "does more")
    for stages, changed in (((*others, last, more), "'more'"), ((last, *others), "the order")):
        with pytest.raises(PipelineError) as caught:
            replace(plan, stages=StageList(stages)).wire()
        assert str(caught.value) == (
            f"two calls of `build` of the recipe grounded_cot added different stages (they differ in {changed}): "
            "in `build`, let only the config decide which stages are added"
        )
