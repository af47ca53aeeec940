"""Warns if an evaluation or a validation has so few questions that its accuracy is imprecise."""

from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.text import counted

ENOUGH = 100
"""From this number of questions on, there is no warning: the half-width of the interval is then below 0.1."""
REMEDIES = {
    "evaluation": "use more questions in --data (or raise eval.questions, if it limits them)",
    "validation": "raise validation.share (or validation.questions, if it limits them), or set validation.data",
}
"""What the user can do about few questions, for each value of the argument ``what`` of :func:`note_few`."""


def note_few(count: int, what: str) -> str | None:
    """Return a warning of one line if there are few questions; None if there are enough, or no questions.

    ``count`` is the number of questions, and ``what`` is ``evaluation`` or ``validation``. The warning ends with what
    the user can do. It contains three half-widths of Wilson's 95 % interval of the accuracy. For example, if ``count``
    is 20, they are:

    - 0.08 for 20 questions and an accuracy of 0 or 1, for which the interval is smallest;
    - 0.20 for 20 questions and an accuracy of 0.5, for which the interval is largest;
    - 0.10 for ``ENOUGH`` questions and an accuracy of 0.5.

    Several answers to a question do not make the interval smaller
    (:func:`groundtrace.trainer.evaluation.figures.eval_figures`).
    """
    if not 0 < count < ENOUGH:
        return None
    best, middle = _half_width(0.0, count), _half_width(0.5, count)
    return (
        f"the {what} has only {counted(count, 'question')}: the 95 % interval of the accuracy has a half-width of "
        f"{best:.2f} at best, and of {middle:.2f} at an accuracy of 0.5; with {ENOUGH} questions it is at most "
        f"{_half_width(0.5, ENOUGH):.2f}: {REMEDIES[what]}"
    )


def _half_width(accuracy: float, count: int) -> float:
    low, high = wilson(accuracy * count, count)
    return (high - low) / 2
