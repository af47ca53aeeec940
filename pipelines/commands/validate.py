"""Implements ``beam validate``, which describes a run of a pipeline before it is started, and checks whether it is
possible.

The command sends no request that would generate a reply. It reads all records of a small input, but only the first
records of a large input. It also prints an example: the prompt that one record would have in its training row.
"""

import argparse
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from groundtrace.grading.question_text import user_text
from groundtrace.inference.endpoint import is_embedded
from groundtrace.inference.endpoints.official_client import official_client_note
from groundtrace.inference.errors import CallError
from groundtrace.inference.models import Models
from groundtrace.inference.runtime import runtime
from groundtrace.pipelines.running.plan.capabilities import check_capabilities, check_judge, scan_answers, scan_media
from groundtrace.pipelines.running.plan.columns import input_block
from groundtrace.pipelines.running.plan.inputs import (
    check_questions,
    count_records,
    fields_lacking,
    first_rows,
    seen_shape,
)
from groundtrace.pipelines.running.plan.options import runner_line
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.pipelines.running.plan.sampling import sample_records
from groundtrace.prompts.loader import load_prompt
from groundtrace.publishing.licences import terms_of
from groundtrace.schemas.text import counted, say
from groundtrace.stages.sources.shapes.base import OneRecordPerRow

MAX_PROBLEMS = 8


