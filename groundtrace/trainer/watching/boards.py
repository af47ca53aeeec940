"""Sends metrics to other programs that draw them: TensorBoard, Weights & Biases (W&B), and trackio.

Such a program is called a board here. W&B and trackio are also called trackers. The Python packages of the two trackers
have the same functions, so one class serves both. Only metrics and settings are sent. The settings of endpoints (model
servers) are left out, so that no key, address or prompt is sent.
"""

import dataclasses
import importlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from groundtrace.config.extras import require_extra
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import read_json
from groundtrace.storage.files import write_atomically
from groundtrace.trainer.settings import LogSettings, TrainerSettings

VALIDATION = "validation/"
"""The text in front of the names of the validation's metrics."""


class Board(Protocol):
    """Defines the methods of a board: a program that receives the metrics of a training and draws them."""

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Send the metrics of a training step or of a validation.

        ``values`` maps the names of the metrics to the values. ``step`` is the number of the training step, from 1. For
        a validation, ``step`` is the number of training steps before the validation. ``prefix`` is a text in front of
        each name: "" for the training, ``validation/`` for a validation.
        """
        ...

    def close(self) -> None:
        """Send the metrics that are not sent yet, and close the connection to the board.

        A board is a program that shows metrics.
        """
        ...


def check_boards(log: LogSettings) -> None:
    """Check that the Python packages of the configured boards (programs that show metrics) are installed.

    Raises MissingExtra if a package is not installed.
    """
    if log.tensorboard:
        require_extra("train", "log.tensorboard", "tensorboard")
    if log.tracker != "none":
        require_extra(log.tracker, f"log.tracker {log.tracker}", log.tracker)


def open_boards(
    output: Path, command: str, settings: TrainerSettings, step: int, sent: Mapping[str, int]
) -> list[Board]:
    """Return the boards (programs that show metrics, such as TensorBoard) that the config names.

    The training or evaluation continues after ``step`` complete steps. ``output`` is its output folder, and
    ``command`` is ``sft``, ``grpo`` or ``eval``. ``sent`` describes which metrics were already sent before an
    interruption. Its keys are the prefixes of the metrics' names: "" for the training, and :data:`VALIDATION` for a
    validation. Its values are the last steps whose metrics were sent. W&B and trackio do not get the metrics up to
    these steps again. Raises UserError if W&B or trackio cannot start.
    """
    boards: list[Board] = []
    if settings.log.tensorboard:
        boards.append(TensorBoard(output, step))
    if settings.log.tracker != "none":
        boards.append(Tracker(output, command, settings, step, sent))
    return boards


class TensorBoard:
    """Writes metrics to files in the output folder. TensorBoard reads these files.

    The training continues after ``step`` complete steps. If an interrupted training wrote metrics of later steps, they
    are discarded.
    """

    def __init__(self, output: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(output / "tensorboard"), purge_step=step + 1 if step else 0)

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Write the metrics of a step to TensorBoard's files.

        ``values`` maps the names of the metrics to the values, and ``prefix`` is a text in front of each name: "" for
        the training, ``validation/`` for a validation.
        """
        for name, value in values.items():
            self._writer.add_scalar(prefix + name, value, step)

    def close(self) -> None:
        """Write the metrics that are not written yet, and close the files."""
        self._writer.close()


class Tracker:
    """Sends metrics to a tracker: W&B or trackio.

    The tracker records each training as a run. The id of the run is saved in the file ``tracker.json``. A resumed
    training continues this run. ``sent`` maps each prefix of metrics ("" or ``validation/``) to the last step whose
    metrics were already sent. The metrics up to this step are not sent again. Raises UserError if the tracker cannot
    start.
    """

    def __init__(
        self, output: Path, command: str, settings: TrainerSettings, step: int, sent: Mapping[str, int]
    ) -> None:
        log, id_file = settings.log, output / "tracker.json"
        self._sent = dict(sent) if step and id_file.exists() else {}
        if not self._sent:
            write_atomically(id_file, json.dumps({"id": uuid.uuid4().hex[:8]}))
        id = read_json(id_file)["id"]
        own = {"id": id, "dir": str(output)} if log.tracker == "wandb" else {}
        self._module: Any = importlib.import_module(log.tracker)
        name, config = f"{output.resolve().name}-{id}", _config(command, settings)
        try:
            self._module.init(project=log.project, name=name, config=config, resume="allow", **own)
        except Exception as error:  # each service has its own types of errors
            line = " ".join(str(error).split())[:300]
            offline = "set WANDB_MODE=offline, " if log.tracker == "wandb" else ""
            raise UserError(
                f"the tracker {log.tracker!r} cannot start ({line}): log in to this tracker, "
                f'{offline}or set log.tracker = "none"'
            ) from error

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Send the metrics of a step, unless they were already sent before an interruption.

        ``values`` maps the names of the metrics to the values; ``prefix`` is a text in front of each name: "" for the
        training, ``validation/`` for a validation.
        """
        if step > self._sent.get(prefix, -1):
            self._module.log({prefix + name: value for name, value in values.items()}, step=step)

    def close(self) -> None:
        """Send the metrics that are not sent yet, and end the run at the tracker (W&B or trackio)."""
        self._module.finish()


def _config(command: str, settings: TrainerSettings) -> dict[str, Any]:
    """Return the settings that a tracker (W&B or trackio) shows with the metrics, such as those of the model."""
    sections = ("model", "batch", command) if command == "sft" else ("model", "batch", "rollout", command)
    found = {name: dataclasses.asdict(getattr(settings, name)) for name in sections}
    found.get("rollout", {}).pop("base_url", None)
    return {"command": command, "seed": settings.seed, **found}
