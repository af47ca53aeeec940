"""Runs the ``trainer`` commands, and shows each error in one line, without a traceback.

With ``--gpus``, the command starts one process for each GPU. Each of these processes is a *rank* and calls
:func:`dispatch` again. Ranks report their errors to the process that started them, which shows one of the errors.
"""

import argparse
import contextlib
import functools
import os
import signal
import sys
import tempfile
from pathlib import Path

import datasets
import huggingface_hub
import torch
import transformers

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import load_config, to_toml
from groundtrace.rewards.rows.reward import JudgesDown
from groundtrace.rewards.rows.settings import CONFIGS, bundled_name, config_file
from groundtrace.schemas.error_places import hint_of
from groundtrace.schemas.errors import RecordNote, ResponseNote, UserError
from groundtrace.schemas.loop_step import loop_section, step_environment
from groundtrace.schemas.module_search import config_folders
from groundtrace.storage.files import locked
from groundtrace.storage.mirror import local_copy
from groundtrace.trainer import ranks
from groundtrace.trainer.checkpoint import checkpoints, export_command
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.export import export
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.launch import launch
from groundtrace.trainer.machine_estimate import print_estimate
from groundtrace.trainer.optimiser import NotFinite
from groundtrace.trainer.output_folder import check_output, recorded_run
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft
from groundtrace.trainer.tiny import make_tiny
from groundtrace.trainer.training import FOLDER, NothingLearnt, Overfitted, Stopped

SAVED = "the last complete step is in {}"
AGAIN = "run the same command again to continue from it, or make a model of it with `{}`"
"""The hint about the last checkpoint, and the instruction behind it; `beam loop` gives its own instruction."""
ANEW = (
    "the last good step is in {}: `{}` turns it into a model, from which you can start a new run; the same "
    "command continues from this step"
)

NONE_SAVED = "no step was completed, so none is saved"


def dispatch(parsed: argparse.Namespace) -> int:
    """Run the command in ``parsed``, and return its exit code (:mod:`groundtrace.trainer.cli` lists the codes).

    ``parsed`` holds the command's arguments, as the parser of :mod:`groundtrace.trainer.cli` returns them. An error is
    printed in one line, and the function returns its exit code. With ``--verbose``, an unexpected error is raised
    instead, so that its traceback is shown.
    """
    if not parsed.verbose:
        datasets.disable_progress_bars()
        huggingface_hub.utils.logging.set_verbosity_error()  # not each retry of a request
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
    try:
        if getattr(parsed, "gpus", 1) > 1 and not ranks.is_rank():
            return _run_ranks(parsed)
        _print_result(_run(parsed))
    except ranks.FailedElsewhere as error:
        return _fail(str(error), 1, is_elsewhere=True)
    except UserError as error:
        return _fail(str(error), 2)
    except (JudgesDown, SamplerError) as error:
        return _fail(_with_resume_hint(error, parsed, _again()), 3)
    except (NotFinite, NothingLearnt, Overfitted) as error:
        return _fail(_with_resume_hint(error, parsed, ANEW), 1)
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        message = "stopped" if loop_section() else ""  # the loop passes Ctrl-C on as another signal
        return _fail(_with_resume_hint(error, parsed, _again(), message), 128 + number)
    except Exception as error:  # a defect or a broken machine: say it in one line, and how to see more
        if parsed.verbose:
            raise
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({hint_of(error)})"
        return _fail(_with_resume_hint(error, parsed, _again(), message), 1)
    return 0


def _run(parsed: argparse.Namespace) -> Path | str:
    if parsed.command == "export":
        return export(parsed.checkpoint, parsed.out, parsed.model)
    if parsed.command == "tiny":
        return make_tiny(local_copy(parsed.data), parsed.out, parsed.seed, parsed.image_side)
    settings = _settings(parsed)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if getattr(parsed, "estimate", False):
        return print_estimate(settings, is_grpo=parsed.command == "grpo")
    bundled = bundled_name(parsed.config)
    commands = {
        "sft": functools.partial(train_sft, bundled=bundled),
        "grpo": functools.partial(train_grpo, bundled=bundled),
        "eval": evaluate,
    }
    place = ranks.place()
    if place is None:
        check_output(parsed.command, settings, parsed.output)
    with locked(parsed.output) if place is None else contextlib.nullcontext():
        if place is not None:
            ranks.join(place)
        result = commands[parsed.command](settings, local_copy(parsed.data), parsed.output)
        ranks.leave()
        return result


