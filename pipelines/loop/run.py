"""Runs the steps of ``beam loop``, such as the SFT, in their order. A finished step is not repeated.

A step that was stopped or killed is started again with the same command: ``beam run`` then continues from its reply
cache, and ``trainer`` from its last checkpoint. A step is also done again if its command, its config, or a step that it
depends on has changed. The folder of the earlier result is then moved to OUT/earlier, where OUT is the output folder of
the loop. A run of the pipeline stays in its folder instead, which holds its reply cache: ``beam run`` replaces the
outputs, and keeps the earlier rows in the subfolder ``previous``.
"""

import hashlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundtrace.config.config_file import merged
from groundtrace.config.settings import given_values, settings_from
from groundtrace.inference.endpoints.vllm_server import find_vllm
from groundtrace.pipelines.loop.media_stamps import STAMPS
from groundtrace.pipelines.loop.own_code import model_weights, run_code, training_code
from groundtrace.pipelines.loop.process import run_process
from groundtrace.pipelines.loop.questions import FOLDER, HELD, SPLIT, TRAIN, Division, divide, settings_after
from groundtrace.pipelines.loop.records import (
    StepRecord,
    is_done,
    read_record,
    record_path,
    trained_revision,
    write_record,
)
from groundtrace.pipelines.loop.settings import TINY, LoopSettings, StepSettings, defaults_of
from groundtrace.pipelines.loop.steps import (
    CURATE,
    GRPO,
    RL,
    SFT,
    Loop,
    Step,
    config_path,
    config_text,
    identities,
    log_path,
    make_steps,
    sections_of,
)
from groundtrace.pipelines.loop.stop import StepFailed, Stop, stop_of
from groundtrace.pipelines.loop.story import PAGE, ROWS_OF, few_rows, write_story
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.pipelines.running.plan.loading import forget_user_code, load_recipe, recipe_file
from groundtrace.publishing.reading import read_config, read_summary
from groundtrace.publishing.rejections import options_to_keep
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.module_search import config_folders
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import refuse_links
from groundtrace.schemas.text import counted, say, utc_now
from groundtrace.stages.sources.base import RowSettings
from groundtrace.storage.files import is_unfinished, locked, write_atomically
from groundtrace.trainer.settings import TrainerSettings

EARLIER = "earlier"
FREE_LIMIT_S, FREE_TICK_S = 120.0, 0.5
"""The seconds that a step waits while another process writes into its folder, and the seconds between two checks.

Such a process belongs to a loop that was killed.
"""
RunCommand = Callable[[Sequence[str], Path, Mapping[str, str]], int]


def make_loop(recipe: str, data: str, model: str, output: Path, settings: LoopSettings) -> tuple[Loop, Division]:
    """Check the arguments of ``beam loop``, divide the questions, and return the checked arguments and the division.

    The questions are divided into a part to train on and a part to evaluate on. If an earlier command has divided them,
    its division is used.

    Args:
        recipe: The name of a bundled pipeline, or the path of a pipeline's file.
        data: The input with the questions, as for ``beam run``.
        model: The model to train: a folder, an id of the Hugging Face Hub, or ``tiny`` for a small model with random
            weights.
        output: The folder of the loop.
        settings: The config of the loop.

    Raises UserError if an argument is invalid, for example if ``output`` holds other files. Also raises the errors of
    reading a recipe, a config or an input. Raises VllmServerError if vLLM has to serve the model after SFT, but the
    command ``vllm`` is not found.
    """
    out = _checked_folder(output)
    loop = Loop(
        recipe=recipe,
        model=str(Path(model).resolve()) if model != TINY and Path(model).is_dir() else model,
        out=out,
        settings=settings,
        curation={},
        sections=frozenset(),
        defaults=defaults_of(model),
    )
    loop = _with_trainer(loop)
    forget_user_code()  # the plug-ins of the pipeline may have the names of those of the trainer, in another folder
    loaded = load_recipe(recipe)
    values = merged(given_values(settings.curate.config or None), settings.curate.set)
    run_settings = settings_from(loaded.settings, values)
    loop = replace(
        loop,
        curation=_without_map(values, run_settings.input),
        sections=sections_of(loaded.settings),
        recipe_sha256=hashlib.sha256(recipe_file(recipe).read_bytes()).hexdigest(),
        beside=config_folders(),
    )
    code = dict(loop.code)
    for step in make_steps(loop):
        if step.config is not None:
            settings_from(loaded.settings, step.config)
            code[step.name] = run_code(recipe_file(recipe), step.config)
    loop = replace(loop, code=code)
    if loop.served_by == "vllm":
        find_vllm()
    _refuse_links(loop)
    if not (out / FOLDER).exists():
        say(f"loop: the questions of {data} are divided by media group", file=sys.stderr)
    found = find_input(data, run_settings.input, run_settings.storage, loaded.writes_questions)
    division = divide(out, found, run_settings.input, run_settings.storage, settings.held_out)
    return loop, division


