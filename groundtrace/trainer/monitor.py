"""Writes the records of a training or an evaluation, such as its metrics, and shows its progress.

The records are run.json, metrics.jsonl, validation.jsonl, left_out.jsonl and the page train.html. If configured, other
programs such as TensorBoard (called boards here) get the metrics, too. The module also saves some sampled responses for
inspection: the text, the reward, and the image with the response's points and boxes.
"""

import functools
import json
import math
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from groundtrace.config.settings import config_sha256, to_toml
from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.registry import plugin_files
from groundtrace.schemas.revision import revision_with
from groundtrace.schemas.text import utc_now
from groundtrace.storage.files import write_atomically
from groundtrace.trainer import ranks
from groundtrace.trainer.continued import changed_settings
from groundtrace.trainer.group import Group
from groundtrace.trainer.output_folder import recorded_run
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.watching.boards import VALIDATION, Board, check_boards, open_boards
from groundtrace.trainer.watching.page import TrainPage
from groundtrace.trainer.watching.records import as_line, read_lines, read_metrics, read_steps, write_lines
from groundtrace.trainer.watching.sampled import Sampled, SampledView
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import BoxMark, OverlayPoint, draw_overlay, encode_png

MIN_OF_GROUP = 2
"""The minimum number of responses to a question in a written sample, if it has so many: they can be compared."""
LINE_EVERY = 10
"""The number of steps between two printed lines about the progress, if stderr is not a terminal."""


