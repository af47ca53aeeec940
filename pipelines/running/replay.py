"""Repeats the stages of a finished run for one record, with the stored replies of models and without any request.

So the user can see data that the run did not keep: the prompts with their texts and images, the teacher model's traces
(responses) that were not chosen, and the stages that the record passed. The run folder is only read. A stage that also
depends on other records, such as the removal of duplicates, may have another result than in the run.

``beam view`` starts this module in a process of its own (:mod:`groundtrace.publishing.view.replays`). The process reads
a JSON object from its standard input, with six keys: ``run`` (its folder), ``id`` (of the record), ``pipeline``,
``cache`` (the folder of the cache), ``view`` (the process id of ``beam view``), and ``folder`` (for temporary files).
It writes a JSON object to the file ``answer.json`` in ``folder``: a :class:`Replayed`, or ``{"error": …}`` if the
replay failed.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.settings import ModelsSettings, Neighbour
from groundtrace.pipelines.running.execute.job import run_job
from groundtrace.pipelines.running.execute.job_folder import Job, job_folder
from groundtrace.pipelines.running.foreign_run import harmless
from groundtrace.pipelines.running.plan.loading import bundled_file
from groundtrace.pipelines.running.plan.local_run import SETS
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.publishing.reading import InspectError, read_summary
from groundtrace.publishing.view.model_marks import ROLES, ModelMarks, images_of, model_marks
from groundtrace.publishing.view.record import traces_of
from groundtrace.publishing.view.replays import ANSWER
from groundtrace.publishing.view.replies import cache_file, read_replies, with_replies
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import own_file
from groundtrace.schemas.text import printable, storable
from groundtrace.stages.plumbing.recipe import Draw
from groundtrace.stages.sources.base import Source
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.media import MediaStore

CHECK_EVERY_S = 0.5
_COLUMNS = (
    *("id", "stage", "reason", "detail", "messages", "scores", "verdicts", "traces", "other_traces"),
    *("images", "frames", "media"),
)
Json = dict[str, Any]


@dataclass(frozen=True)
class Replayed:
    """Holds what the stages did with one record.

    Attributes:
        set: The set in which the record ended: ``sft``, ``rl`` or ``rejected``.
        stage, reason, detail: If the record was rejected, the stage that rejected it, the reason and the explanation;
            otherwise "".
        passed: The stages that the record passed, in order.
        requests: The calls of models in order, as :func:`groundtrace.inference.request_log.log_request` writes them,
            with their stored replies (:func:`groundtrace.publishing.view.replies.with_replies`).
        traces: All traces (responses of the teacher model) with their verdicts (results of checks), as
            :func:`groundtrace.publishing.view.record.traces_of` returns them.
        marks: The boxes, points and masks in the replies of the models that locate objects: detector, pointer and
            segmenter.
        notes: The reasons why the boxes, points and masks of some replies are not in ``marks``
            (:class:`groundtrace.publishing.view.model_marks.ModelMarks`).
    """

    set: str
    stage: str
    reason: str
    detail: str
    passed: list[str]
    requests: list[Json]
    traces: list[Json]
    marks: list[Json]
    notes: list[str]


def replay(run: Path, record_id: str, pipeline: str = "", cache: Path | None = None) -> Replayed:
    """Repeat the stages of the run in the folder ``run`` for the record with the id ``record_id``, and return what the
    stages did.

    ``pipeline`` is the path of the pipeline's file; "" for the bundled pipeline that the run names. With "", a run that
    needs a user's own code, another config file, or data that is not on this machine is refused with a UserError. The
    reason is that somebody else may have made the run (:func:`groundtrace.pipelines.running.foreign_run.harmless`).
    Also raises UserError if the run, its stored replies, its input or its pipeline cannot be read any more, or if the
    input does not have the record. ``cache`` is the folder of the reply cache (the stored replies); None for the cache
    in the run folder.
    """
    summary = read_summary(run)
    read_replies(run, [""], cache)  # an error if the cache cannot be read
    with (
        nullcontext() if pipeline else harmless(run, summary),
        tempfile.TemporaryDirectory(prefix="groundtrace-replay-") as folder,
    ):
        here = Path(folder)
        arguments = RunArguments(
            pipeline or str(bundled_file(summary.recipe)),
            summary.input,
            str(here / "run"),
            config=str(own_file(run, "config.toml")),
            overrides=("write.other_traces=true", "max_failed=1.0"),
        )
        replies = Neighbour(run.name, str(cache_file(run, cache)), summary.fresh_since or "")
        plan = _without_requests(make_plan(arguments), replies, here)
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, resume=True)
        context = replace(plan.context, sources=tuple(_only(plan, record_id)))
        with job_folder(plan.folder) as job_files:
            run_job(replace(plan, context=context), Draw(), job_files)
            samples = {stage.name for stage in plan.stages if stage.is_sample}
            calls = [each for each in _lines(here / "requests.jsonl") if each["stage"] not in samples]
            done = _outcome(job_files.read(), record_id, calls, plan.models)
            return replace(done, requests=with_replies(run, done.requests, summary.fresh_since or "", cache))


def _without_requests(plan: Plan, replies: Neighbour, here: Path) -> Plan:
    """Return the plan with models that take their replies from the cache ``replies``, and send nothing.

    The models write their calls to the file requests.jsonl in the temporary folder ``here``. No API key is needed.
    """
    endpoints = tuple(
        (name, replace(settings, api_key_env="", api_key_file="")) for name, settings in plan.models.endpoints
    )
    models = replace(plan.models, endpoints=endpoints, neighbours=(replies,), request_log=str(here / "requests.jsonl"))
    return replace(plan, models=models, context=replace(plan.context, models=models))


class _Unwritten(MediaStore):
    """Replaces a MediaStore when only the ids of records are needed: it does not write the media that rows contain."""

    def write_drawn(self, data: bytes, ext: str) -> str:
        """Return a made-up URI for a medium, and write no file.

        The base class writes the medium (its bytes ``data``) to a file with the extension ``ext``, and returns the URI
        of this file. But the search for a record's id needs no such file.
        """
        return f"unwritten.{ext}"


def _only(plan: Plan, record_id: str) -> Iterator[Source]:
    """Yield the files of a run's input that hold the record ``record_id``. Of each file, only this record will be read.

    ``plan`` holds the input of the run. Several records of the input may have the same id. In the run, at most one of
    them keeps this id, and the others get the id ``ID#NUMBER``; NUMBER is the line or row of the record in the input.
    For each of these ids, all records with the same id in the input are read. A record without an id gets the id
    ``line#NUMBER``; only this record is read. Raises InspectError if the record is not found.
    """
    store, places = _Unwritten("", ""), dict[tuple[int, int], str | None]()
    for place, source in enumerate(plan.context.sources):
        for raw in read_source(source, plan.settings.input, store):
            try:
                found: str | None = parse_record(raw, plan.recipe.writes_questions).id
            except InvalidRecord as error:
                found = error.record_id
            places[place, raw.number] = None if found is None else storable(found)
    wanted = {at for at, found in places.items() if found == record_id}
    made = re.fullmatch(r"(.*)#([0-9]{1,18})", record_id, re.DOTALL)
    if not wanted and made:
        base, number = made[1], int(made[2])
        at = next((at for at in places if at[1] == number), None)
        if at is not None and places[at] == base:
            wanted = {each for each, found in places.items() if found == base}
        elif at is not None and places[at] is None and base == "line":
            wanted = {at}
    if not wanted:
        raise InspectError(
            f"the input {plan.input.name} has no record {record_id!r:.200} any more: restore the input of the run"
        )
    for place, source in enumerate(plan.context.sources):
        if numbers := tuple(number for each, number in sorted(wanted) if each == place):
            yield replace(source, only=numbers)


def _outcome(job: Job, record_id: str, calls: list[Json], models: ModelsSettings) -> Replayed:
    """Return what the job did with the record ``record_id``. ``calls`` are the calls to ``models`` that were made for
    it.

    Raises InspectError if the record is in none of the sets ``sft``, ``rl`` and ``rejected``.
    """
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
                if not end["passed"]:
                    calls = []  # they were made for another record with the same id
                stage, reason, detail = (row.get(column) or "" for column in ("stage", "reason", "detail"))
                marked = _marked(calls, row, models)
                shown = [{key: each[key] for key in each if key != "variables"} for each in calls]
                made = (end["passed"], shown, traces_of(row), marked.marks, marked.notes)
                return Replayed(name, stage, reason, detail, *made)
    raise InspectError(
        f"the replay repeated the stages of the run for the record {record_id!r}, but the record is not in their "
        "output. Perhaps the pipeline or the input has changed since the run: execute the `beam run` command of this "
        "run again"
    )


def _marked(calls: list[Json], row: Json, models: ModelsSettings) -> ModelMarks:
    """Return the boxes, points and masks in the replies to ``calls``, the model calls that were made for a record.

    ``row`` is the record's output row, which holds the images. The replies are in the cache of ``models``.
    """
    keys = [key for each in calls if each["role"] in ROLES for key in each["stored"]]
    with closing(ReplyCache(models.cache_path)) as cache:
        replies = {key: kept.completion for key, kept in cache.get(keys).items()}
    return model_marks(calls, replies, images_of(row, calls), lambda role: models.endpoint(role).model_family)


def _lines(file: Path) -> list[Json]:
    """Return the objects of a JSON Lines file; empty if the file does not exist, because no model was called."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def main() -> int:
    """Replay the record that a JSON object on the standard input names, and write the result to a file.

    A replay repeats the stages of a finished run for one record, with stored replies of models. Returns the exit code:
    1 after an error of the user, otherwise 0.
    """
    asked = json.loads(sys.stdin.read())
    folder = Path(asked["folder"])
    _end_with_the_view(asked["view"], folder)
    tempfile.tempdir = str(folder)
    try:
        answer: Json = asdict(
            replay(Path(asked["run"]), asked["id"], asked["pipeline"], Path(asked["cache"]) if asked["cache"] else None)
        )
    except UserError as error:
        answer = {"error": printable(str(error))}
    (folder / ANSWER).write_text(json.dumps(answer), "utf-8")
    return int("error" in answer)


def _end_with_the_view(view: int, folder: Path) -> None:
    """Let this process end, and remove its temporary folder, at SIGTERM or when ``beam view`` ends.

    ``view`` is the process id of ``beam view``, which started this process. ``folder`` is the temporary folder.
    """

    def end(*_: object) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    def check() -> None:
        while os.getppid() == view:
            time.sleep(CHECK_EVERY_S)
        end()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=check, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
