"""Runs each ``trainer`` command, and reports each error in one line, without a traceback."""

import argparse
import signal
import sys
from pathlib import Path

import datasets
import torch
import transformers

from groundtrace.config.settings import load_config
from groundtrace.rewards.rows.reward import JudgesDown
from groundtrace.rewards.rows.settings import config_file
from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import locked
from groundtrace.storage.mirror import local_copy
from groundtrace.trainer.checkpoint import checkpoints, export
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.optimiser import NotFinite
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft
from groundtrace.trainer.tiny import make_tiny
from groundtrace.trainer.training import FOLDER, NothingLearnt, Overfitted, Stopped

AGAIN = "the last complete step is in {}, run the same command again to continue from it"
ANEW = (
    "the last good step is in {}: `trainer export` turns it into a model, from which you can start a new run; the same "
    "command continues from this step"
)


def dispatch(parsed: argparse.Namespace) -> int:
    """Run the parsed command, and return the exit code (:mod:`groundtrace.trainer.cli`).

    With ``--verbose``, an unexpected error is raised.
    """
    if not parsed.verbose:
        datasets.disable_progress_bars()
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
    try:
        print(_run(parsed))
    except UserError as error:
        return _fail(str(error), 2)
    except (JudgesDown, SamplerError) as error:
        return _fail(_with_resume_hint(error, parsed, AGAIN), 3)
    except (NotFinite, NothingLearnt, Overfitted) as error:
        return _fail(_with_resume_hint(error, parsed, ANEW), 1)
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        return _fail(_with_resume_hint(error, parsed, AGAIN), 128 + number)
    except Exception as error:  # a defect or a broken machine: say it in one line, and how to see more
        if parsed.verbose:
            raise
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]} (--verbose shows where)"
        return _fail(_with_resume_hint(error, parsed, AGAIN, message), 1)
    return 0


def _run(parsed: argparse.Namespace) -> Path:
    if parsed.command == "export":
        return export(parsed.checkpoint, parsed.out)
    if parsed.command == "tiny":
        return make_tiny(local_copy(parsed.data), parsed.out, parsed.seed, parsed.image_side)
    settings = load_config(TrainerSettings, config_file(parsed.config), parsed.overrides)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    commands = {"sft": train_sft, "grpo": train_grpo, "eval": evaluate}
    with locked(parsed.output):
        return commands[parsed.command](settings, local_copy(parsed.data), parsed.output)


def _with_resume_hint(error: BaseException, parsed: argparse.Namespace, how: str, message: str = "") -> str:
    """Return the message of an error, with the last checkpoint and how to continue from it.

    ``how`` is the text about the checkpoint. ``message`` replaces the text of the error.
    """
    parts = [message or str(error) or "interrupted", *getattr(error, "__notes__", ())]
    if parsed.command in ("sft", "grpo"):
        found = checkpoints(parsed.output / FOLDER)
        parts.append(how.format(found[-1]) if found else "no step was completed, so none is saved")
    return "; ".join(parts)


def _fail(message: str, code: int) -> int:
    print(f"trainer: {message}", file=sys.stderr)
    return code