def validate(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Describe a run before it is started, and check whether the run is possible. Return 0 if it is possible, else 2.

    The returned number is the exit code of the command. The description and all problems are printed. ``parsed`` holds
    the parsed arguments of the command line. ``beam_options`` are the options for Beam, which come after ``--`` on the
    command line. Raises the errors of :func:`make_plan`, e.g. for an invalid config or an input that cannot be read.
    """
    plan = make_plan(
        RunArguments(parsed.pipeline, parsed.input, ".", parsed.config, parsed.overrides, beam_options=beam_options)
    )
    if not plan.recipe.writes_questions:
        check_questions(plan.input, plan.settings.input)
    plan.wire()
    say(f"pipeline: {plan.recipe.name}")
    say(f"stages: {', '.join(stage.name for stage in plan.stages)}")
    say(runner_line(plan.options))
    total = count_records(plan.context.sources)
    say(f"input: {plan.input.name}, {'unknown number of records' if total is None else counted(total, 'record')}")
    if note := plan.input.unread_note:
        say(note)
    usable = _check_records(plan, total)
    media = scan_media(plan.context.sources, plan.settings.input)
    sent = plan.stages.prompts_sent(plan.models_asked, plan.settings, clips=media.videos > 0 or not media.records)
    say(f"prompts: {', '.join(load_prompt(name).name for name in sent)}")
    healthy = True
    for name in sorted(set(plan.roles.values())):
        roles = sorted(role for role, endpoint in plan.roles.items() if endpoint == name)
        try:
            health = runtime().submit(_check(plan, roles[0])).result()
            note = runtime().submit(_official_note(plan, roles[0])).result()
        except (CallError, ValueError) as error:
            health, note, healthy = f"NOT READY: {error}", "", False
        say(f"endpoint {name} ({', '.join(roles)}): {health}")
        if note:
            say(f"note: {name}: {note}")
    problems, notes = check_capabilities(plan.stages, plan.models, media)
    found = check_judge(plan.models, scan_answers(plan.context.sources, plan.settings.input), plan.stages)
    problems, notes = problems + found[0], notes + found[1]
    if total == 0:
        problems.append("the input has no records")
    for line in [*(f"NOT POSSIBLE: {problem}" for problem in problems), *(f"note: {note}" for note in notes)]:
        say(line)
    if all(is_embedded(plan.models.endpoint(role)) for role in plan.roles):
        say("note: no model is set: the embedded engine has all roles, and it reads drawn shapes, not photographs")
    if plan.models.self_judging:
        say("note: the judge is the teacher's endpoint")
    if plan.models_asked.self_checking:
        say("note: detector and pointer are one model: it checks its own points (lineage.self_checked)")
    if "detector" in plan.roles and "segmenter" not in plan.roles:
        say("note: no segmenter: points are checked against the boxes of the detector")
    return 0 if healthy and usable and not problems else 2


def _check_records(plan: Plan, total: int | None) -> bool:
    """Print a summary of the records, and return whether any of them can be used.

    ``total`` is the number of records in the input, None if unknown.
    """
    rows, columns = plan.settings.input, plan.input.columns
    if columns:
        say(f"columns: {', '.join(sorted(columns))}")
    writes, video = plan.recipe.writes_questions, getattr(plan.settings, "video", None)
    sample = sample_records(plan.context.sources, rows, plan.context.roots, video, writes)
    of = "of an unknown number of records" if total is None else f"of {counted(total, 'record')}"
    say(f"read {sample.read} {of}: {len(sample.drafts)} can be used")
    for problem in sample.problems[:MAX_PROBLEMS]:
        say(f"  {problem.reason}, {counted(problem.records, 'record')} ({problem.where}): {problem.detail}")
    if len(sample.problems) > MAX_PROBLEMS:
        say(f"  and {len(sample.problems) - MAX_PROBLEMS} more problems")
    missing = fields_lacking(plan.input, rows, writes)
    if missing:
        shape = seen_shape(plan.input)
        if rows.shape == OneRecordPerRow.name and shape.name != OneRecordPerRow.name:
            command = f"beam init {shlex.quote(plan.input.name)}"
            say(f"it looks like {shape.title}: `{command} --output my.toml` writes the config for it")
        say(f"MISSING: {', '.join(missing)}; in the config:")
        for line in input_block(columns, missing, Path(plan.input.name).name, first=first_rows(plan.input)):
            say(f"  {line}")
    for line in _licence_notes({(each.question.source, each.question.license) for each in sample.drafts}):
        say(line)
    asked = [draft.question for draft in sample.drafts if draft.question.is_asked]
    if unasked := len(sample.drafts) - len(asked):
        say(f"  {counted(unasked, 'record')} without a question: the recipe writes one for each image that is fit")
    if asked:
        question = asked[0]
        for form in plan.recipe.forms:
            say(f"the prompt of one record, as in its row ({question.id}, gold answer {question.answer}):")
            for line in user_text(question, form).splitlines():
                say(f"  {line}")
    return bool(sample.drafts)


def _licence_notes(licences: Collection[tuple[str, str]]) -> list[str]:
    """Return a line for each data set whose licence does not allow `beam publish` to publish its rows.

    ``licences`` holds the (source, licence) pairs of the records. At most :data:`MAX_PROBLEMS` lines are returned.
    """
    found = [(source, licence) for source, licence in sorted(licences) if not terms_of(licence).may_be_published]
    return [
        f'  the licence of {source} is "{licence}", which {terms_of(licence).text}: before you publish its rows, set '
        "input.constants.license to the right licence"
        for source, licence in found[:MAX_PROBLEMS]
    ]


async def _official_note(plan: Plan, role: str) -> str:
    """Return a note for the user if OpenAI's own client cannot use the model server of a role; otherwise "".

    A role is the task of a model, such as ``teacher``. OpenAI's own client is the Python package ``openai``. Only
    servers whose endpoint in the config has the kind ``openai`` are checked.
    """
    settings = plan.models.endpoint(role)
    return await official_client_note(settings) if settings.kind == "openai" else ""


async def _check(plan: Plan, role: str) -> str:
    """Check whether the endpoint (model server) of a role can answer requests, and return a line that describes it.

    A role is the task of a model, such as ``teacher``.

    Some servers are started by the run itself. This function does not start such a server: it only searches for the
    program that starts the server. Raises CallError if the endpoint cannot answer requests.
    """
    models = Models(plan.models, cached=False)
    try:
        return await models.endpoint(role).check()
    finally:
        await models.close()
