"""Repeats the stages of a finished run for one record, with the stored replies of models and without any request.

So all that the run does not keep is there again: the prompts with their texts and images, the traces that were not
chosen, and the stages that the record passed. ``beam view`` starts this module in a process of its own:

    python -m groundtrace.pipelines.running.replay RUN ID PIPELINE

It prints one JSON object: a :class:`Replayed`, or ``{"error": …}`` with exit code 1. The run folder is only read. What
depends on other records, such as the removal of duplicates, may end differently than in the run.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.inference.settings import Neighbour
from groundtrace.pipelines.running.execute.job import run_job
from groundtrace.pipelines.running.execute.job_folder import Job, job_folder
from groundtrace.pipelines.running.plan.freshness import fresh_since
from groundtrace.pipelines.running.plan.local_run import SETS, LocalRun
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.publishing.reading import InspectError, read_summary
from groundtrace.publishing.view.record import traces_of
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import printable
from groundtrace.stages.plumbing.recipe import Draw
from groundtrace.stages.sources.base import Source
from groundtrace.stages.sources.registry import read_source

_COLUMNS = ("id", "stage", "reason", "detail", "messages", "scores", "verdicts", "traces", "other_traces")
Json = dict[str, Any]


@dataclass(frozen=True)
class Replayed:
    """Holds what the stages did with one record.

    Attributes:
        set, stage, reason, detail: Where the record ended: ``sft``, ``rl`` or ``rejected``; of a rejection, the other
            three fields have the stage, the reason and the explanation, else they are "".
        passed: The stages that the record passed, in order.
        requests: The calls of models in order, as :func:`groundtrace.inference.request_log.log_request` writes them.
        traces: All traces with their verdicts, as :func:`groundtrace.publishing.view.record.traces_of` returns them.
    """

    set: str
    stage: str
    reason: str
    detail: str
    passed: list[str]
    requests: list[Json]
    traces: list[Json]


def replay(run: Path, record_id: str, pipeline: str) -> Replayed:
    """Repeat the stages of the run in the folder ``run`` for the record with this id, and return what they did.

    ``pipeline`` is the name of a bundled pipeline, or the path of a pipeline's file. Raises UserError if the run, its
    input or its pipeline cannot be read any more, or if the input does not have the record.
    """
    summary = read_summary(run)
    with tempfile.TemporaryDirectory(prefix="groundtrace-replay-") as folder:
        here = Path(folder)
        arguments = RunArguments(
            pipeline,
            summary.input,
            str(here / "run"),
            config=str(run / "config.toml"),
            overrides=("write.other_traces=true", "max_failed=1.0"),
        )
        plan = _without_requests(make_plan(arguments), run, here)
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, resume=True)
        context = replace(plan.context, sources=tuple(_only(plan, record_id)))
        with job_folder(plan.folder) as job_files:
            run_job(replace(plan, context=context), Draw(), job_files)
            samples = {stage.name for stage in plan.stages if stage.is_sample}
            calls = [each for each in _lines(here / "requests.jsonl") if each["stage"] not in samples]
            return _outcome(job_files.read(), record_id, calls)


def _without_requests(plan: Plan, run: Path, here: Path) -> Plan:
    """Return the plan with models that take replies from the run's cache, and send nothing.

    The models write their calls to a file. No API key is needed. ``here`` is the folder of the replay.
    """
    endpoints = tuple(
        (name, replace(settings, api_key_env="", api_key_file="")) for name, settings in plan.models.endpoints
    )
    cache = Neighbour(run.name, LocalRun(run).cache_path, fresh_since(run))
    models = replace(plan.models, endpoints=endpoints, neighbours=(cache,), request_log=str(here / "requests.jsonl"))
    return replace(plan, models=models, context=replace(plan.context, models=models))


def _only(plan: Plan, record_id: str) -> Iterator[Source]:
    """Yield the source of the record, so that no other record of it is read. Raises InspectError without the record."""
    store = plan.context.roots.store()
    for source in plan.context.sources:
        for raw in read_source(source, plan.settings.input, store):
            try:
                found = parse_record(raw, plan.recipe.writes_questions).id
            except InvalidRecord as error:
                found = error.record_id
            if found == record_id:
                yield replace(source, only=raw.number)
                return
    raise InspectError(
        f"the input {plan.input.name} has no record {record_id!r} any more: restore the input of the run"
    )


def _outcome(job: Job, record_id: str, requests: list[Json]) -> Replayed:
    """Return what the job did with the record. Raises InspectError if the record is in no set."""
    for name in SETS:
        for file in job.files(name):
            columns = [column for column in _COLUMNS if column in pq.read_schema(file).names]
            rows = pq.read_table(file, columns=columns, filters=[("id", "=", record_id)]).to_pylist()
            if rows:
                [row, *_] = rows
                [end] = [
                    each
                    for table in job.ends
                    for each in pq.read_table(table, columns=["id", "passed"]).to_pylist()
                    if each["id"] == record_id
                ]
                stage, reason, detail = (row.get(column) or "" for column in ("stage", "reason", "detail"))
                return Replayed(name, stage, reason, detail, end["passed"], requests, traces_of(row))
    raise InspectError(f"the record {record_id!r} did not end in any set: run the pipeline again")


def _lines(file: Path) -> list[Json]:
    """Return the objects of a JSON Lines file; empty if the file does not exist, because no model was called."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def main(arguments: list[str]) -> int:
    """Print the outcome of a replay as JSON, and return the exit code.

    ``arguments`` are the run folder, the id of the record, and the pipeline.
    """
    run, record_id, pipeline = arguments
    try:
        answer = asdict(replay(Path(run), record_id, pipeline))
    except UserError as error:
        answer = {"error": printable(str(error))}
    print(json.dumps(answer, ensure_ascii=True))
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
