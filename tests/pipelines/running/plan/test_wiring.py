"""Wiring a recipe's DAG: its stages and rejections are read from it, and what its author got wrong is one line."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.plan import wiring
from groundtrace.pipelines.running.plan.loading import PipelineError, bundled_names, load_recipe
from groundtrace.pipelines.running.plan.wiring import WiredPipeline, stages_of, wire
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.schemas.columns import Column
from groundtrace.schemas.records import Draft
from groundtrace.stages.clean_questions import CleanQuestions, CleanSettings
from groundtrace.stages.draw_questions import CutToTarget
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Draw, Ends, Recipe, RunContext
from groundtrace.stages.plumbing.stage import REJECTED, DraftStage, RunWork, Stage, Work, apply
from groundtrace.stages.plumbing.stage_list import RecipeError
from groundtrace.stages.sources.base import Source
from groundtrace.stages.verify_traces import VerifySettings, VerifyTraces
from groundtrace.vision.media import MediaRoots
from tests.wired import default_stages

CONTEXT = RunContext(
    (Source("jsonl", "records.jsonl"),), MediaRoots(".", "."), ModelsSettings((), (), "replies.sqlite", ".", ".")
)
TONE = replace(TRACE_SCORERS[0], name="tone")
LIGHT = Column[float]("light", pa.float64(), "how light the image is")
SHADE = Column[str]("shade", pa.string(), "its darkest colour")
Build = Callable[..., Any]


def _same(draft: Draft) -> Draft:
    return draft


@dataclass
class Noop(DraftStage):
    """A stage that keeps everything."""

    stage = Stage("noop", "keeps everything", reasons={"never": "it never happens"})

    def work(self) -> Work:
        """Leaves the draft as it is."""
        return _same


@dataclass
class Measure(Noop):
    """Adds a column to what comes through it."""

    stage = Stage("measure", "images are measured", adds=(LIGHT,))


@dataclass
class Darken(Noop):
    """Adds another one."""

    stage = Stage("darken", "dark images are found", adds=(SHADE,))


class MeasureAndDarken(beam.PTransform):
    """No stage, but two of them in one."""

    def expand(self, drafts: Any) -> Any:
        """What both keep."""
        return (drafts | "Measure" >> Measure()).kept | "Darken" >> Darken()


@dataclass
class Outer(DraftStage):
    """A stage with another one in it, which it does not name."""

    stage = Stage("outer", "has a stage in it")

    def expand(self, drafts: Any) -> Any:
        """As the stage in it."""
        kept = drafts | "Noop" >> Noop()
        return {"kept": kept.kept, REJECTED: kept.rejected}


@dataclass
class Named(Outer):
    """The same, named."""

    inner = (Noop.stage,)


@dataclass
class Dropping(Named):
    """The same, without what the stage in it rejects."""

    def expand(self, drafts: Any) -> Any:
        """What the stage in it keeps."""
        return {"kept": (drafts | "Noop" >> Noop()).kept}


@dataclass
class Plain(DraftStage):
    """A stage that rejects nothing and has one output."""

    stage = Stage("plain", "keeps everything")

    def expand(self, drafts: Any) -> Any:
        """The drafts."""
        return drafts | "Same" >> beam.Map(_same)


@dataclass
class PlainWithReasons(Plain):
    """The same, with a reason to reject."""

    stage = Stage("plain", "keeps everything", reasons={"never": "it never happens"})


class Bare(beam.PTransform):
    """The work of a stage, without one."""

    def expand(self, drafts: Any) -> Any:
        """As the stage."""
        return apply(drafts, "Work", RunWork(Noop.stage, _same))


def _ingest(root: beam.Pipeline, run: RunContext) -> Any:
    return root | "Ingest" >> IngestRecords(run.sources, RunSettings().input, run.roots)


def ending(*transforms: Callable[[], Any]) -> Build:
    """A DAG of these transforms, one behind the other."""

    def build(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
        kept = _ingest(root, run)["kept"]
        for number, make in enumerate(transforms):
            kept = (kept | f"Next{number}" >> make())["kept"]
        return Ends(rl=kept)

    return build


def _clean() -> CleanQuestions:
    return CleanQuestions(CleanSettings())


def _plain(make: Callable[[], Any]) -> Build:
    def build(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
        return Ends(rl=_ingest(root, run)["kept"] | make())

    return build


def _no_kept(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    _ = _ingest(root, run)["kept"] | "Noop" >> Noop()
    return Ends()


def _no_ends(root: beam.Pipeline, run: RunContext, _: Any) -> Any:
    return [_ingest(root, run)["kept"]]


def _reads_nothing(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    nothing: Any = root | beam.Create([])
    return Ends(rl=(nothing | Noop()).kept)


def _taking_rejections(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    kept = _ingest(root, run)["kept"] | "Noop" >> Noop()
    counted = kept.rejected | beam.combiners.Count.Globally() | beam.Map(str)
    return Ends(rl=kept.kept, artifacts={"rejected.json": counted})


def _own_scorer(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    settings = VerifySettings(gate=GateSettings(skip=("spatial", "counting", "temporal", "reasoning", "tone")))
    return Ends(sft=(_ingest(root, run)["kept"] | VerifyTraces(settings, run.models, (*TRACE_SCORERS, TONE))).kept)


def _unknown_floor(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    VerifyTraces(VerifySettings(floors={"tonne": 0.5}), run.models, (*TRACE_SCORERS, TONE))
    return Ends(rl=_ingest(root, run)["kept"])


def _unpacking(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    kept, *_ = _ingest(root, run)["kept"] | "Noop" >> Noop()
    return Ends(rl=kept)


def _broken(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
    return Ends(rl=(_ingest(root, run)["kept"] | Noop()).keptt)


def recipe(build: Build) -> Recipe:
    return Recipe("mine", RunSettings, build)


def wired(build: Build) -> WiredPipeline:
    """The DAG, whose stages are those that are found without wiring what is in them."""
    found = wire(recipe(build), beam.Pipeline(), CONTEXT, RunSettings())
    assert stages_of(recipe(build), CONTEXT, RunSettings()) == found.stages
    return found


@pytest.mark.parametrize(
    ("build", "names", "rejecting"),
    [
        (ending(), "ingest", 1),
        (ending(Noop), "ingest noop", 2),
        (ending(Noop, Measure), "ingest noop measure", 3),
        (ending(Noop, Noop), "ingest noop", 3),
        (ending(MeasureAndDarken, Noop), "ingest measure darken noop", 4),
        (ending(Named), "ingest noop outer", 2),
        (_plain(Plain), "ingest plain", 1),
        (_taking_rejections, "ingest noop", 2),
        (_unpacking, "ingest noop", 2),
    ],
)
def test_stages_and_rejections_are_read_from_the_dag(build: Build, names: str, rejecting: int) -> None:
    found = wired(build)
    assert " ".join(stage.name for stage in found.stages) == names
    assert len(found.rejected) == rejecting
    assert found.ends.sft is None


def test_a_stage_that_a_setting_brings_in_is_listed_where_it_is_wired() -> None:
    def build(root: beam.Pipeline, run: RunContext, settings: Any) -> Ends:
        return ending(*[_clean] * (settings.max_failed > 0.5), Noop)(root, run, settings)

    for max_failed, names in ((0.25, ["ingest", "noop"]), (1.0, ["ingest", "clean", "noop"])):
        settings = RunSettings(max_failed=max_failed)
        assert [stage.name for stage in stages_of(recipe(build), CONTEXT, settings)] == names


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            _no_kept,
            "the recipe 'mine' loses the records that the stage 'noop' keeps: pass them to another stage, or return "
            "them from `build`",
        ),
        (_no_ends, "`build` of the recipe mine returned list: return an `Ends` instead"),
        (
            _reads_nothing,
            "no stage of the recipe mine has the output 'read', which must hold the records of the input: begin the "
            "DAG with IngestRecords, or return this output from your own first stage",
        ),
        (
            ending(Outer),
            "in the recipe mine, the stage outer runs the stage noop without listing it: add the `Stage` object of "
            "noop to the tuple `inner` of the class Outer",
        ),
        (
            ending(Dropping),
            "the recipe 'mine' loses the records that the stage 'noop' rejects: return them as 'rejected' from "
            "the method expand of the class Dropping",
        ),
        (
            _plain(PlainWithReasons),
            "the recipe 'mine' loses the records that the stage 'plain' rejects: return them as 'rejected' from "
            "the method expand of the class PlainWithReasons",
        ),
        (
            ending(Bare),
            "the recipe mine runs the stage noop in a plain Beam transform, so reports would not list this stage: "
            "run it in the method expand of a subclass of DraftStage, as docs/extend.md describes",
        ),
    ],
)
def test_what_a_dag_must_not_do(build: Build, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        wire(recipe(build), beam.Pipeline(), CONTEXT, RunSettings())
    assert str(caught.value) == said


def test_a_set_has_the_columns_of_the_stages_that_its_rows_have_come_through() -> None:
    """What a stage rejects has come through those before it; a side input brings no columns."""

    def build(root: beam.Pipeline, run: RunContext, _: Any) -> Ends:
        measured = _ingest(root, run)["kept"] | "Measure" >> Measure()
        darkened = measured.kept | "Darken" >> Darken()
        ends = {"sft": darkened.kept, "rl": measured.kept} | "Cut" >> CutToTarget(3)
        return Ends(rl=ends["rl"], sft=ends["sft"])

    found = wired(build)
    assert found.added == {"sft": (LIGHT, SHADE), "rl": (LIGHT,), "rejected": (LIGHT, SHADE)}
    assert found.stages.adds == (LIGHT, SHADE)


def test_no_stage_may_reject_rows_that_the_cut_has_counted() -> None:
    def build(root: beam.Pipeline, run: RunContext, last: type[DraftStage]) -> Ends:
        kept = (_ingest(root, run)["kept"] | "Noop" >> Noop()).kept
        ends = {"sft": kept, "rl": kept} | "Cut" >> CutToTarget(run.draw.target_sft)
        return Ends(sft=(ends["sft"] | "Last" >> last()).kept, rl=ends["rl"])

    def wire_with(last: type[DraftStage], draw: Draw) -> None:
        mine = recipe(lambda root, run, _: build(root, run, last))
        wire(mine, beam.Pipeline(), replace(CONTEXT, draw=draw), RunSettings())

    wire_with(Measure, Draw())
    wire_with(Measure, Draw(target_sft=3))
    wire_with(Noop, Draw())
    with pytest.raises(PipelineError) as caught:
        wire_with(Noop, Draw(target_sft=3))
    assert str(caught.value) == (
        "the recipe 'mine' cannot make a target number of SFT rows, because the stage 'noop' can reject rows that the "
        "stage 'cut' has counted: add 'noop' before 'cut', or run without --target-sft"
    )


def test_rejections_have_no_columns_that_only_a_last_stage_adds() -> None:
    assert wired(ending(Measure, Darken)).added == {"rl": (LIGHT, SHADE), "rejected": (LIGHT,)}


def test_a_mistake_in_the_config_stays_one_of_the_config() -> None:
    for look in (stages_of, lambda *given: wire(given[0], beam.Pipeline(), *given[1:])):
        with pytest.raises(ConfigError, match=r"verify\.floors\.tonne: the scorer is unknown"):
            look(recipe(_unknown_floor), CONTEXT, RunSettings())


def test_a_mistake_in_build_is_that_of_the_real_dag() -> None:
    with pytest.raises(ValueError, match="Tag 'keptt' is neither the main tag 'kept' nor any of the tags"):
        stages_of(replace(recipe(_broken), build=lambda *given: (_broken(*given), 1 / 0)), CONTEXT, RunSettings())


def test_a_recipe_has_the_description_of_its_own_scorers() -> None:
    verify = wired(_own_scorer).stages.stage("verify")
    assert verify is not None
    assert verify != VerifyTraces.stage


def test_two_stages_of_one_name_are_refused_before_the_run() -> None:
    @dataclass
    class Other(Noop):
        stage = Stage("noop", "something else")

    with pytest.raises(RecipeError, match="has two different stages with the name 'noop'"):
        stages_of(recipe(ending(Noop, Other)), CONTEXT, RunSettings())


@pytest.mark.parametrize("name", bundled_names())
def test_the_stages_of_a_bundled_recipe_are_found_without_wiring_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a tenth of the time, which every command pays."""
    monkeypatch.setattr(wiring, "wire", None)
    stages = default_stages(load_recipe(name))
    assert stages.stages[0] == IngestRecords.stage
    assert len(stages.stages) > 5