def _settings(parsed: argparse.Namespace) -> TrainerSettings:
    return load_config(TrainerSettings, config_file(parsed.config), parsed.overrides, CONFIGS)


def _run_ranks(parsed: argparse.Namespace) -> int:
    """Run a training on several GPUs, and return the exit code.

    Each rank (the process of one GPU) reads the data from a local folder, and the complete config from a temporary
    file. A rank does not read ``--config`` itself, because ``--config`` may be a pipe, which only one process can read.
    """
    settings = _settings(parsed)
    if settings.validation.is_on:
        raise ConfigError(
            "validation works only in a training of one process: leave out --gpus, or set validation.share = 0 and "
            'validation.data = ""'
        )
    check_output(parsed.command, settings, parsed.output)
    with locked(parsed.output), tempfile.TemporaryDirectory(prefix="groundtrace-config-") as folder:
        data, config = local_copy(parsed.data), Path(folder) / "config.toml"
        config.write_text(to_toml(settings), "utf-8")
        words = [parsed.command, "--config", str(config), "--data", str(data), "--output", str(parsed.output)]
        verbose = ["--verbose"] if parsed.verbose else []
        os.environ |= step_environment(loop_section(), config_folders())  # the ranks find plug-ins beside --config
        failure = launch([*verbose, *words, "--gpus", str(parsed.gpus)], parsed.gpus, parsed.verbose)
    if failure is None:
        return 0
    message = failure.message
    if failure.is_dead:
        message = _with_resume_hint(RuntimeError(message), parsed, _again())
    return _fail(message, failure.code)


def _print_result(result: Path | str) -> None:
    place = ranks.place()
    if place is None or place.index == 0:
        print(result)


def _again() -> str:
    return SAVED if loop_section() else f"{SAVED}, {AGAIN}"


def _with_resume_hint(error: BaseException, parsed: argparse.Namespace, how: str, message: str = "") -> str:
    """Return the message of an error, followed by the error's notes and a hint about the last checkpoint.

    ``how`` is the text of the hint. The path of the last checkpoint replaces the first ``{}`` in this text, and the
    command that makes a model of this checkpoint replaces the second. If there is no
    checkpoint, the hint states that no step was completed. If ``message`` is not "", it is used instead of the error's
    own message. ``parsed`` holds the command's arguments. The hint is added only if the command is a training (``sft``
    or ``grpo``, without ``--estimate``).
    """
    notes = (note for note in getattr(error, "__notes__", ()) if not isinstance(note, RecordNote | ResponseNote))
    parts = [message or str(error) or "interrupted", *notes]
    if parsed.command in ("sft", "grpo") and not parsed.estimate:
        found = checkpoints(parsed.output / FOLDER)
        model = str((recorded_run(parsed.output) or {}).get("model", "BASE"))
        hint = how.format(found[-1], export_command(found[-1], model)) if found else NONE_SAVED
        parts.append(hint)
    return "; ".join(parts)


def _fail(message: str, code: int, is_elsewhere: bool = False) -> int:
    """Show the message to the user, and return the exit code ``code``.

    If this process is a rank (the process of one GPU), the message is sent to the launcher (the process that started
    the ranks), which shows it. ``is_elsewhere`` is True if this rank ended only because another rank failed. In this
    case, the launcher shows the message of the other rank instead. If all messages are from ranks that ended for this
    reason, the launcher shows the first of them.
    """
    if not ranks.report(ranks.Report(code, message, is_elsewhere)):
        print(f"trainer: {message}", file=sys.stderr)
    return code
