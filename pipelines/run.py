"""Running a pipeline: prepare the folder, execute the DAG, check conservation, put the outputs in place."""

import datetime
import hashlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import apache_beam as beam

from inference.runtime import runtime
from inference.settings import ModelsSettings
from pipelines.card import write_card
from pipelines.config import load_config, to_toml
from pipelines.context import Outcome, RunContext
from pipelines.counts import ledger, metric_counters, unbalanced, written_counts
from pipelines.inputs import Input, find_input
from pipelines.progress import show_progress
from pipelines.report import write_report
from pipelines.run_folder import RunFolder
from pipelines.runner import choose_runner, pipeline_options
from prompts.loader import load_prompt, prompt_names
from schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from schemas.ordering import order_key
from schemas.records import Draft, Rejected
from stages.counting import clear_board
from stages.ingest_records import MediaRoots
from stages.mine_rubrics import MinedRubrics
from stages.rows import Row, RowContext, rejected_row, rl_row, sft_row
from stages.write_shards import ShardTarget, SizedRow, WriteShards, size_row

PACKAGES = ("schemas", "prompts", "vision", "inference", "rewards", "stages", "pipelines")


class ConservationError(Exception):
    """Records were lost or made up; the outputs were not put in place."""


class PipelineError(Exception):
    """The pipeline file cannot be used."""


@dataclass(frozen=True)
class RunArguments:
    """What the command line says of a run."""

    pipeline: str
    input: str
    output: str
    config: str | None = None
    overrides: Sequence[str] = ()
    limit: int | None = None
    cache: str | None = None
    resume: bool = True
    beam_options: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """A run made ready: the DAG's module, its settings, the input and the folder."""

    module: ModuleType
    settings: Any
    input: Input
    folder: RunFolder
    models: ModelsSettings
    context: RunContext


def make_plan(arguments: RunArguments) -> Plan:
    """Load the pipeline, the config and the input; raises their errors, touches nothing."""
    module = load_pipeline(arguments.pipeline)
    settings = load_config(module.Settings, arguments.config, arguments.overrides)
    found = find_input(arguments.input)
    folder = RunFolder(Path(arguments.output).resolve())
    cache = Path(arguments.cache).resolve() / "replies.sqlite" if arguments.cache else folder.cache_path
    models = ModelsSettings(
        endpoints=tuple(sorted(settings.endpoints.items())),
        roles=tuple(sorted((role, name) for role, name in settings.roles.items() if name)),
        cache_path=str(cache),
        input_root=found.media_root,
        run_root=str(folder.root),
    )
    roots = MediaRoots(found.media_root, str(folder.root))
    return Plan(module, settings, found, folder, models, RunContext(found.sources, roots, models, arguments.limit))


def load_pipeline(path: str) -> ModuleType:
    """The module of a pipeline file. Raises :class:`PipelineError` when it has no Settings, build and RECIPE."""
    file = Path(path)
    if not file.is_file():
        raise PipelineError(f"there is no pipeline {path}; the bundled one is pipelines/grounded_cot.py")
    bundled = file.resolve().parent == Path(__file__).resolve().parent
    name = f"pipelines.{file.stem}" if bundled else f"pipeline_{file.stem}_{order_key(str(file.resolve()))[:12]}"
    module = sys.modules.get(name) or _import_file(name, file)
    missing = [part for part in ("Settings", "build", "RECIPE") if not hasattr(module, part)]
    if missing:
        raise PipelineError(f"{path} is not a pipeline: it defines no {missing[0]}")
    return module


def _import_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{file} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError) as error:
        del sys.modules[name]
        raise PipelineError(f"{file} cannot be imported: {error}") from error
    return module


def execute(arguments: RunArguments) -> dict[str, Any]:
    """Run the pipeline and return the content of run.json.

    Raises :class:`ConservationError` when the counts differ, besides the errors of planning; old outputs then stay.
    """
    options = pipeline_options(arguments.beam_options)
    plan = make_plan(arguments)
    plan.folder.check(plan.input.fingerprint, arguments.resume)
    with plan.folder.locked():
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, arguments.resume)
        started = time.monotonic()
        clear_board()
        pipeline = beam.Pipeline(runner=choose_runner(options), options=options)
        _wire(pipeline, plan)
        try:
            with show_progress():
                result = pipeline.run()
                result.wait_until_finish()
        finally:
            runtime().close(plan.models)
        summary = _summarise(plan, metric_counters(result.metrics()), time.monotonic() - started)
        staging = plan.folder.staging
        (staging / "config.toml").write_text(to_toml(plan.settings), "utf-8")
        (staging / "run.json").write_text(json.dumps(summary, indent=1), "utf-8")
        write_card(staging, summary)
        write_report(staging, plan.folder.root, summary)
        plan.folder.commit()
    return summary


