"""Manages what SFT and GRPO trainings have in common: resuming, logging, and saving checkpoints, also after errors.

A signal (SIGINT, SIGTERM, SIGHUP) never interrupts an update of the weights or the saving of a checkpoint. In a
training of one process, a signal interrupts all other work immediately. In a training on several GPUs, a signal
interrupts only work for which no rank (the process of one GPU) needs another rank, such as sampling and scoring. A
signal that does not interrupt the work takes effect when the step is complete. So all ranks stop together.
"""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import ranks
from groundtrace.trainer.checkpoint import CheckpointError, Progress, checkpoints, load_checkpoint, save_checkpoint
from groundtrace.trainer.continued import changed_settings, changes_note, finished_note
from groundtrace.trainer.identity import identity
from groundtrace.trainer.monitor import Monitor, SilentMonitor
from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.output_folder import recorded_run
from groundtrace.trainer.row_sampler import Position
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.watching.records import read_metrics

FOLDER = "checkpoints"
"""The name of the folder with the latest checkpoints, in the output folder."""
BEST = "best"
"""The name of the folder with the checkpoint that is the best by the validation, in the output folder."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Raised if the process received one of :data:`SIGNALS`, such as Ctrl-C. ``number`` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class StopSignals:
    """Raises :class:`Stopped` in the main thread when a signal such as Ctrl-C arrives. Use it as a context manager.

    Between :meth:`hold` and :meth:`release`, a signal is deferred. On exit, the previous signal handlers are restored.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._noted: int | None = None
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # only the main thread can set handlers
            heard = [number for number in SIGNALS if not _is_nohup(number)]
            self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """Defer signals from now on, until :meth:`release` is called."""
        self._is_held = True

    def release(self) -> None:
        """Stop deferring signals. Raises Stopped if a signal arrived in the meantime.

        In a training on several GPUs, all ranks (the processes of the GPUs) must call this method. If one rank got a
        signal, Stopped is raised on all ranks.
        """
        self._is_held = False
        if number := max(ranks.gathered(self._noted or 0)):
            self._noted = None
            raise Stopped(number)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self._is_held and ranks.may_interrupt():
            raise Stopped(number)
        self._noted = number


