"""Writes and loads checkpoints, from which a stopped training continues with exactly the same results.

A checkpoint is a folder ``step-NNNNNN``. It holds the float32 weights (master weights), the optimiser's state, the
state of the random generators, the position in the data and the state of the training loop. The folder appears only
when it is complete. No code from a checkpoint is run when it is loaded.

In a training on several GPUs, each rank (the process of one GPU) writes its part of the tensors
(:mod:`groundtrace.trainer.sharded_state`). The first rank also writes the other content. The checkpoint can be loaded
with any number of GPUs. :mod:`groundtrace.trainer.export` converts a checkpoint to a plain model folder.
"""

import os
import pickletools
import re
import shlex
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from groundtrace.inference.model_files import own_files
from groundtrace.schemas.errors import UserError
from groundtrace.trainer import ranks, sharded_state
from groundtrace.trainer.identity import difference
from groundtrace.trainer.optimiser import Optimiser

_NAME = re.compile(r"step-(\d{6,})")
STATE = "trainer.pt"
MAX_VALUES = 10_000
"""The maximum number of values in a checkpoint's description of its training; a checkpoint with more values is refused.
For comparison: the bundled configs have about 200 values.
"""


class CheckpointError(UserError):
    """Raised if a checkpoint cannot be used; the message names the checkpoint and the reason."""


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"torch": torch.get_rng_state(), "cuda": cuda}


@dataclass
class Progress:
    """Holds how far a training has come.

    Attributes:
        step: the number of finished training steps.
        position: the position in the data, from which the next rows are drawn
            (:data:`groundtrace.trainer.row_sampler.Position`).
        memory: the state that the reward keeps between training steps, e.g. how far a curriculum of rewards has come.
            It can be written as JSON.
        random: the state of torch's random generators at the time when this object was created.
    """

    step: int = 0
    position: int | tuple[int, ...] = 0
    memory: dict[str, Any] = field(default_factory=dict)
    random: dict[str, Any] = field(default_factory=_random_state, compare=False)


