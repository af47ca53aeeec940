"""Helps to call a judge: writes a question as text, and combines the verdicts on two orders of the same texts."""

from groundtrace.schemas.records import Question, Verdict


def question_text(question: Question) -> str:
    """Return the question, followed by its choices (if any) as lines ``A. text``."""
    choices = [f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ())]
    return "\n".join([question.question, *choices])


def agreed(straight: Verdict, swapped: Verdict, max_apart: float = 0.0) -> Verdict:
    """Return the mean of two verdicts on the same two texts.

    For ``swapped``, the judge saw the texts in the reverse order. The result has failed if one of the verdicts is
    unscored, or if their values differ by more than ``max_apart``. Such a difference shows that the order of the texts
    decides, and not their content.
    """
    name = straight.name
    if straight.value is None or swapped.value is None:
        missing = straight if straight.value is None else swapped
        return Verdict(name, None, f"only one order of the texts was judged: {missing.reason}", failed=True)
    both = f"{straight.value:g} and in the other order {swapped.value:g}"
    if abs(straight.value - swapped.value) > max_apart:
        return Verdict(name, None, f"the order of the texts decides: {both}", failed=True)
    return Verdict(name, (straight.value + swapped.value) / 2, f"{both}: {straight.reason}")
