"""Writes the page ``train.html`` while a training runs: one file with its curves, validations and some answers."""

import sys
import time
from pathlib import Path
from typing import Any

from groundtrace.pages.render import render
from groundtrace.schemas.safe_files import read_json
from groundtrace.storage.files import write_atomically
from groundtrace.trainer.checkpoint import checkpoints, export_command
from groundtrace.trainer.group import note_idle
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.validation.best import best_of
from groundtrace.trainer.watching.answers import shown_questions
from groundtrace.trainer.watching.curves import HEIGHT, LEFT, WIDTH, charts, short, zeros
from groundtrace.trainer.watching.entries import entries_of
from groundtrace.trainer.watching.records import read_metrics, read_steps
from groundtrace.trainer.watching.shown_settings import SECTIONS, is_bundled, shown_reward, shown_training

PAGE = "train.html"
MIN_PAUSE_S = 20.0
MAX_SHARE = 0.02
"""The largest share of the training's time that may be spent on writing the page."""
MAX_VALIDATIONS = 12
COLUMNS = (
    "accuracy",
    "reward",
    "point_f1",
    "iou",
    "loss",
    "entropy",
    "response_tokens",
    "logprob_gap",
    "weights_capped",
)
"""The metrics in the table of validations. A metric without any value has no column."""


class TrainPage:
    """Writes the page ``train.html`` of a training to its output folder, and updates the page while the training runs.

    The page also shows ``settings``, the config of the training; None to leave it out. If the page cannot be written,
    the training continues, and the reason is printed once.
    """

    def __init__(self, output: Path, settings: TrainerSettings | None = None) -> None:
        self._output, self._settings = output, settings
        self._next_s = 0.0
        self._problem = ""

    def refresh(self, at_once: bool = False) -> None:
        """Write the page ``train.html`` again if the existing page is old enough, or if ``at_once`` is True.

        The page is old enough ``MIN_PAUSE_S`` seconds after its last writing began. If that writing took long, the
        pause is longer, so that writing takes at most the share ``MAX_SHARE`` of the time.
        """
        if at_once or time.monotonic() >= self._next_s:
            self.write()

    def write(self) -> None:
        """Write the page ``train.html``. If this fails, print the reason, and raise nothing.

        The same reason is printed only once.
        """
        started = time.monotonic()
        try:
            html = train_page(self._output, self._settings)
            write_atomically(self._output / PAGE, html.encode("utf-8", "backslashreplace"))
        except Exception as error:  # whatever it is, the training matters more than its page
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            if problem != self._problem:
                print(f"trainer: {self._output / PAGE} cannot be written: {problem}", file=sys.stderr)
            self._problem = problem
        took_s = time.monotonic() - started
        self._next_s = started + max(MIN_PAUSE_S, took_s / MAX_SHARE)


def train_page(output: Path, settings: TrainerSettings | None = None) -> str:
    """Return the HTML page of a training, made from the files in its output folder ``output``.

    The page also shows ``settings``, the config of the training; None to leave it out. A GRPO training has a reward,
    whose settings are in a table of their own.
    """
    run = read_json(output / "run.json")
    command, named = str(run.get("command")), str(run.get("bundled_config", ""))
    bundled = named if is_bundled(named) else ""
    metrics, validations = read_metrics(output / "metrics.jsonl"), read_steps(output / "validation.jsonl")
    best = best_of(validations, run.get("best_by") or "accuracy")
    first, more = charts(metrics, validations, best)
    questions = shown_questions(output, [line["step"] for line in validations])
    ends = {0, *range(len(validations) - MAX_VALIDATIONS, len(validations))}
    listed = [line for place, line in enumerate(validations) if place in ends or line["step"] == best][::-1]
    columns = [name for name in COLUMNS if any(line.get(name) is not None for line in validations)]
    return render(
        "groundtrace.trainer.watching",
        "train.html.jinja",
        name=output.resolve().name,
        run=run,
        ended=run.get("ended"),
        warning=_idle_warning(run, metrics, settings),
        done=metrics[-1]["step"] if metrics else 0,
        metrics=metrics[-1] if metrics else {},
        validations=listed,
        hidden=len(validations) - len(listed),
        tiles=_tiles(metrics, validations),
        columns=columns,
        best=best,
        charts=first,
        more=more,
        size=(WIDTH, HEIGHT),
        left=LEFT,
        questions=entries_of(questions),
        reward=shown_reward(settings.reward) if settings and command == "grpo" else None,
        bundled=bundled,
        settings=shown_training(settings, command, bundled) if settings and command in SECTIONS else (),
        last_export=_export_of(output / "checkpoints", run),
        best_export=_export_of(output / "best", run),
        figure_of=_figure,
        has_intervals=any(_interval(line) for line in validations),
        interval_of=_interval,
        within=_within_note(validations),
        zeros=zeros(metrics, validations),
        shows_outcome=any(line.get("outcome") for line in metrics),
        shows_blind=any(line.kind.startswith("blind_") for each in first for line in each.lines),
        refresh_s=round(MIN_PAUSE_S),
    )