def save_checkpoint(
    folder: Path, progress: Progress, optimiser: Optimiser, identity: Mapping[str, Any], keep: int
) -> Path:
    """Write the checkpoint of a finished step, and return the checkpoint's folder.

    ``folder`` is the folder with all checkpoints of the training. ``progress`` holds the number of the finished
    step. ``optimiser`` holds the weights and its own state. ``identity`` describes the data, code and settings of the
    training (:func:`groundtrace.trainer.identity.identity`). ``keep`` is the number of latest checkpoints that remain
    after this call; older checkpoints are deleted. In a training on several GPUs, all ranks (the processes of the GPUs)
    must call this function.
    """
    final = folder / f"step-{progress.step:06d}"
    partial = folder / f".{final.name}.{ranks.of_first(os.getpid())}"
    state = {"progress": vars(progress), "identity": dict(identity), "optimiser": optimiser.state_dict()}

    def finish() -> None:
        if ranks.is_first():
            torch.save(state, partial / STATE)
            if final.exists():
                shutil.rmtree(final)
            partial.rename(final)

    try:
        ranks.together(lambda: partial.mkdir(parents=True, exist_ok=True))
        if ranks.count() > 1:
            state["optimiser"] = sharded_state.write(partial / sharded_state.FOLDER, state["optimiser"])
        ranks.together(finish)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for old in checkpoints(folder)[:-keep] if ranks.is_first() else ():
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """Return the folders of the complete checkpoints in ``folder``, sorted by step, the latest step last."""
    found = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name) and (path / STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def export_command(checkpoint: Path, model: str) -> str:
    """Return the command that makes a model folder of a checkpoint, beside the training's output folder.

    ``checkpoint`` is the checkpoint's folder, and ``model`` is the model from which the training started.
    """
    out = f"{checkpoint.parent.parent}-{checkpoint.name}"
    return shlex.join(["trainer", "export", str(checkpoint), out, "--model", model])


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint as a dict with the keys ``progress``, ``identity`` and ``optimiser``.

    ``progress`` is how far the training has come, ``identity`` describes its data, code and settings, and ``optimiser``
    holds the weights and the optimiser's state. ``path`` is the checkpoint's folder. If a training on several GPUs
    wrote a tensor in parts, the parts are joined. Raises CheckpointError if the checkpoint is missing, damaged, or
    written by another version of the trainer.
    """
    state = _read_state(path)
    return {**state, "optimiser": _optimiser_state(path, state["optimiser"], None)}


def _read_state(path: Path) -> dict[str, Any]:
    """Return the content of the file ``STATE`` in the checkpoint's folder ``path``.

    If a training on several GPUs wrote the checkpoint, other files hold most of its tensors. These tensors are not part
    of the result. Raises CheckpointError if the file ``STATE`` cannot be read, and UnsafeFile if a file of the
    checkpoint is a pipe, a device or a link that leads out of the checkpoint's folder.
    """
    own_files(path)
    try:
        _check_sizes(path / STATE)
        # ranks map the file, because each of them needs only a part
        state = torch.load(path / STATE, map_location="cpu", weights_only=True, mmap=ranks.count() > 1)
    except Exception as error:  # torch raises many types on a damaged file
        raise _unreadable(path, error) from error
    parts = [state.get(key) for key in ("progress", "identity", "optimiser")] if isinstance(state, dict) else [None]
    if not all(isinstance(part, dict) for part in parts):
        raise CheckpointError(
            f"{path} cannot be read, because another version of the trainer wrote it: use the version of Groundtrace "
            "that the training was started with, or train again with another --output"
        )
    try:
        _check_leaves(state["identity"])
    except ValueError as error:
        raise _unreadable(path, error) from error
    return state


def _check_leaves(identity: Any) -> None:
    """Check that the description of a training has at most :data:`MAX_VALUES` values.

    The description comes from a file. In this file, a list may contain the same list several times. So a small file can
    describe so many values that their text does not fit into memory. Raises ValueError if there are too many values.
    """
    left, count = [identity], 0
    while left:
        value = left.pop()
        count += 1
        if count + len(left) > MAX_VALUES:
            raise ValueError(f"the checkpoint's description of the training has more than {MAX_VALUES} values")
        if isinstance(value, dict | list | tuple):
            left += value.values() if isinstance(value, dict) else value


def _check_sizes(file: Path) -> None:
    """Check that loading a file in torch's format needs at most as much memory as the file's size on the disk.

    A file in torch's format is a ZIP file with several parts. torch writes the parts without compression, but it also
    reads compressed parts. So a stranger's file of some megabytes could need any amount of memory. Raises ValueError if
    a part is compressed, or if the sizes of the parts, which the ZIP file lists, add up to more than the file's size.
    Also raises ValueError if the file's pickled data create a ``bytearray``, because a few bytes of pickled data can
    create a ``bytearray`` of any size. Raises BadZipFile if the file is not a ZIP file.
    """
    with zipfile.ZipFile(file) as parts:
        sizes = [part.file_size for part in parts.infolist() if part.compress_type == zipfile.ZIP_STORED]
        if len(sizes) < len(parts.infolist()) or sum(sizes) > file.stat().st_size:
            raise ValueError(
                f"the parts of {file.name} are compressed, or together larger than the file, which the trainer "
                "never writes"
            )
        for name in (name for name in parts.namelist() if name.endswith(".pkl")):
            for operation, argument, _ in pickletools.genops(parts.read(name)):
                if operation.name == "GLOBAL" and str(argument).endswith(" bytearray"):
                    raise ValueError(f"{file.name} contains a bytearray, which the trainer never writes")


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path} cannot be read: {' '.join(str(error).split())[:160]} ({type(error).__name__}): choose another "
        "checkpoint, or delete this one so that the run resumes from an earlier one"
    )


def _optimiser_state(path: Path, kept: dict[str, Any], optimiser: Optimiser | None) -> dict[str, Any]:
    """Return the complete state of the optimiser in the checkpoint's folder ``path``.

    ``kept`` is the part of the state that the file ``STATE`` holds. If the ranks (the processes of the GPUs) wrote
    tensors to files of their own, the tensors in these files are added to ``kept``. In the result, each tensor is
    sharded like the weight of ``optimiser`` to which it belongs. If ``optimiser`` is None, each tensor is whole. Raises
    CheckpointError if the tensors cannot be read.
    """
    shards = path / sharded_state.FOLDER
    if not shards.is_dir():
        return kept if optimiser is None else sharded_state.placed(kept, optimiser)
    try:
        return sharded_state.read(shards, kept, optimiser)
    except Exception as error:
        raise _unreadable(path, error) from error


def load_checkpoint(path: Path, optimiser: Optimiser, identity: Mapping[str, Any]) -> Progress:
    """Restore the weights, the optimiser and the random state from a checkpoint, and return the training's progress.

    ``path`` is the checkpoint's folder. ``optimiser`` and its weights are overwritten. ``identity`` describes the data
    and settings of the present training (:mod:`groundtrace.trainer.identity`). Raises CheckpointError if the checkpoint
    is damaged, if it was written with another identity, or if its weights are not those that this training trains.
    """
    state = _read_state(path)
    differs = difference(state["identity"], identity)
    if differs is not None:
        raise CheckpointError(
            f"{path} belongs to a training with other settings, data, weights or code: {differs}. Restore the "
            "earlier settings, data, weights and code, or choose another --output"
        )
    try:
        optimiser.load_state_dict(_optimiser_state(path, state["optimiser"], optimiser))
        progress = Progress(**state["progress"])
        _check_progress(progress)
        torch.set_rng_state(progress.random["torch"])
        if progress.random["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(progress.random["cuda"])
    except (ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (TypeError, KeyError, AttributeError, IndexError) as error:  # values of other types than the trainer writes
        raise _unreadable(path, error) from error
    return progress


def _check_progress(progress: Progress) -> None:
    """Raise TypeError if a value of the progress, which comes from a file, has another type than the trainer writes."""
    position = progress.position if isinstance(progress.position, tuple) else (progress.position,)
    if not all(type(number) is int for number in (progress.step, *position)):
        raise TypeError("the step or the position in the data is not a whole number")
    if not isinstance(progress.memory, dict) or not isinstance(progress.random, dict):
        raise TypeError("the saved state of the reward or of the random generators is not a dict")