def _is_nohup(number: int) -> bool:
    """Return whether the signal is SIGHUP and this process ignores it, as after ``nohup``."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


class NothingLearnt(RuntimeError):
    """Raised if ``max_idle_steps`` steps in succession had no gradient; the message contains the reason."""


class Overfitted(RuntimeError):
    """Raised if the reward rose while the accuracy fell, in several consecutive validations.

    The message contains the values of both metrics.
    """


class Training:
    """Manages a training in its output folder: resuming, logging and saving. Use it as a context manager.

    The training loop must run in the body of the ``with``. If the loop ends with an error or a signal, the last
    complete step is saved. Nothing is saved if the weights have changed since that step, or if they are not finite. In
    this case, the previous checkpoint stays the latest one.

    Attributes:
        progress: the progress of the training: the number of complete steps, the position in the data, and the state of
            the reward.
        monitor: the object that writes the records of the training.
        steps: the total number of steps.
    """

    def __init__(
        self,
        command: str,
        settings: TrainerSettings,
        data: Path,
        output: Path,
        shards: Shards,
        optimiser: Optimiser,
        steps: int,
        plan: str = "",
        held_out: str = "",
        bundled: str = "",
    ) -> None:
        """Load the last checkpoint if there is one, and write run.json and the config to the output folder.

        ``command`` is ``sft`` or ``grpo``. ``output`` is the output folder. ``shards`` holds the rows to train on, and
        ``data`` is the folder from which they are read. ``optimiser`` holds the weights. ``steps`` is the total number
        of steps. ``plan`` is the batch plan (which kinds of rows fill a batch) in one line; "" without a plan.
        ``held_out`` describes the questions of the validation; "" without a validation. ``bundled`` is the name of the
        bundled config (one that Groundtrace contains) that the user named; "" if there is none.

        Raises CheckpointError, before any file is written, if the checkpoint cannot be used or belongs to a training
        with other data, settings or code of the user.
        """
        self.steps = steps
        self._log, self._max_idle_steps = settings.log, settings.max_idle_steps
        self._folder, self._best, self._optimiser = output / FOLDER, output / BEST, optimiser
        self._identity = identity(command, settings, shards, plan, held_out)
        found = checkpoints(self._folder)
        self.progress = load_checkpoint(found[-1], optimiser, self._identity) if found else Progress()
        if self.progress.step > steps:
            raise CheckpointError(
                f"the checkpoint {found[-1]} is of step {self.progress.step}, but this run ends at step {steps}: raise "
                "steps or epochs, or choose another --output"
            )
        self._saved_step, self._saved_s = self.progress.step, time.monotonic()
        self._updates = optimiser.updates
        self._idle_steps = 0
        self._continues = self._note_continued(output, settings)
        self._stops = StopSignals()
        optimiser.before_change = self._stops.hold
        monitor = Monitor if ranks.is_first() else SilentMonitor
        self.monitor = monitor(output, command, settings, str(data), steps, self.progress.step, bundled=bundled)

    def __enter__(self) -> "Training":
        found = (*self._folder.glob(".step-*"), *self._best.glob(".step-*"))
        for partial in found if ranks.is_first() else ():  # left by a process that was killed while saving
            shutil.rmtree(partial)
        if self._continues and ranks.is_first():
            print(f"trainer: {self._continues}", file=sys.stderr)
        self.monitor.__enter__()
        self.monitor.resume_at(self.progress.step)
        self._stops.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stops.hold()  # so that a second signal does not interrupt the saving
        try:
            if error is not None:
                self._rescue(error)
        finally:
            self.monitor.__exit__(kind, error, trace)
            self._stops.__exit__()

    def _note_continued(self, output: Path, settings: TrainerSettings) -> str:
        """Return a line for the user which states that the training continues from a checkpoint, and after which step.

        The line also names the settings that differ from those of the earlier command. It is "" if the training begins,
        or if it has no further step.

        Call this method before the records of the earlier command in ``output`` are replaced.
        """
        step = self.progress.step
        if not step or not self.goes_on:
            return ""
        note = (
            f"continues after step {step} ({FOLDER}/step-{step:06d}){changes_note(changed_settings(output, settings))}"
        )
        if (recorded_run(output) or {}).get("ended") != "done":
            return note
        updates = self._optimiser.steps // self.steps
        rates = [line.get("lr") for line in read_metrics(output / "metrics.jsonl") if line["step"] == step]
        rate = self._optimiser.rates(step * updates)["lr"]
        return f"{note}; {finished_note(step, self.steps, rate, rates[-1] if rates else None)}"

    @property
    def goes_on(self) -> bool:
        """Return whether the training has further steps to do."""
        return self.progress.step < self.steps

    def commit(
        self,
        metrics: Mapping[str, float | None],
        shown: tuple[str, ...],
        position: Position,
        memory: Mapping[str, Any] | None = None,
        idle: str = "the gradient is 0",
    ) -> None:
        """Record the metrics of a completed step, and save a checkpoint if the settings in ``log`` require one now.

        ``metrics`` are the step's metrics, and ``shown`` holds the names of those to print. ``position`` is the
        position in the data after this step. ``memory`` is the state that the reward keeps between steps; it is saved
        in the checkpoint. None means that the reward keeps no state. ``idle`` is the reason that is reported if the
        step had no gradient.

        Raises NothingLearnt if ``max_idle_steps`` consecutive steps had no gradient. Raises Stopped if a signal was
        deferred during the step. Raises NotFinite if a checkpoint is due, but some weights are not finite; these
        weights are not saved.
        """
        self._stops.hold()
        step = self.progress.step + 1
        self._idle_steps = 0 if metrics.get("grad_norm") else self._idle_steps + 1
        note = f"no gradient in {self._idle_steps} consecutive steps: {idle}" if self._idle_steps else ""
        self.monitor.log(step, {**metrics, "idle_steps": self._idle_steps}, shown, note)
        self.progress = Progress(step, position, dict(memory or {}))
        self._updates = self._optimiser.updates
        if self._is_due():
            self._save()
        self._stops.release()
        if self._max_idle_steps and self._idle_steps >= self._max_idle_steps:
            raise NothingLearnt(
                f"{self._idle_steps} consecutive steps had no gradient, because {idle}: change the section [reward] or "
                "[rollout] of the config, use other data, or raise max_idle_steps"
            )

    def save_best(self) -> None:
        """Save the last complete step as the best checkpoint, and delete the previous best checkpoint.

        Raises Stopped if a signal arrived during this call.
        """
        self._stops.hold()
        before = checkpoints(self._best)
        saved = save_checkpoint(self._best, self.progress, self._optimiser, self._identity, keep=len(before) + 1)
        for other in before:
            if other != saved:
                shutil.rmtree(other)
        self._stops.release()

    def _is_due(self) -> bool:
        every, every_s = self._log.save_every, self._log.save_every_s
        by_steps = every > 0 and self.progress.step % every == 0
        by_time = every_s > 0 and time.monotonic() - self._saved_s >= every_s
        return ranks.of_first(not self.goes_on or by_steps or by_time)

    def _save(self) -> None:
        if not self._optimiser.is_finite():
            raise NotFinite(
                f"step {self.progress.step}: some weights are not finite after the update: lower lr in "
                "sft.optimiser or grpo.optimiser"
            )
        save_checkpoint(self._folder, self.progress, self._optimiser, self._identity, self._log.keep)
        self._saved_step, self._saved_s = self.progress.step, time.monotonic()

    def _rescue(self, error: BaseException) -> None:
        """Save the last complete step after an error, if the weights have not changed since this step and are finite.

        In a training on several GPUs, the step is saved only if all ranks (the processes of the GPUs) fail, and call
        this method within ``ranks.MEETING_S`` seconds. For example, nothing is saved if one rank died. If saving fails,
        the reason is added to ``error`` as a note.
        """
        try:
            if not ranks.all_arrive():
                return
            is_unchanged = self.progress.step != self._saved_step and self._optimiser.updates == self._updates
            if not all(ranks.gathered(is_unchanged)):
                return
            if self._optimiser.is_finite():
                self._save()
        except (OSError, RuntimeError) as failure:  # a full disk or a broken GPU, which torch may report as either
            error.add_note(f"step {self.progress.step} cannot be saved: {' '.join(str(failure).split())[:200]}")