def _with_trainer(loop: Loop) -> Loop:
    """Check the configs of the trainings and the evaluation, and return the loop with the digests of their files.

    All configs are checked before the first step runs, so that a mistake is not found hours later. Raises ConfigError
    or RegistryError if a config is invalid.
    """
    trainer = given_values(config_file(loop.trainer_config), (), CONFIGS, TrainerSettings)
    code, per_step = dict[str, str](), dict[str, int]()
    for name in (SFT, GRPO, "eval"):
        own: StepSettings = getattr(loop.settings, name)
        values = merged(merged(trainer, {"model": {"path": loop.base}}), own.set)
        checked = settings_from(TrainerSettings, values)
        per_step[name] = {SFT: checked.sft.samples_per_step, GRPO: checked.grpo.prompts_per_step}.get(name, 0)
        code[name] = training_code(name, values)
    digest = hashlib.sha256(json.dumps(trainer, sort_keys=True, default=str).encode()).hexdigest()
    weights = "" if loop.model == TINY else model_weights(loop.model)
    return replace(loop, trainer_sha256=digest, code=code, weights=weights, per_step=per_step)


def _checked_folder(output: Path) -> Path:
    """Return the absolute path of the loop's folder, in which ``beam loop`` writes its results.

    Raises UserError if ``output`` is a file, or a folder that has files but lacks the subfolder ``questions`` of a
    loop.
    """
    out = output.absolute()
    names = {path.name for path in out.iterdir()} if out.is_dir() else set[str]()
    if out.is_file():
        raise UserError(f"{output} is a file, but `beam loop` needs a folder: choose another --output")
    if FOLDER not in names and any(not is_unfinished(name) for name in names - {".lock"}):
        raise UserError(f"{output} is not empty and was not made by `beam loop`: choose another --output")
    return out


def _refuse_links(loop: Loop) -> None:
    """Raise UnsafeFile if a file or folder that the loop writes is a link.

    The reason: a stranger may have made the loop's output folder, with links to files outside it.
    """
    paths = [
        loop.out / name for name in (PAGE, EARLIER, *(f"{FOLDER}/{name}" for name in (TRAIN, HELD, SPLIT, STAMPS)))
    ]
    for step in make_steps(loop):
        paths += [step.folder, *(path(loop.out, step.name) for path in (config_path, log_path, record_path))]
    refuse_links(loop.out, *(str(path.relative_to(loop.out)) for path in paths))


def _without_map(values: Mapping[str, Any], rows: RowSettings) -> dict[str, Any]:
    """Return the values of the curation's config, with the section ``[input]`` reduced to its key ``keep``.

    All other sections stay as they are. The other keys of ``[input]`` were already applied when ``beam loop`` divided
    the input into a part to train on and a part to evaluate on. ``rows`` are the settings of ``[input]``.
    """
    kept = {name: value for name, value in values.items() if name != "input"}
    keep = list(settings_after(rows).keep)
    return kept | ({"input": {"keep": keep}} if keep else {})


def run_loop(loop: Loop, run_command: RunCommand = run_process) -> Path:
    """Run all unfinished steps (curation, trainings, evaluations) of a loop, and return the path of its page
    ``loop.html``.

    The page shows the results, or why the loop stopped. ``loop`` holds the arguments and settings of the loop.
    :func:`make_loop` returns it and divides its questions into a part to train on and a part to evaluate on.
    ``run_command`` runs the command of a step: it gets the words of the command, the path of a log file and further
    environment variables, and returns the exit code. Tests replace it. Raises :class:`StepFailed` if the command of a
    step fails, and UserError if a training has no rows or its folder is in use.
    """
    names = [step.name for step in make_steps(loop)]
    for place, name in enumerate(names, 1):
        try:
            _do_unless_done(loop, name, f"loop {place}/{len(names)}: {name}", run_command)
        except BaseException as error:
            _refresh(loop, "", stop_of(error, name, loop.out))
            raise
    return _refresh(loop, "")


def _do_unless_done(loop: Loop, name: str, title: str, run_command: RunCommand) -> None:
    """Run the step ``name`` of a loop if it is not finished, and print a line that states what happens.

    The line begins with ``title``. It states that the step was finished before, or what the step does; then a second
    line has the command. ``run_command`` runs the command. Raises the errors of :func:`_do`.
    """
    steps = make_steps(loop, trained_revision(loop.out))
    step = next(each for each in steps if each.name == name)
    identity = identities(loop, steps)[name]
    if is_done(step, identity, loop.out):
        say(f"{title}, finished before", file=sys.stderr)
        return
    say(f"{title}, {step.title}", f"  {shlex.join(step.command)}", file=sys.stderr)
    _do(loop, step, identity, run_command)


