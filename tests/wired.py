"""The stages that a recipe wires with its settings' defaults, without an input."""

from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.plan.wiring import stages_of
from groundtrace.stages.plumbing.recipe import Recipe, RunContext
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import Source
from groundtrace.vision.media import MediaRoots


def default_stages(recipe: Recipe) -> StageList:
    """The stages of a run with no config over one file of records."""
    settings = recipe.settings()
    models = ModelsSettings(
        tuple(settings.endpoints.items()), tuple(settings.roles.items()), "replies.sqlite", "in", "run"
    )
    context = RunContext((Source("jsonl", "records.jsonl"),), MediaRoots("in", "run"), models)
    return stages_of(recipe, context, settings)
