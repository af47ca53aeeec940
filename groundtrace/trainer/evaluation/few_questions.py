"""Warns if an evaluation, a validation or a comparison has so few questions that its intervals are wide or wrong."""

from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.loop_step import loop_section
from groundtrace.schemas.text import counted

ENOUGH = 100
"""From this number of questions on, there is no warning: the half-width of the interval is then below 0.1."""
ENOUGH_GROUPS = 30
"""From this number of media groups (sets of questions with common images) on, a comparison has no warning.

The bounds of its intervals are percentiles of a bootstrap. With fewer groups, such an interval contains the true value
clearly less often than in 95 % of cases.
"""
REMEDIES = {
    "evaluation": "use more questions in --data (or raise eval.questions, if it limits them)",
    "comparison": "evaluate the models on more questions",
    "validation": "raise validation.share (or validation.questions, if it limits them), or set validation.data",
}
"""What the user can do about few questions, for each value of the argument ``what`` of :func:`note_few`."""

LOOP_REMEDY = "give `beam loop` more questions, or raise its held_out.share, with another --output"
"""What the user can do about few questions that ``beam loop`` holds out for the evaluations."""


def note_few(count: int, what: str, remedy: str = "") -> str | None:
    """Return a warning of one line if there are few questions; None if there are enough, or no questions.

    ``count`` is the number of questions, and ``what`` is ``evaluation``, ``validation`` or ``comparison``. The warning
    ends with what the user can do: the text ``remedy``. If ``remedy`` is "", a fixed text for ``what`` is used. The
    warning contains three half-widths of Wilson's 95 % interval of the accuracy. For example, if ``count`` is 20, they
    are:

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
        f"{_half_width(0.5, ENOUGH):.2f}: {remedy or _remedy(what)}"
    )


def few_in_comparison(questions: int, groups: int | None, remedy: str = "") -> list[str]:
    """Return the warnings of a comparison with few questions, and with few media groups, each as a sentence.

    ``groups`` is the number of media groups (sets of questions with common images); None if it is unknown. ``remedy``
    is a text on what the user can do. If it is "", the text for the user of ``trainer compare`` is used.
    """
    found = []
    if note := note_few(questions, "comparison", remedy):
        found.append(f"{note[0].upper()}{note[1:]}.")
    if groups is not None and groups < ENOUGH_GROUPS:
        found.append(
            f"The comparison has only {counted(groups, 'media group')}: with fewer than {ENOUGH_GROUPS}, the intervals "
            "of differences, point F1 and reward are too narrow, because they are from draws of whole media groups: "
            f"{remedy or 'evaluate the models on questions with more images'}."
        )
    return found


def _remedy(what: str) -> str:
    return LOOP_REMEDY if loop_section() and what == "evaluation" else REMEDIES[what]


def _half_width(accuracy: float, count: int) -> float:
    low, high = wilson(accuracy * count, count)
    return (high - low) / 2