def _wire(pipeline: beam.Pipeline, plan: Plan) -> None:
    """The pipeline's DAG, with its outcome written to the staging folder."""
    outcome: Outcome = plan.module.build(pipeline, plan.context, plan.settings)
    shared = RowContext(plan.module.RECIPE, code_revision(), plan.models.self_judging)
    staging, roots = plan.folder.staging, plan.context.roots

    def target(name: str, schema: Any) -> ShardTarget:
        (staging / name).mkdir()
        return ShardTarget(str(staging / name), schema, roots)

    write = plan.settings.write
    sft = outcome.sft | "SftRows" >> beam.Map(_sized, sft_row, shared)
    _ = sft | "WriteSft" >> WriteShards(target("sft", SFT_SCHEMA), write)
    rl = outcome.rl | "RlRows" >> beam.Map(_sized, rl_row, shared)
    _ = rl | "WriteRl" >> WriteShards(target("rl", RL_SCHEMA), write)
    rejected = outcome.rejected | "RejectedRows" >> beam.Map(_rejected_row)
    _ = rejected | "WriteRejected" >> WriteShards(target("rejected", REJECTED_SCHEMA), write)
    path = str(staging / "rubrics.json")
    _ = outcome.rubrics | "WriteRubrics" >> beam.Map(lambda mined: Path(path).write_text(_rubrics_json(mined), "utf-8"))


def _sized(draft: Draft, as_row: Callable[[Draft, RowContext], Row], shared: RowContext) -> SizedRow:
    return size_row(as_row(draft, shared), _media_bytes(draft))


def _rejected_row(rejected: Rejected) -> SizedRow:
    return size_row(rejected_row(rejected), 0)


def _media_bytes(draft: Draft) -> int:
    """What a row's media take: the originals' files and what was drawn over them."""
    media = (*draft.question.media, *draft.overlays)
    return sum(medium.size_bytes for medium in media)


def _rubrics_json(mined: MinedRubrics) -> str:
    kept = {rubric.id: rubric.stratum for rubric in mined.kept}
    rows = [
        {
            "id": rubric.id,
            "description": rubric.description,
            "criteria": rubric.criteria,
            "applicability": rubric.applicability,
            "pass_rate": rubric.pass_rate,
            "kept": rubric.id in kept,
            "stratum": kept.get(rubric.id),
        }
        for rubric in mined.candidates
    ]
    return json.dumps(
        {"judged": mined.judged, "rubrics": rows, "problems": mined.problems}, indent=1, ensure_ascii=False
    )


def _summarise(plan: Plan, counters: dict[tuple[str, str], int], wall_s: float) -> dict[str, Any]:
    sft, rl, rejected = written_counts(plan.folder.staging)
    read = counters.get(("stage/ingest", "in"), 0)
    problem = unbalanced(read, sft, rl, rejected)
    if problem:
        raise ConservationError(problem)
    stages = {
        namespace.removeprefix("stage/"): {
            "in": counters.get((namespace, "in"), 0),
            "kept": counters.get((namespace, "kept"), 0),
        }
        for namespace in sorted({name for name, _ in counters if name.startswith("stage/")})
    }
    return {
        "recipe": plan.module.RECIPE,
        "input": plan.input.name,
        "counts": {"input": read, "sft": sft, "rl": rl, "rejected": rejected},
        "stages": stages,
        "ledger": ledger(counters),
        "roles": {role: plan.models.endpoint(role).model for role, _ in plan.models.roles},
        "self_judged": plan.models.self_judging,
        "config_sha256": hashlib.sha256(to_toml(plan.settings).encode()).hexdigest(),
        "revision": code_revision(),
        "prompts": {name: load_prompt(name).sha256 for name in prompt_names()},
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_s": round(wall_s, 2),
    }


def code_revision() -> str:
    """The commit of the code, with ``+`` and a digest of the difference when files are changed; the version outside
    git.
    """
    home = Path(__file__).resolve().parent.parent
    try:
        commit = _git(home, "rev-parse", "HEAD").decode().strip()
        changes = _git(home, "diff", "HEAD", "--", *PACKAGES)
    except (OSError, subprocess.CalledProcessError):
        return f"groundtrace {importlib.metadata.version('groundtrace')}"
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:12]}" if changes else commit


def _git(home: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(home), *arguments], capture_output=True, check=True).stdout