def _idle_warning(run: dict[str, Any], metrics: list[dict[str, Any]], settings: TrainerSettings | None) -> str | None:
    """Return the note that the terminal shows after a complete GRPO training without any gradient; else None.

    ``run`` is the content of run.json, and ``metrics`` holds the metrics of each step.
    """
    if settings is None or run.get("command") != "grpo" or run.get("ended") != "done":
        return None
    return note_idle(metrics, settings.grpo.optimiser.weight_decay)


def _export_of(folder: Path, run: dict[str, Any]) -> str | None:
    """Return the command that makes a model of the latest checkpoint in ``folder``; None if there is no checkpoint.

    ``run`` is the content of run.json, which names the model from which the training started.
    """
    found = checkpoints(folder)
    return export_command(found[-1], str(run.get("model"))) if found else None


def _figure(value: float | None) -> str:
    """Return a number of the page as text; a dash for None.

    The number 0, and numbers with an absolute value from 0.001 to below 10, have three decimals. Other numbers are
    shortened, e.g. to ``1,230`` or ``1e-05`` (:func:`short`).
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if not value or 1e-3 <= abs(value) < 10 else short(value)


def _interval(line: dict[str, Any]) -> str | None:
    """Return the 95 % interval of the accuracy of a validation as text; None if it is unknown.

    Validations of earlier versions of the trainer have no intervals.
    """
    low, high = line.get("accuracy_low"), line.get("accuracy_high")
    return None if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _within_note(validations: list[dict[str, Any]]) -> str | None:
    """Return a sentence if the latest change of the accuracy between two validations may be by chance; else None.

    This is the case if the accuracy of the last but one validation is in the 95 % interval of the last validation.
    """
    if len(validations) < 2 or _interval(validations[-1]) is None:
        return None
    before, last = validations[-2].get("accuracy"), validations[-1]
    if before is None or last.get("accuracy") is None or not last["accuracy_low"] <= before <= last["accuracy_high"]:
        return None
    return (
        f"The last change of the accuracy, from {before:.3f} to {last['accuracy']:.3f}, is within the 95 % interval of "
        "the last validation, so it may be by chance."
    )


def _tiles(metrics: list[dict[str, Any]], validations: list[dict[str, Any]]) -> list[tuple[str, float, str]]:
    """Return the numbers at the top of the page, as tuples (name, newest value, text).

    The text holds values to compare with the newest value: the first value and, if there are validations, the value
    that a model could reach without seeing the images.
    """
    if not validations:
        last, first = (metrics[-1], metrics[0]) if metrics else ({}, {})
        named = (("reward", "reward"), ("outcome", "accuracy"), ("loss", "loss"))
        return [
            (f"{title} in training", last[name], f"{short(first[name])} in the first step")
            for name, title in named
            if last.get(name) is not None and first.get(name) is not None
        ]
    first, last = validations[0], validations[-1]
    found = []
    for name, title in (("accuracy", "accuracy"), ("reward", "reward"), ("point_f1", "point F1"), ("loss", "loss")):
        if last.get(name) is not None:
            notes = [f"{short(first[name])} at first"] if first.get(name) is not None else []
            blind = last.get(f"blind_{name}")
            notes += [] if blind is None else [f"{short(blind)} without looking"]
            found.append((title, last[name], ", ".join(notes)))
    return found
