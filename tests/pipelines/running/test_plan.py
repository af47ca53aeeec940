"""Wiring a recipe's DAG: what its author got wrong is said in one line, and no record gets lost."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines import grounded_cot
from groundtrace.pipelines.running.loading import PipelineError
from groundtrace.pipelines.running.plan import RunArguments, check_kept_names, check_wiring, make_plan, wire
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.registry import SCORERS
from groundtrace.schemas.columns import Column
from groundtrace.schemas.config import ConfigError
from groundtrace.schemas.records import Draft
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.draw_questions import CutToTarget
from groundtrace.stages.ingest_records import IngestRecords, MediaRoots
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.stages.sources.base import Source
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces, describe

CONTEXT = RunContext(
    (Source("jsonl", "records.jsonl"),), MediaRoots(".", "."), ModelsSettings((), (), "replies.sqlite", ".", ".")
)
TONE = replace(SCORERS[0], name="tone")


@dataclass
class Noop(DraftStage):
    """A stage that keeps everything."""

    stage = Stage("noop", "keeps everything")

    def work(self) -> Callable[[Draft], Draft]:
        return _same


def _same(draft: Draft) -> Draft:
    return draft


def _ingest(root: beam.Pipeline, run: RunContext) -> Any:
    return root | "Ingest" >> IngestRecords(run.sources, RunSettings().input, run.roots)


def _right(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    kept = ingested["kept"] | "Noop" >> Noop()
    return Ends(rejected=[ingested["rejected"], kept.rejected], rl=kept.kept)


def _rejected_by_another_way(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    kept = ingested["kept"] | "Noop" >> Noop()
    both = (ingested["rejected"], kept.rejected) | "Both" >> beam.Flatten()
    return Ends(rejected=[both], rl=kept.kept)


def _no_rejected(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    kept = ingested["kept"] | "Noop" >> Noop()
    return Ends(rejected=[ingested["rejected"]], rl=kept.kept)


def _no_kept(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    kept = ingested["kept"] | "Noop" >> Noop()
    return Ends(rejected=[ingested["rejected"], kept.rejected])


def _no_ends(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Any:
    return [_ingest(root, run)["kept"]]


def _unlisted(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    cleaned = ingested["kept"] | "Clean" >> CleanQuestions(CleanSettings())
    return Ends(rejected=[ingested["rejected"], cleaned.rejected], rl=cleaned.kept)


def _own_scorer(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    ingested = _ingest(root, run)
    settings = VerifySettings(gate=GateSettings(skip=("spatial", "counting", "temporal", "reasoning", "tone")))
    verified = ingested["kept"] | "Verify" >> VerifyTraces(settings, run.models, (*SCORERS, TONE))
    return Ends(rejected=[ingested["rejected"], verified.rejected], sft=verified.kept)


def _unknown_floor(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
    VerifyTraces(VerifySettings(floors={"tonne": 0.5}), run.models, (*SCORERS, TONE))
    return _right(root, run, RunSettings())


def recipe(build: Callable[..., Any], *stages: Stage) -> Recipe:
    return Recipe("mine", RunSettings, build, (IngestRecords.stage, Noop.stage, *stages))


def wired(made: Recipe) -> Ends:
    return wire(made, beam.Pipeline(), CONTEXT, RunSettings()).ends


@pytest.mark.parametrize("build", [_right, _rejected_by_another_way])
def test_a_dag_that_ends_every_record(build: Callable[..., Ends]) -> None:
    ends = wired(recipe(build))
    assert ends.rl is not None
    assert ends.sft is None


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (_no_rejected, "the recipe mine loses what the stage noop rejects: list it in Ends(rejected=…)"),
        (_no_kept, "the recipe mine loses what the stage noop keeps: no stage takes it and it is not an end"),
        (_no_ends, "the recipe mine: build returned list instead of Ends"),
        (_unlisted, "the recipe mine wires the stage clean and does not list it in stages"),
    ],
)
def test_what_a_dag_must_not_do(build: Callable[..., Any], said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        wired(recipe(build))
    assert str(caught.value) == said


LIGHT = Column[float]("light", pa.float64(), "how light the image is")
SHADE = Column[str]("shade", pa.string(), "its darkest colour")


@dataclass
class Measure(DraftStage):
    """Adds a column to what comes through it."""

    stage = Stage("measure", "images are measured", adds=(LIGHT,))

    def work(self) -> Work:
        """Leaves the draft as it is."""
        return _same


@dataclass
class Darken(Measure):
    """Adds another one."""

    stage = Stage("darken", "dark images are found", adds=(SHADE,))


def test_a_set_has_the_columns_of_the_stages_that_its_rows_have_come_through() -> None:
    """What a stage rejects has come through those before it; a side input brings no columns."""

    def build(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
        ingested = _ingest(root, run)
        measured = ingested["kept"] | "Measure" >> Measure()
        darkened = measured.kept | "Darken" >> Darken()
        ends = {"sft": darkened.kept, "rl": measured.kept} | "Cut" >> CutToTarget(3)
        rejected = [ingested["rejected"], measured.rejected, darkened.rejected, ends["rejected"]]
        return Ends(rejected=rejected, rl=ends["rl"], sft=ends["sft"])

    made = Recipe("mine", RunSettings, build, (IngestRecords.stage, Darken.stage, Measure.stage, CutToTarget.stage))
    found = wire(made, beam.Pipeline(), CONTEXT, RunSettings())
    assert found.added == {"sft": (SHADE, LIGHT), "rl": (LIGHT,), "rejected": (SHADE, LIGHT)}
    assert made.adds == (SHADE, LIGHT)


def test_rejections_have_no_columns_that_only_a_last_stage_adds() -> None:
    def build(root: beam.Pipeline, run: RunContext, _: RunSettings) -> Ends:
        ingested = _ingest(root, run)
        measured = ingested["kept"] | "Measure" >> Measure()
        darkened = measured.kept | "Darken" >> Darken()
        return Ends(rejected=[ingested["rejected"], measured.rejected, darkened.rejected], rl=darkened.kept)

    made = Recipe("mine", RunSettings, build, (IngestRecords.stage, Measure.stage, Darken.stage))
    found = wire(made, beam.Pipeline(), CONTEXT, RunSettings())
    assert found.added == {"rl": (LIGHT, SHADE), "rejected": (LIGHT,)}


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("question", pa.string(), "m"), "adds the column question, and the rows have another of that name"),
        (Column("Images", pa.string(), "m"), "adds the column Images, and the rows have another of that name"),
        (Column("light", pa.int32(), "m"), "adds the column light, and another stage declares another of that name"),
    ],
)
def test_a_name_has_one_meaning(column: Column[Any], said: str) -> None:
    stage = Stage("other", "something else", adds=(column,))
    with pytest.raises(ValueError, match=f"the recipe mine: the stage other {said}: rename it"):
        Recipe("mine", RunSettings, _right, (Measure.stage, stage))


@pytest.mark.parametrize("name", ["question", "LIGHT", "complexity", "cost_usd"])
def test_a_kept_column_takes_no_name_of_the_rows(name: str) -> None:
    made = Recipe("mine", RunSettings, _right, (Measure.stage,))
    with pytest.raises(ConfigError, match=f"input.keep: rows have a column {name.casefold()} of their own: rename"):
        check_kept_names(made, [name])
    check_kept_names(made, ["collected_by"])


def test_a_mistake_in_the_config_stays_one_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"verify\.floors\.tonne: there is no such scorer"):
        wired(recipe(_unknown_floor))


def test_a_recipe_lists_the_description_that_it_wires() -> None:
    assert wired(recipe(_own_scorer, describe((*SCORERS, TONE)))).sft is not None
    with pytest.raises(PipelineError, match="lists the stage verify with another description"):
        wired(recipe(_own_scorer, VerifyTraces.stage))


def test_the_bundled_recipe_can_be_wired(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{}\n", "utf-8")
    plan = make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run")))
    assert plan.recipe == grounded_cot.RECIPE
    check_wiring(plan)
    assert not (tmp_path / "run").exists()


REAL = ("endpoints.vlm.kind=openai", "endpoints.vlm.model=m", "endpoints.vlm.base_url=http://h/v1")
REAL = (*REAL, "endpoints.vlm.family=qwen3-vl", "roles.teacher=vlm")


def planned(tmp_path: Path, *overrides: str) -> Any:
    (tmp_path / "records.jsonl").write_text("", "utf-8")
    return make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run"), overrides=overrides))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ((), "roles.pointer is the embedded engine, which finds drawn shapes only, beside roles.teacher: name an"),
        (("roles.pointer=vlm",), "roles.detector is the embedded engine"),
        (("roles.pointer=vlm", "roles.detector=vlm"), "roles.segmenter is the embedded engine"),
        (("roles.pointer=vlm", "roles.detector=edges"), "roles.segmenter is the embedded engine"),
        (("roles.pointer=vlm", "roles.detector=vlm", "roles.segmenter=edges"), "or set allow_embedded = true"),
    ],
)
def test_the_embedded_engine_beside_real_models_is_refused(
    tmp_path: Path, overrides: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, *REAL, *overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        (*REAL, "allow_embedded=true"),
        (*REAL, "roles.pointer=vlm", "roles.detector=vlm", "roles.segmenter="),
        (*REAL, "roles.pointer=colour", "roles.detector=edges", "roles.segmenter="),
        (*REAL, "roles.teacher=colour", "roles.judge=vlm"),  # a judge says nothing of the images
        (*REAL, "endpoints.vlm.kind=mine:Own"),  # of which nothing is known
        (),
    ],
)
def test_the_embedded_engine_where_it_may_look(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    assert planned(tmp_path, *overrides).recipe.name == "grounded_cot"


def test_a_config_file_names_roles_too(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text('[roles]\npointer = "colour"\ndetector = "edges"\nsegmenter = ""\n', "utf-8")
    (tmp_path / "records.jsonl").write_text("", "utf-8")
    arguments = RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run"), str(config), REAL)
    assert dict(make_plan(arguments).models.roles)["detector"] == "edges"
