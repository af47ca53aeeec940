"""Sends metrics to other programs that draw them: TensorBoard, Weights & Biases (W&B), and trackio.

W&B and trackio have the same functions, so one class serves both. Only metrics and settings are sent. The settings of
endpoints are left out, so that no key, address or prompt is sent.
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
from groundtrace.storage.files import write_atomically
from groundtrace.trainer.settings import LogSettings, TrainerSettings

VALIDATION = "validation/"
"""The prefix of the validation's metrics."""


class Board(Protocol):
    """Receives the metrics of a training, in order to draw them."""

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Send the metrics of a step. ``prefix`` is put in front of their names."""
        ...

    def close(self) -> None:
        """Send the metrics that are not sent yet, and close the connection."""
        ...


def check_boards(log: LogSettings) -> None:
    """Raise MissingExtra if the package of a configured board is not installed."""
    if log.tensorboard:
        require_extra("train", "log.tensorboard", "tensorboard")
    if log.tracker != "none":
        require_extra(log.tracker, f"log.tracker {log.tracker}", log.tracker)


def open_boards(
    output: Path, command: str, settings: TrainerSettings, step: int, sent: Mapping[str, int]
) -> list[Board]:
    """Return the configured boards of a training that begins or continues at ``step``.

    ``sent`` maps each prefix of metrics to the last step whose metrics are already recorded. The metrics of this step
    and of earlier steps are not sent to a tracker again. Raises UserError if a tracker cannot start.
    """
    boards: list[Board] = []
    if settings.log.tensorboard:
        boards.append(TensorBoard(output, step))
    if settings.log.tracker != "none":
        boards.append(Tracker(output, command, settings, step, sent))
    return boards


class TensorBoard:
    """Writes event files for TensorBoard.

    If an interrupted training wrote metrics of ``step`` or of later steps, they are discarded.
    """

    def __init__(self, output: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(output / "tensorboard"), purge_step=step)

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Write the metrics of a step. ``prefix`` is put in front of their names.

        The metrics of a validation after N steps are written at the index N - 1 of the last step. So they are kept if
        the training resumes after N steps.
        """
        index = max(step - 1, 0) if prefix else step
        for name, value in values.items():
            self._writer.add_scalar(prefix + name, value, index)

    def close(self) -> None:
        """Write the metrics that are not written yet, and close the files."""
        self._writer.close()


class Tracker:
    """Sends metrics to W&B or trackio.

    The file ``tracker.json`` holds the id of the run at the tracker. A resumed training continues this run.
    """

    def __init__(
        self, output: Path, command: str, settings: TrainerSettings, step: int, sent: Mapping[str, int]
    ) -> None:
        log, id_file = settings.log, output / "tracker.json"
        self._sent = dict(sent) if step and id_file.exists() else {}
        if not self._sent:
            write_atomically(id_file, json.dumps({"id": uuid.uuid4().hex[:8]}))
        id = json.loads(id_file.read_text("utf-8"))["id"]
        own = {"id": id, "dir": str(output)} if log.tracker == "wandb" else {}
        self._module: Any = importlib.import_module(log.tracker)
        name, config = f"{output.resolve().name}-{id}", _config(command, settings)
        try:
            self._module.init(project=log.project, name=name, config=config, resume="allow", **own)
        except Exception as error:  # each service has its own types of errors
            line = " ".join(str(error).split())[:300]
            raise UserError(
                f"log.tracker = {log.tracker!r} cannot start: {line}: log in, set WANDB_MODE=offline, or set "
                "log.tracker = none"
            ) from error

    def add(self, values: Mapping[str, float], step: int, prefix: str = "") -> None:
        """Send the metrics of a step, except if they were already sent before an interruption."""
        if step > self._sent.get(prefix, -1):
            self._module.log({prefix + name: value for name, value in values.items()}, step=step)

    def close(self) -> None:
        """Send the metrics that are not sent yet, and finish the run of the tracker."""
        self._module.finish()


def _config(command: str, settings: TrainerSettings) -> dict[str, Any]:
    """Return the settings to show beside the metrics: those of the model, the batches and the optimiser."""
    sections = ("model", "batch", command) if command == "sft" else ("model", "batch", "rollout", command)
    found = {name: dataclasses.asdict(getattr(settings, name)) for name in sections}
    found.get("rollout", {}).pop("base_url", None)
    return {"command": command, "seed": settings.seed, **found}