def _do(loop: Loop, step: Step, identity: str, run_command: RunCommand) -> None:
    """Run the command of one step of a loop, and write the step's record (times and exit code).

    ``identity`` is the digest of the step and of all that the step depends on. If the folder of the step holds a result
    that the step cannot continue, this folder is first moved away. ``run_command`` runs the command: it gets the words
    of the command, the path of a log file and further environment variables, and returns the exit code. Raises
    StepFailed if the command fails, and UserError if a training has no rows or its folder is in use.
    """
    _check_rows(loop, step)
    before = read_record(loop.out, step.name)
    _await_free(step.folder)
    if before is None or before.identity != identity:
        if step.starts_anew:
            _move_away(loop.out, step, "is of other settings, inputs or code")
        before = StepRecord(identity, utc_now())
    elif not step.resumes:
        _move_away(loop.out, step, "is of an attempt that did not finish")
    record = replace(before, exit_code=None, finished="")
    write_record(loop.out, step.name, record)
    if step.config is not None:
        path = config_path(loop.out, step.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, config_text(step))
    _refresh(loop, step.name)
    started_s, log = time.monotonic(), log_path(loop.out, step.name)
    code = run_command(step.command, log, step.environment)
    record = replace(record, wall_s=record.wall_s + time.monotonic() - started_s, exit_code=code)
    write_record(loop.out, step.name, replace(record, finished="" if code else utc_now()))
    _refresh(loop, "")
    if code:
        raise StepFailed(step, code, log)


def _check_rows(loop: Loop, step: Step) -> None:
    """Raise UserError if ``step`` is a training, and the run of the pipeline before it has made no rows for it.

    If the run has made fewer rows than one step of the training needs, a line is printed.
    """
    wanted = ROWS_OF.get(step.name)
    if wanted is None:
        return
    made = loop.out / wanted[0]
    summary = read_summary(made, checked=False)
    if not summary.counts.rows(wanted[1]):
        reasons = ", ".join(f"{name} {n}" for name, n in summary.counts.by_reason.most_common(3))
        remedy = _remedy(wanted[0], summary, read_config(made))
        raise UserError(
            f"the run in {made} made no {wanted[1].upper()} rows, which the step {step.name} needs. Rejected records "
            f"by reason: {reasons or 'none'}. Read {made / 'report.html'}, and {remedy}"
        )
    if note := few_rows(loop, step.name, summary):
        say(f"  {note}", file=sys.stderr)


def _remedy(name: str, summary: RunSummary, config: Mapping[str, Any]) -> str:
    """Return what the user can do about a run of the pipeline that made no rows for the next training.

    ``name`` is the name of the run's step, ``curate`` or ``rl``. ``summary`` holds the run's counts of rejections, and
    ``config`` is the run's complete config.
    """
    section = {CURATE: "curate.set", RL: "rl.set"}[name]
    [(reason, _)] = summary.counts.by_reason.most_common(1) or [("", 0)]
    if options := options_to_keep(reason, config, f"{section}."):
        return f"run the same command again with other settings: to keep the {reason} questions, add {options}"
    return f"change the settings of this run in {section}, and run the same command again"


def _await_free(folder: Path) -> None:
    """Wait until no process, such as the training of a loop that was killed, writes into the folder of a step.

    Raises UserError if the folder is not free after ``FREE_LIMIT_S`` seconds.
    """
    ends_s, is_reported = time.monotonic() + FREE_LIMIT_S, False
    while (folder / ".lock").exists():
        try:
            with locked(folder):
                return
        except UserError:
            if time.monotonic() > ends_s:
                raise
            if not is_reported:
                say(f"  waiting for the process that still writes {folder}", file=sys.stderr)
                is_reported = True
            time.sleep(FREE_TICK_S)


def _move_away(out: Path, step: Step, why: str) -> None:
    """Move the folder of an earlier result of ``step`` to OUT/earlier, if it exists, and print the reason ``why``.

    OUT is ``out``, the folder of the loop.
    """
    if not step.folder.exists():
        return
    number = 1
    while (target := out / EARLIER / f"{step.name}-{number}").exists():
        number += 1
    target.parent.mkdir(parents=True, exist_ok=True)
    step.folder.rename(target)
    say(f"  {step.folder} {why}: moved to {target}", file=sys.stderr)


def _refresh(loop: Loop, running: str, stop: Stop | None = None) -> Path:
    """Write ``loop.html``, the page with the results of the loop so far, and return its path.

    ``running`` is the name of the step that is running now; "" if no step is running. ``stop`` describes why the loop
    stopped; None if it did not stop. If the page cannot be written, the function prints the reason and raises no error.
    """
    try:
        write_story(loop, running, stop)
    except Exception as error:  # whatever it is, the steps matter more than their page
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        say(f"beam: {loop.out / PAGE} cannot be written: {reason}", file=sys.stderr)
    return loop.out / PAGE


def described(division: Division) -> str:
    """Return a line of text for the user: how many questions are used for training, and how many for evaluation.

    ``division`` holds these numbers.
    """
    groups = counted(len(set(division.groups.values())), "media group")
    return f"questions: {division.train} to train on, {division.held} held out ({groups})"
