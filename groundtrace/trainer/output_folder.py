"""Checks an output folder before a command writes to it, so that files of another command or user are not replaced."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import read_json, refuse_links, refuse_special
from groundtrace.trainer.identity import difference
from groundtrace.trainer.settings import TrainerSettings

WRITTEN = ("config.toml", "metrics.jsonl", "validation.jsonl", "model", "checkpoints", "best", "eval.json")
"""The files and folders in an output folder that a command (``trainer sft``, ``grpo`` or ``eval``) replaces.

Each command writes its run.json before these files. So :func:`check_output` treats a file of this list without run.json
as a file of another program.
"""
OF_TRACKER = ("wandb", ".wandb")
"""The folders that W&B writes. Links inside these folders are accepted, because W&B itself makes links there."""
ALSO_WRITTEN = (
    *(".lock", "run.json", "left_out.jsonl", "train.html", "eval.html", "responses.jsonl", "tracker.json"),
    *("rollouts", "validation", "rows", "cache", "media", "served", "tensorboard", *OF_TRACKER),
)
"""The other files and folders in an output folder that a command writes."""
_OF = {"sft": "a training by SFT", "grpo": "a training by GRPO", "eval": "an evaluation"}


def check_output(command: str, settings: TrainerSettings, output: Path) -> None:
    """Check that a command may write to the folder ``output``. Raises UserError if not.

    ``command`` is ``sft``, ``grpo`` or ``eval``. The output of an earlier run of the same command may be replaced; for
    an evaluation, :func:`check_evaluation` checks a further condition. The error is raised if ``output`` holds one of
    the following:

    - the output of the command ``beam`` (which runs a pipeline), or of another ``trainer`` command;
    - files of another program, with the same names as files that the command writes (:data:`WRITTEN`);
    - the model that the training starts from;
    - a link, pipe or device among the files and folders that a command writes or deletes (:func:`refuse_unsafe`).
    """
    model = output / "model"
    if command != "eval" and model.is_dir() and model.resolve() == Path(settings.model.path).resolve():
        raise UserError(
            f"{model} is the model that the training starts from, and the trained model would replace it: choose "
            "another --output"
        )
    refuse_unsafe(output)
    found = recorded_run(output)
    if found is not None:
        if found.get("command") != command:
            held = _OF.get(found.get("command", ""), "a run of `beam`" if "counts" in found else "something else")
            raise UserError(
                f"{output} already holds the output of {held}, which would be replaced: choose another --output"
            )
        return
    taken = [name for name in WRITTEN if (output / name).exists()]
    if taken and not (output / "run.json").exists():
        raise UserError(
            f"`trainer {command}` would replace {output / taken[0]}, which another program made: choose another "
            "--output"
        )


def check_evaluation(output: Path, identity: Mapping[str, Any]) -> None:
    """Raise UserError if ``output`` holds a complete evaluation with other data, weights, code or settings.

    ``output`` is the folder to which the present evaluation would write. ``identity`` describes what determines the
    result of the present evaluation (:func:`groundtrace.trainer.identity.identity`). The error names what differs, such
    as settings. An evaluation of an earlier version has no identity in its run.json; it may be replaced.
    """
    run = recorded_run(output) or {}
    saved = run.get("identity")
    if not isinstance(saved, dict) or run.get("ended") != "done" or not (output / "eval.json").exists():
        return
    differs = difference(saved, dict(identity))
    if differs is not None:
        raise UserError(
            f"{output} already holds an evaluation with other settings, data, weights or code, which would be "
            f"replaced: {differs}. Choose another --output, or remove the folder"
        )


def refuse_unsafe(output: Path) -> None:
    """Raise UnsafeFile if a command would write or delete a link, a pipe or a device in the folder ``output``.

    The files and folders that a command writes or deletes are checked. The files and folders inside these folders are
    checked, too, at all depths. Another person may have sent the folder ``output``. Without this check, a command could
    delete or replace the files to which a link leads, or wait for a pipe. ``output`` itself may be a link.
    """
    names = (*WRITTEN, *ALSO_WRITTEN)
    refuse_links(output, *names)
    for name in names:
        refuse_special(output / name)
        for path in _entries_below(output / name) if name not in OF_TRACKER else ():
            if path.is_symlink():
                refuse_links(output, str(path.relative_to(output)))
            refuse_special(path)


def _entries_below(folder: Path) -> Iterator[Path]:
    """Yield the files and folders at all depths in ``folder``.

    If ``folder`` is a file or does not exist, nothing is yielded.
    """
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def recorded_run(output: Path) -> dict[str, Any] | None:
    """Return the content of the file run.json in the folder ``output``.

    A training, an evaluation and a run of a pipeline describe their latest execution in this file.

    The result is None if the file is missing or is not JSON, e.g. because a full disk truncated it. The result is an
    empty dict if the file holds JSON other than an object. Raises UnsafeFile if the file is a pipe or a device.
    """
    try:
        found = read_json(output / "run.json")
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else {}
