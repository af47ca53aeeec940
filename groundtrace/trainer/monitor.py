"""Writes the records of a training run, and shows its progress.

The records are run.json, metrics.jsonl, left_out.jsonl and, if configured, TensorBoard's files. The module also saves
some rollouts for inspection: response, reward, and the image with the response's points and boxes.
"""

import contextlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from groundtrace.config.extras import require_extra
from groundtrace.config.settings import config_sha256, to_toml
from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.revision import code_revision
from groundtrace.schemas.text import utc_now
from groundtrace.trainer.group import Group
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import BoxMark, OverlayPoint, draw_overlay, encode_png

SHOWN_GROUPS, SHOWN_ROLLOUTS = 2, 2
LINE_EVERY = 10
"""The number of steps from one printed line to the next, if stderr is not a terminal."""


class Monitor:
    """Writes the records of one run to its output folder, and shows its progress; it is a context manager."""

    def __init__(self, output: Path, command: str, settings: TrainerSettings, data: str, steps: int) -> None:
        self.output, self.steps, self._settings = output, steps, settings
        output.mkdir(parents=True, exist_ok=True)
        (output / "config.toml").write_text(to_toml(settings), "utf-8")
        self._run = {
            "command": command,
            "data": data,
            "config_sha256": config_sha256(settings),
            "revision": code_revision(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "started": utc_now(),
        }
        self._write_run()
        columns = (TextColumn(command), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=steps)
        self._board: Any = None
        self._left_out: set[str] = set()

    def __enter__(self) -> "Monitor":
        if sys.stderr.isatty():
            self._bar.start()
        if self._settings.log.tensorboard:
            require_extra("train", "log.tensorboard", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self.output / "tensorboard"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar.live.is_started:
            self._bar.stop()
        if self._board is not None:
            self._board.close()
        self._run |= {"finished": utc_now(), "ended": "done" if error is None else f"{type(error).__name__}: {error}"}
        self._run["rows_left_out"] = len(self._left_out)
        self._write_run()

    def resume_at(self, step: int) -> None:
        """Delete the metrics of ``step`` and of later steps, since these steps will be repeated.

        The list of left-out rows is loaded from its file; at step 0, the file is deleted.
        """
        metrics = [line for line in _lines(self.output / "metrics.jsonl") if line["step"] < step]
        left_out = _lines(self.output / "left_out.jsonl") if step else []
        _write_lines(self.output / "metrics.jsonl", metrics)
        _write_lines(self.output / "left_out.jsonl", left_out)
        self._left_out = {line["row"] for line in left_out}
        self._bar.update(self._task, completed=step)

    def log(self, step: int, metrics: Mapping[str, float | None], shown: tuple[str, ...], note: str = "") -> None:
        """Record the metrics of a step.

        None becomes null in metrics.jsonl, and values that are not finite are omitted. The progress bar shows the
        metrics named in ``shown`` and the ``note``. Without a terminal, every tenth step, the last step and each step
        with a note are printed as a line.
        """
        values = {name: value for name, value in metrics.items() if value is None or math.isfinite(value)}
        line = {"step": step} | values
        with (self.output / "metrics.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        figures = [f"{name} {value:.4g}" for name in shown if (value := values.get(name)) is not None]
        text = ", ".join([*figures, note] if note else figures)
        self._bar.update(self._task, completed=step + 1, description=text)
        if not sys.stderr.isatty() and (note or step % LINE_EVERY == 0 or step + 1 == self.steps):
            print(f"step {step + 1}/{self.steps}: {text}", file=sys.stderr)
        if self._board is not None:
            for name, value in values.items():
                if value is not None:
                    self._board.add_scalar(name, value, step)

    def leave_out(self, row: str, reason: str) -> None:
        """Record a row that is left out, and the reason. A row is recorded once, even if the run is resumed."""
        if row in self._left_out:
            return
        self._left_out.add(row)
        with (self.output / "left_out.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"row": row, "reason": reason}, ensure_ascii=False) + "\n")

    def _write_run(self) -> None:
        (self.output / "run.json").write_text(json.dumps(self._run, indent=1) + "\n", "utf-8")


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the parsed lines of a JSON Lines file, without a last line that a kill or a full disk truncated."""
    found = []
    for line in path.read_text("utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write the lines to a file; without lines, delete the file."""
    path.unlink(missing_ok=True)
    if lines:
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def save_rollouts(folder: Path, groups: Sequence[Group]) -> None:
    """Write some rollouts of the first groups to ``rollouts.jsonl``, with an overlay image for each."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for place, group in enumerate(groups[:SHOWN_GROUPS]):
        for number, scored in enumerate(group.scored[:SHOWN_ROLLOUTS]):
            name = f"{place}-{number}.png"
            drawn = overlay_png(group.row, scored.text)
            if drawn is not None:
                (folder / name).write_bytes(drawn)
            line = {"id": group.row.id, "gold": group.row.question.answer, **as_line(scored, group.row.context.stream)}
            lines.append(json.dumps(line | {"overlay": name if drawn else None}, ensure_ascii=False))
    (folder / "rollouts.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def as_line(scored: Scored, stream: str | None = None) -> dict[str, object]:
    """Return a scored response as plain fields for a JSON line; the field ``stream`` is missing if it is None."""
    verdicts = {verdict.name: {"value": verdict.value, "reason": verdict.reason} for verdict in scored.verdicts}
    asked = {} if stream is None else {"stream": stream}
    return {**asked, "reward": scored.reward, "text": scored.text, "verdicts": verdicts}


def overlay_png(row: TrainingRow, text: str) -> bytes | None:
    """Return the row's first image as PNG, with the points and boxes of the text drawn on it.

    Returns None if the row has no image, or the text has no points and boxes.
    """
    points, boxes = parse_points(text), parse_boxes(text)
    if not row.images or not (points or boxes):
        return None
    marks = [OverlayPoint(number, point.label, point.x, point.y) for number, point in enumerate(points, 1)]
    frames: list[BoxMark] = [(number, b.label, b.x1, b.y1, b.x2, b.y2) for number, b in enumerate(boxes, 1)]
    return encode_png(draw_overlay(decode_image(row.images[0][0]).pixels, marks, frames))
