"""Checkpoints that resume exactly: master weights, optimiser, random state, the place in the data and the loop's state.

A checkpoint is a folder ``step-NNNNNN`` that appears whole or not at all. Nothing in it is unpickled.
"""

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from schemas.errors import UserError
from trainer.optimiser import Optimiser

_NAME = re.compile(r"step-(\d{6,})")
STATE = "trainer.pt"


class CheckpointError(UserError):
    """A checkpoint that cannot be resumed from; the message says why."""


@dataclass
class Progress:
    """Where a run stands: steps done, rows taken up, and what the loop itself remembers (numbers and strings only)."""

    step: int = 0
    position: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


def save_checkpoint(folder: Path, progress: Progress, optimiser: Optimiser, run_sha256: str, keep: int) -> Path:
    """Write the checkpoint of a step and delete all but the latest ``keep``."""
    final = folder / f"step-{progress.step:06d}"
    partial = folder / f".{final.name}.{os.getpid()}"
    partial.mkdir(parents=True, exist_ok=True)
    state = {
        "progress": vars(progress),
        "run_sha256": run_sha256,
        "optimiser": optimiser.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    torch.save(state, partial / STATE)
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
    for old in sorted(checkpoints(folder))[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, oldest first."""
    found = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name) and (path / STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def load_checkpoint(path: Path, optimiser: Optimiser, run_sha256: str) -> Progress:
    """Restore weights, optimiser and random state, and give the run's progress.

    Raises CheckpointError for a damaged file, for another run (:func:`trainer.monitor.run_sha256`), and other weights.
    """
    try:
        state = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types on a damaged file
        raise CheckpointError(f"{path} cannot be read: {' '.join(str(error).split())[:160]}") from error
    if state["run_sha256"] != run_sha256:
        raise CheckpointError(f"{path} is of another command, config or data than this run: choose another --output")
    try:
        optimiser.load_state_dict(state["optimiser"])
    except (ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    return Progress(**state["progress"])
