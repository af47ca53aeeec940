"""Shows how many responses a step of GRPO has sampled until now, because the sampling may take minutes.

On a terminal, the progress bar of the training gets a second row while a step samples. Otherwise, a line is printed
every ``LINE_EVERY_S`` seconds. A response is counted when it is complete. A sampler in this process completes all
responses of a batch (``rollout.prompts_at_once`` prompts) together, and a vLLM server completes those of each prompt.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from groundtrace.schemas.text import duration_text
from groundtrace.trainer import ranks
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Place, Sampler, Take

LINE_EVERY_S = 30.0
"""The time between two printed lines about the sampling of a step, if stderr is not a terminal."""
CHECK_EVERY_S = 0.5


@dataclass(frozen=True)
class Sampled:
    """Holds how many responses a training step has sampled until now.

    Attributes:
        step: the number of the step, from 1.
        steps: the total number of steps.
        responses: the number of complete responses.
        wanted: the number of responses that the step samples. It grows if dynamic sampling draws further questions.
        seconds: the time since the sampling of the step began.
        gpus: the number of GPUs that train. If there are several, only the responses of the first one are counted.
    """

    step: int
    steps: int
    responses: int
    wanted: int
    seconds: float
    gpus: int = 1

    @property
    def line(self) -> str:
        """Return the progress as one line, such as ``step 3 of 50: 120 of 256 responses sampled, 41 s``."""
        return f"step {self.step} of {self.steps}: {self.responses} of {self.wanted} {self.note}"

    @property
    def note(self) -> str:
        """Return the end of the progress line (:attr:`line`), such as ``responses sampled, 41 s``."""
        where = f" on the first of {self.gpus} GPUs" if self.gpus > 1 else ""
        others = " and the other GPUs" if self.gpus > 1 else ""
        waits = f", waiting for scores{others}" if self.responses == self.wanted else ""
        return f"responses sampled{where}{waits}, {duration_text(self.seconds)}"

    def is_due(self, printed_s: float) -> bool:
        """Return whether a line should be printed now, i.e. ``LINE_EVERY_S`` seconds or more after the last line.

        The result is False as long as no responses are requested. ``printed_s`` is the time at which the last line of
        this step was printed, in seconds since the sampling began; 0 if no line was printed.
        """
        return self.wanted > 0 and self.seconds - printed_s >= LINE_EVERY_S


Show = Callable[[Sampled | None], None]
"""The type of a function that shows the progress of the sampling; None means that the step has ended its sampling."""


class SampledView:
    """Shows the progress of the sampling on stderr, as a row of the progress bar ``bar`` or as printed lines.

    If stderr is not a terminal, the bar is not started, and lines are printed instead. ``bar`` is a progress bar of the
    package rich whose rows (tasks) need a field ``name``.
    """

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._row: TaskID | None = None
        self._printed_s = 0.0

    def show(self, sampled: Sampled | None) -> None:
        """Show the progress; if ``sampled`` is None, remove the row from the bar, since the step samples no more."""
        if self._bar.live.is_started:
            self._redraw(sampled)
        elif sampled is None:
            self._printed_s = 0.0
        elif sampled.is_due(self._printed_s):
            self._printed_s = sampled.seconds
            print(sampled.line, file=sys.stderr)

    def _redraw(self, sampled: Sampled | None) -> None:
        if sampled is None:
            if self._row is not None:
                self._bar.remove_task(self._row)
            self._row = None
            return
        if self._row is None:
            self._row = self._bar.add_task("", name=f"step {sampled.step}")
        self._bar.update(self._row, completed=sampled.responses, total=sampled.wanted, description=sampled.note)


class CountingSampler(Sampler):
    """Draws responses with another sampler, ``sampler``, and counts them.

    Attributes:
        wanted: the number of responses that were requested until now.
        responses: the number of these responses that are complete.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler, self.prompts_at_once = sampler, sampler.prompts_at_once
        self.wanted, self.responses = 0, 0

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` sampled turns (answers of the model) for each prompt. They are not counted.

        ``seed`` is the seed of the sampling.
        """
        return self._sampler.sample(prompts, n, seed)

    def sync(self) -> None:
        """Make the sampler use the current weights of the policy (the model in training)."""
        self._sampler.sync()

    def release(self) -> None:
        """Free the memory that :meth:`sync` took."""
        self._sampler.release()

    def play(self, prompts: Sequence[Sample], n: int, seed: int, take: Take) -> None:
        """Draw ``n`` complete responses to each prompt, and count each response when it is complete.

        A response is complete when ``take`` returns None for it. The arguments are those of
        :meth:`groundtrace.trainer.sampler.Sampler.play`.
        """
        self.wanted += len(prompts) * n

        async def counted(place: Place, turn: Rollout) -> Sample | None:
            prompt = await take(place, turn)
            self.responses += prompt is None
            return prompt

        self._sampler.play(prompts, n, seed, counted)


@contextlib.contextmanager
def counting(sampler: Sampler, show: Show | None, step: int, steps: int) -> Iterator[Sampler]:
    """Show the progress of the sampling in a thread, while the body of the ``with`` statement runs.

    The body must draw its responses with the sampler that the ``with`` statement yields. This sampler calls
    ``sampler``, and counts the responses. ``show`` is the function that shows the progress. If ``show`` is None,
    nothing is shown, and ``sampler`` itself is yielded. ``step`` is the number of the training step, from 1, and
    ``steps`` is the total number of steps.
    """
    if show is None:
        yield sampler
        return
    counted, ended, started = CountingSampler(sampler), threading.Event(), time.monotonic()

    def watch() -> None:
        while not ended.wait(CHECK_EVERY_S):
            seconds = time.monotonic() - started
            show(Sampled(step, steps, counted.responses, counted.wanted, seconds, ranks.count()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield counted
    finally:
        ended.set()
        thread.join()
        show(None)