class Monitor:
    """Writes the records (such as metrics) of one training or evaluation to its output folder, and shows its progress.

    Use it as a context manager. ``validations`` is a list with the step and the metrics of each finished validation, as
    in validation.jsonl.
    """

    def __init__(
        self,
        output: Path,
        command: str,
        settings: TrainerSettings,
        data: str,
        steps: int,
        done: int = 0,
        identity: Mapping[str, Any] | None = None,
        bundled: str = "",
    ) -> None:
        """Write run.json and the config to the folder ``output``.

        ``command`` is ``sft``, ``grpo`` or ``eval``. ``data`` is the name of the data, for run.json. ``steps`` is the
        total number of steps, and ``done`` is the number of steps that earlier commands completed. If ``done`` is above
        0, run.json keeps the time at which the first command started, and lists the settings that changed since then.
        ``identity`` describes what determines the result of an evaluation
        (:func:`groundtrace.trainer.identity.identity`). It is written to run.json. The identity of a training is None,
        because it is in the checkpoints. ``bundled`` is the name of the bundled config (one that Groundtrace contains)
        that the user named; "" if there is none.

        If ``done`` equals ``steps``, the training was already complete. Then run.json also keeps the time at which the
        previous command finished, unless the previous command ended with an error.
        """
        self.output, self.steps, self._settings, self._command = output, steps, settings, command
        output.mkdir(parents=True, exist_ok=True)
        complete = replace(settings, reward=settings.reward.complete())
        config = to_toml(complete)
        earlier = (recorded_run(output) if done else None) or {}
        is_done = done == steps and earlier.get("ended") == "done"
        self._finished: str | None = earlier.get("finished") if is_done else None
        self._run = {
            "command": command,
            "data": data,
            "model": settings.model.path,
            "steps": steps,
            "best_by": settings.validation.best_by,
            "config_sha256": config_sha256(complete),
            "revision": revision_with(plugin_files(tomllib.loads(config))),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "started": earlier.get("started") or utc_now(),
        } | ({"gpus": ranks.count()} if ranks.count() > 1 else {})
        self._run |= {"bundled_config": bundled} if bundled else {}
        self._run |= {} if identity is None else {"identity": dict(identity)}
        self._run |= {"changes": changes} if (changes := _changes(earlier, output, settings, done)) else {}
        self._write_run()  # before all other files (output_folder.py)
        write_atomically(output / "config.toml", config)
        columns = (
            TextColumn("{task.fields[name]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=steps, name=command)
        self._sampled = SampledView(self._bar)
        self._boards: list[Board] = []
        self._page = None if command == "eval" else TrainPage(output, settings)
        self._left_out: set[str] = set()
        self.validations: list[dict[str, Any]] = []

    def __enter__(self) -> "Monitor":
        check_boards(self._settings.log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar.live.is_started:
            self._bar.stop()
        for board in list(self._boards):
            self._guarded(board, board.close)
        ended = "done" if error is None else f"{type(error).__name__}: {error}"
        finished = self._finished if error is None else None
        self._run |= {"finished": finished or utc_now(), "ended": ended}
        self._run["rows_left_out"] = len(self._left_out)
        self._write_run()
        if self._page is not None:
            self._page.write()

    def resume_at(self, step: int) -> None:
        """Prepare the records for a training that continues after ``step`` complete steps, and open the boards.

        The records are files such as metrics.jsonl. Boards are other programs that show metrics, such as TensorBoard.
        The metrics of later steps are deleted, because these steps will be repeated. Validations after more than
        ``step`` steps are also deleted. The list of rows that are left out of the training is loaded from
        left_out.jsonl.

        If ``step`` is 0, the training begins. In this case, all validations and the list of left-out rows are deleted.
        Raises UserError if a tracker (W&B or trackio) cannot start.
        """
        metrics = read_metrics(self.output / "metrics.jsonl")
        validations = read_steps(self.output / "validation.jsonl")
        sent = {prefix: _last(lines) for prefix, lines in (("", metrics), (VALIDATION, validations))}
        left_out = read_lines(self.output / "left_out.jsonl", ("row",)) if step else []
        self.validations = [line for line in validations if 0 <= line["step"] <= step] if step else []
        write_lines(self.output / "metrics.jsonl", [line for line in metrics if line["step"] <= step])
        write_lines(self.output / "validation.jsonl", self.validations)
        write_lines(self.output / "left_out.jsonl", left_out)
        self._left_out = {line["row"] for line in left_out}
        self._bar.update(self._task, completed=step)
        self._boards = open_boards(self.output, self._command, self._settings, step, sent)
        if sys.stderr.isatty():
            self._bar.start()

    def log(self, step: int, metrics: Mapping[str, float | None], shown: tuple[str, ...], note: str = "") -> None:
        """Record the metrics of a step, and show some of them to the user. ``step`` is its number, from 1.

        The metrics are written to metrics.jsonl and to the page train.html, and sent to the boards (programs such as
        TensorBoard). In metrics.jsonl, None becomes null, and values that are not finite are omitted. The progress bar
        shows the metrics whose names are in ``shown``, and ``note``, a short message such as "no gradient in 3 steps".
        Without a terminal, a line is printed for the first step, for every tenth step after it, for the last step and
        for each step with a note.
        """
        values = {name: value for name, value in metrics.items() if value is None or math.isfinite(value)}
        self._append("metrics.jsonl", {"step": step} | values)
        figures = _shown(values, shown)
        text = ", ".join([*figures, note] if note else figures)
        self._bar.update(self._task, completed=step, description=text)
        if not sys.stderr.isatty() and (note or (step - 1) % LINE_EVERY == 0 or step == self.steps):
            print(f"step {step}/{self.steps}: {text}", file=sys.stderr)
        self._send(values, step)

    def show_sampled(self, sampled: Sampled | None) -> None:
        """Show how many responses a training step has sampled until now.

        In a terminal, the progress bar shows the number. Otherwise, a line with the number is printed at most every
        30 s. If ``sampled`` is None, the step has ended its sampling, and the number is no longer shown.
        """
        self._sampled.show(sampled)

    def validated(self, step: int, metrics: Mapping[str, float | None], shown: tuple[str, ...]) -> None:
        """Record the metrics of a validation during training, and print those whose names are in ``shown``.

        The metrics are written to validation.jsonl and to the page train.html, and sent to the boards (programs such as
        TensorBoard). ``step`` is the number of training steps before the validation.
        """
        values = {name: value for name, value in metrics.items() if value is None or math.isfinite(value)}
        self.validations.append({"step": step} | values)
        self._append("validation.jsonl", {"step": step} | values)
        print(f"validation after {step} steps: {', '.join(_shown(values, shown))}", file=sys.stderr)
        self._send(values, step, VALIDATION)

    def _send(self, values: Mapping[str, float | None], step: int, prefix: str = "") -> None:
        """Send metrics to the boards (programs such as TensorBoard), and update the page train.html.

        ``values`` maps the names of the metrics to the values. ``prefix`` is a text in front of each name: "" for a
        training step, ``validation/`` for a validation.

        After a validation, the page is written immediately. After a training step, the page is written only if enough
        time has passed since the page was last written.
        """
        known = {name: value for name, value in values.items() if value is not None}
        for board in list(self._boards):
            self._guarded(board, functools.partial(board.add, known, step, prefix))
        if self._page is not None:
            self._page.refresh(at_once=prefix == VALIDATION)

    def _guarded(self, board: Board, call: Callable[[], None]) -> None:
        """Call ``call``, which uses ``board``. If it fails, print the reason, and send no more metrics to this board.

        A board is a program that shows metrics, such as TensorBoard. A failure of a board does not end the training.
        """
        try:
            call()
        except Exception as error:  # each service has its own types of errors
            line = " ".join(str(error).split())[:200]
            print(f"trainer: {type(board).__name__} gets no more metrics: {line}", file=sys.stderr)
            self._boards.remove(board)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (self.output / name).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    def leave_out(self, row: str, reason: str) -> None:
        """Record in left_out.jsonl that a row of the data is not used, and the reason.

        ``row`` names the row, e.g. ``row 12``. Each row is recorded only once, even if the training is interrupted and
        resumed.
        """
        if row in self._left_out:
            return
        self._left_out.add(row)
        self._append("left_out.jsonl", {"row": row, "reason": reason})

    def _write_run(self) -> None:
        write_atomically(self.output / "run.json", json.dumps(self._run, indent=1) + "\n")


class SilentMonitor(Monitor):
    """Replaces the :class:`Monitor` in a training on several GPUs, in every process except the first.

    A :class:`Monitor` writes the records of a training, such as its metrics, and shows its progress. A SilentMonitor
    writes and shows nothing, because the Monitor of the first process does this for all processes.
    """

    def __init__(
        self, output: Path, command: str, settings: TrainerSettings, data: str, steps: int, done: int = 0, **_: Any
    ) -> None:
        self.output, self.steps = output, steps

    def __enter__(self) -> "SilentMonitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing, because only the first process (rank) shows the progress and writes the records."""

    def resume_at(self, step: int) -> None:
        """Do nothing, because only the first process (rank) writes records of the training."""

    def log(self, step: int, metrics: Mapping[str, float | None], shown: tuple[str, ...], note: str = "") -> None:
        """Do nothing, because only the first process (rank) writes the metrics of all processes."""

    def show_sampled(self, sampled: Sampled | None) -> None:
        """Do nothing, because only the first process (rank) shows the progress."""

    def leave_out(self, row: str, reason: str) -> None:
        """Do nothing, because the first process (rank) also records the unusable rows of the other processes."""


def _changes(earlier: Mapping[str, Any], output: Path, settings: TrainerSettings, done: int) -> list[dict[str, Any]]:
    """Return the settings that changed while the training in ``output`` was continued, for run.json.

    ``earlier`` is the content of run.json that the previous command wrote, and ``done`` is the number of steps that
    earlier commands completed. Each item has the step after which the settings changed, and the settings as
    :func:`groundtrace.trainer.continued.changed_settings` returns them.
    """
    if not earlier:
        return []
    changed = changed_settings(output, settings)
    return [*earlier.get("changes", ()), *([{"step": done, "settings": changed}] if changed else ())]


def _last(lines: Sequence[Mapping[str, Any]]) -> int:
    """Return the largest training step in the lines of a file such as metrics.jsonl; -1 if there are no lines."""
    return max((line["step"] for line in lines), default=-1)


def _shown(values: Mapping[str, float | None], shown: Sequence[str]) -> list[str]:
    return [f"{name} {value:.4g}" for name in shown if (value := values.get(name)) is not None]


def save_rollouts(folder: Path, groups: Sequence[Group], count: int) -> None:
    """Save some of the sampled responses of a training step to a folder, so that a user can inspect them.

    ``groups`` are the groups of the step; a group is a question with the sampled responses to it. At most ``count``
    responses are saved (:func:`_selected`). The responses are written to ``rollouts.jsonl``, and the first image of
    each question to a file. If a response has points or boxes, a copy of the image with these points and boxes is
    saved, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for place, numbers in _selected(groups, count):
        group = groups[place]
        image = f"{place}{Path(group.row.images[0][1]).suffix[:8]}" if group.row.images else None
        if image is not None:
            (folder / image).write_bytes(group.row.images[0][0])
        for number in numbers:
            scored = group.scored[number]
            name = f"{place}-{number}.png"
            drawn = overlay_png(group.row, scored.text)
            if drawn is not None:
                (folder / name).write_bytes(drawn)
            asked = group.row.question
            line = {"id": group.row.id, "question": asked.question, "gold": asked.answer}
            line |= as_line(scored, group.row.context.stream)
            lines.append(json.dumps(line | {"image": image, "overlay": name if drawn else None}, ensure_ascii=False))
    (folder / "rollouts.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _selected(groups: Sequence[Group], count: int) -> list[tuple[int, list[int]]]:
    """Choose at most ``count`` responses of a training step to save, and return their indices for each group.

    A group is a question with the sampled responses to it. The result has pairs: the index of a group, and the indices
    of the chosen responses in it, both in ascending order. A group without chosen responses is left out.

    Responses are chosen first from groups with a right response. About half of the chosen responses of a group are
    right, and the others are not. If a group has too few of one kind, more responses of the other kind are chosen.
    """
    order = sorted(range(len(groups)), key=lambda place: not any(map(_is_right, groups[place].scored)))
    of_group = max(MIN_OF_GROUP, math.ceil(count / max(1, len(groups))))
    found = list[tuple[int, list[int]]]()
    for place in order:
        scored, most = groups[place].scored, min(of_group, count)
        right = [number for number, each in enumerate(scored) if _is_right(each)]
        others = [number for number, each in enumerate(scored) if not _is_right(each)]
        half = (most + 1) // 2
        numbers = sorted([*right[:half], *others, *right[half:]][:most])
        count -= len(numbers)
        if numbers:
            found.append((place, numbers))
    return sorted(found)


def _is_right(scored: Scored) -> bool:
    return (scored.outcome or 0.0) >= 1


def overlay_png(row: TrainingRow, text: str) -> bytes | None:
    """Return the first image of a question as PNG, with the points and boxes of a response drawn on it.

    ``row`` is the row of the question, and ``text`` is the response. The result is None if the row has no image, or if
    the response has neither points nor boxes.
    """
    points, boxes = parse_points(text), parse_boxes(text)
    if not row.images or not (points or boxes):
        return None
    marks = [OverlayPoint(number, point.label, point.x, point.y) for number, point in enumerate(points, 1)]
    frames: list[BoxMark] = [(number, b.label, b.x1, b.y1, b.x2, b.y2) for number, b in enumerate(boxes, 1)]
    return encode_png(draw_overlay(decode_image(row.images[0][0]).pixels, marks, frames))
