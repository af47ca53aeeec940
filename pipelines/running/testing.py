"""Provides three functions for tests of a user's own stage: make a draft (a question with its data), run a stage on
drafts, and choose the models that a stage calls.

The tests need no run: ``make_draft`` reads one record, and ``run_stage`` returns what the stage kept and rejected.
"""

import inspect
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.running.beam_logs import without_beam_logs
from groundtrace.pipelines.running.endings import without_beams_words
from groundtrace.prompts.loader import add_prompt_folder
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Draft, RawRecord
from groundtrace.stages.ingest_records import assemble
from groundtrace.stages.plumbing.stage import REJECTED, DraftStage, Reject
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaRoots, MediaStore

DEFAULTS = {"id": "draft", "source": "test", "license": "test"}
"""The fields that a record of a test need not have."""

_collected: dict[int, dict[str, list[Any]]] = {}
_numbers = itertools.count()


def make_draft(record: Mapping[str, Any], folder: str | Path) -> Draft:
    """Return the draft (a question with its data) that the stage ``ingest`` makes of one record.

    ``record`` has the fields of a line of ``records.jsonl``; ``id``, ``source`` and ``license`` may be missing.
    ``folder`` is the data folder, to which the paths in ``media`` are relative. Raises UserError if the record or one
    of its media cannot be used.
    """
    try:
        parsed = parse_record(RawRecord(1, json.dumps({**DEFAULTS, **record})), may_lack_question=True)
        store = MediaStore(str(folder), str(folder))
        return assemble(parsed, {uri: check_medium(uri, store, VideoSettings()) for uri in parsed.media})
    except (InvalidRecord, Reject) as error:
        raise UserError(
            f"make_draft() cannot use the record or one of its media ({error}): correct the record, or the argument "
            "`folder`"
        ) from error


def make_models(
    roots: MediaRoots,
    endpoints: Mapping[str, EndpointSettings] | None = None,
    roles: Mapping[str, str] | None = None,
) -> ModelsSettings:
    """Return the models for a stage that calls models.

    ``roots`` holds the data folder and the run folder. The models see images from both, and the replies are cached in
    the run folder, which must be on the local disk. ``endpoints`` are the endpoints (model servers) by name, and
    ``roles`` maps each role, such as "teacher", to the name of its endpoint. By default, the embedded engine has all
    roles. It is bundled code without a neural network, and needs no server.
    """
    by_name = tuple(sorted((endpoints or embedded_endpoints()).items()))
    by_role = tuple(sorted((roles or embedded_roles()).items()))
    cache = Path(roots.run_root) / "cache" / "replies.sqlite"
    cache.parent.mkdir(parents=True, exist_ok=True)
    return ModelsSettings(by_name, by_role, str(cache), roots.input_root, roots.run_root)


def run_stage(stage: DraftStage, drafts: Sequence[Draft]) -> dict[str, list[Any]]:
    """Run a stage on drafts (questions with their data) in this process, and return its outputs by name.

    The outputs are "kept" (drafts), "rejected" (objects of :class:`groundtrace.schemas.records.Rejected`), and the
    stage's further outputs (drafts), whose names are in ``stage.routes``. Each list is sorted by the ids of its drafts
    or rejections. The stage may use prompts from a folder ``prompts`` beside its module. An exception of the stage's
    function, other than Reject, is raised here.
    """
    prompts = Path(inspect.getfile(type(stage))).resolve().parent / "prompts"
    if prompts.is_dir():
        add_prompt_folder(prompts)
    names = ("kept", REJECTED, *stage.routes)
    number = next(_numbers)
    _collected[number] = {name: [] for name in names}
    try:
        with without_beam_logs(), beam.Pipeline(FnApiRunner(), PipelineOptions([])) as pipeline:
            outputs: Any = pipeline | "Drafts" >> beam.Create(list(drafts)).with_output_types(Draft) | "Stage" >> stage
            for name in names:
                _ = outputs[name] | f"Collect {name}" >> beam.Map(_collect, number, name)
        return {name: sorted(found, key=lambda each: each.id) for name, found in _collected[number].items()}
    except Exception as error:
        error.args = tuple(without_beams_words(each) if isinstance(each, str) else each for each in error.args)
        raise
    finally:
        del _collected[number]


def _collect(element: Any, number: int, name: str) -> None:
    """Store an element of a stage's output in ``_collected``, from which :func:`run_stage` returns it.

    Beam's FnApiRunner calls this function in the process of :func:`run_stage`, so the two functions see the same
    ``_collected``. ``number`` is the number of the call of :func:`run_stage`. ``name`` is the name of the output.
    """
    _collected[number][name].append(element)
