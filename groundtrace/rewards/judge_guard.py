"""Prepares texts for a judge (a grading model). If the judge gets two texts in both orders, combines both verdicts."""

from groundtrace.schemas.records import Question, Verdict


def question_text(question: Question) -> str:
    """Return the question as text; its choices, if any, follow as lines such as ``A. red``."""
    choices = [f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ())]
    return "\n".join([question.question, *choices])


def agreed(straight: Verdict, swapped: Verdict, max_apart: float = 0.0) -> Verdict:
    """Return the mean of two verdicts on the same two texts, which the judge saw in both orders.

    For ``straight``, the judge saw the texts in the usual order; for ``swapped``, in the reverse order. The result has
    failed (value None) if one of the verdicts has no value, or if their values differ by more than ``max_apart``. Such
    a difference shows that the judge's decision depends on the order of the texts, and not on their content.
    """
    name = straight.name
    if straight.value is None or swapped.value is None:
        missing = straight if straight.value is None else swapped
        return Verdict(name, None, f"only one order of the texts was judged: {missing.reason}", failed=True)
    both = f"{straight.value:g} and in the other order {swapped.value:g}"
    if abs(straight.value - swapped.value) > max_apart:
        return Verdict(name, None, f"the order of the texts decides: {both}", failed=True)
    return Verdict(name, (straight.value + swapped.value) / 2, f"{both}: {straight.reason}")
