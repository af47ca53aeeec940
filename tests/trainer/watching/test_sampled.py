"""The progress of the sampling: its text, when a line is printed, the row of the bar, and the count of responses."""

import io
import threading
from collections.abc import Sequence

import pytest
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Place, Sampler
from groundtrace.trainer.watching import sampled
from groundtrace.trainer.watching.sampled import CountingSampler, Sampled, SampledView, counting


class Echo(Sampler):
    """Draws turns of one token, and notes the calls of its other methods."""

    prompts_at_once = 3

    def __init__(self) -> None:
        self.calls: list[str] = []

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        return [[Rollout((number,), False) for number in range(n)] for _ in prompts]

    def sync(self) -> None:
        self.calls.append("sync")

    def release(self) -> None:
        self.calls.append("release")


def prompt(index: int) -> Sample:
    none = torch.zeros(1, dtype=torch.bool)
    return Sample(f"q{index}", f"q{index}", torch.tensor([index]), none, none, (), ())


def new_bar(file: io.StringIO) -> Progress:
    columns = (TextColumn("{task.fields[name]}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(file=file, force_terminal=True, width=120))


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Sampled(3, 50, 120, 256, 41.4), "step 3 of 50: 120 of 256 responses sampled, 41 s"),
        (Sampled(1, 1, 0, 8, 600), "step 1 of 1: 0 of 8 responses sampled, 10 min"),
        (Sampled(3, 50, 256, 256, 60), "step 3 of 50: 256 of 256 responses sampled, waiting for scores, 60 s"),
        (Sampled(3, 50, 9, 64, 31, 4), "step 3 of 50: 9 of 64 responses sampled on the first of 4 GPUs, 31 s"),
        (
            Sampled(3, 50, 64, 64, 31, 4),
            "step 3 of 50: 64 of 64 responses sampled on the first of 4 GPUs, waiting for scores and the other GPUs, "
            "31 s",
        ),
    ],
)
def test_the_line(progress: Sampled, line: str) -> None:
    assert progress.line == line


@pytest.mark.parametrize(
    ("seconds", "wanted", "printed_at"),
    [
        ([0.5, 29.9], 8, []),
        ([0.5, 30.2, 30.7, 59.9, 60.3, 61], 8, [30.2, 60.3]),
        ([29, 95, 96, 130], 8, [95, 130]),
        ([31, 65], 0, []),
        ([31, 5, 31], 8, [31]),
        ([31, None, 5, 31], 8, [31, 31]),
    ],
    ids=["early", "every 30 s", "a pause", "nothing to sample yet", "the same step", "the next step"],
)
def test_when_a_line_is_printed(
    seconds: list[float | None], wanted: int, printed_at: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    view = SampledView(new_bar(io.StringIO()))
    for each in seconds:
        view.show(None if each is None else Sampled(1, 2, 3, wanted, each))
    assert capsys.readouterr().err.splitlines() == [Sampled(1, 2, 3, wanted, each).line for each in printed_at]


def test_a_terminal_has_a_row_until_the_sampling_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    with new_bar(file) as bar:
        bar.add_task("loss 1.0", total=2, name="grpo")
        view = SampledView(bar)
        view.show(Sampled(1, 2, 3, 8, 40))
        view.show(Sampled(1, 2, 5, 8, 41))
        assert [(task.fields["name"], task.completed, task.total) for task in bar.tasks[1:]] == [("step 1", 5, 8)]
        bar.refresh()
        assert "responses sampled, 41 s" in file.getvalue()
        view.show(None)
        view.show(None)
        assert [task.fields["name"] for task in bar.tasks] == ["grpo"]
    assert capsys.readouterr().err == ""


def test_only_complete_responses_are_counted() -> None:
    """Of each prompt, one response has one turn, and the other has two."""
    inner, turns, counts = Echo(), dict[Place, int](), list[int]()
    sampler = CountingSampler(inner)

    async def take(place: Place, turn: Rollout) -> Sample | None:
        turns[place] = turns.get(place, 0) + 1
        counts.append(sampler.responses)
        return prompt(place[0]) if turns[place] <= place[1] else None

    sampler.play([prompt(0), prompt(1)], 2, 0, take)
    assert (sampler.responses, sampler.wanted) == (4, 4)
    assert sorted(turns.values()) == [1, 1, 2, 2] and counts[0] == 0
    sampler.play([prompt(2)], 1, 0, take)
    assert (sampler.responses, sampler.wanted) == (5, 5)


def test_everything_else_is_that_of_the_other_sampler() -> None:
    inner = Echo()
    sampler = CountingSampler(inner)
    sampler.sync()
    sampler.release()
    assert inner.calls == ["sync", "release"] and sampler.prompts_at_once == 3
    assert sampler.sample([prompt(0)], 2, 0) == inner.sample([prompt(0)], 2, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_progress_is_shown_while_a_step_samples(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "CHECK_EVERY_S", 0.001)
    shown, complete = list[Sampled | None](), threading.Event()

    def show(progress: Sampled | None) -> None:
        shown.append(progress)
        if progress is not None and progress.responses == 2:
            complete.set()

    async def take(place: Place, turn: Rollout) -> Sample | None:
        return None

    def work() -> None:
        with counting(Echo(), show, 3, 50) as sampler:
            sampler.play([prompt(0)], 2, 0, take)
            assert complete.wait(30)
            if fails:
                raise OSError

    if fails:
        with pytest.raises(OSError):
            work()
    else:
        work()
    *_, last, end = shown
    assert end is None and last is not None
    assert (last.step, last.steps, last.responses, last.wanted) == (3, 50, 2, 2)


def test_without_a_place_to_show_it_the_sampler_is_the_same() -> None:
    inner = Echo()
    with counting(inner, None, 1, 2) as sampler:
        assert sampler is inner
