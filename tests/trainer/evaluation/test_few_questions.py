"""The warning about few questions."""

import pytest

from groundtrace.schemas.loop_step import step_environment
from groundtrace.trainer.evaluation.few_questions import ENOUGH, note_few

from ..runs import SAMPLE, Command


@pytest.mark.parametrize(
    ("count", "best", "middle"), [(1, "0.40", "0.45"), (8, "0.16", "0.28"), (50, "0.04", "0.13"), (99, "0.02", "0.10")]
)
def test_the_half_width(count: int, best: str, middle: str) -> None:
    assert note_few(count, "validation") == (
        f"the validation has only {count} question{'s' * (count > 1)}: the 95 % interval of the accuracy has a "
        f"half-width of {best} at best, and of {middle} at an accuracy of 0.5; with 100 questions it is at most 0.10: "
        "raise validation.share (or validation.questions, if it limits them), or set validation.data"
    )


def test_in_a_step_of_a_loop_the_remedy_is_one_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in step_environment("eval").items():
        monkeypatch.setenv(name, value)
    assert str(note_few(8, "evaluation")).endswith("or raise its held_out.share, with another --output")
    assert str(note_few(8, "validation")).endswith("or set validation.data")


@pytest.mark.parametrize("count", [0, ENOUGH, 10**6])
def test_no_warning(count: int) -> None:
    assert note_few(count, "evaluation") is None


@pytest.mark.parametrize(("sets", "count"), [((), 0), (("eval.questions=5",), 5), (("eval.questions=500",), 0)])
def test_an_evaluation_warns_at_its_start(sets: tuple[str, ...], count: int, run: Command) -> None:
    """The sample has 120 questions. The model is not loaded yet."""
    ran = run("eval", SAMPLE, "model.path=none", "reward.roles.judge=", *sets)
    assert ran.code == 2
    warnings = [line for line in ran.err.splitlines() if "95 %" in line]
    said = [f"trainer: the evaluation has only {count} questions"] if count else []
    assert [line.partition(": the 95")[0] for line in warnings] == said
    action = ": use more questions in --data (or raise eval.questions, if it limits them)"
    assert all(line.endswith(action) for line in warnings)
