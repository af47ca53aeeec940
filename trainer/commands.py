"""What each ``trainer`` command does, and how errors reach the user: one line, no traceback for a user's mistake."""

import argparse
import sys

import datasets
import torch
import transformers

from schemas.config import load_config
from schemas.errors import UserError
from trainer.evaluate import evaluate
from trainer.grpo import train_grpo
from trainer.optimiser import NotFinite
from trainer.reward import JudgesDown
from trainer.sampling import SamplerError
from trainer.settings import TrainerSettings
from trainer.sft import train_sft


def dispatch(parsed: argparse.Namespace) -> int:
    """Run the parsed command; returns the exit code."""
    commands = {"sft": train_sft, "grpo": train_grpo, "eval": evaluate}
    if not parsed.verbose:
        datasets.disable_progress_bars()
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
    try:
        settings = load_config(TrainerSettings, parsed.config, parsed.overrides)
        if settings.threads:
            torch.set_num_threads(settings.threads)
        print(commands[parsed.command](settings, parsed.data, parsed.output))
    except UserError as error:
        return _fail(str(error), 2)
    except (JudgesDown, SamplerError) as error:
        return _fail(f"{error}; the last checkpoint stands, run the same command again to resume", 3)
    except NotFinite as error:
        return _fail(f"{error}; the last checkpoint stands", 1)
    except KeyboardInterrupt:
        return _fail("interrupted; run the same command again to resume from the last checkpoint", 130)
    except Exception as error:  # a defect or a broken machine: say it in one line, and how to see more
        if parsed.verbose:
            raise
        return _fail(f"{type(error).__name__}: {' '.join(str(error).split())[:300]} (--verbose shows where)", 1)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"trainer: {message}", file=sys.stderr)
    return code
