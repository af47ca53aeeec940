"""What a judge is asked about beside the quoted texts, and how two orders of the same texts are brought together."""

from groundtrace.schemas.records import Question, Verdict


def question_text(question: Question) -> str:
    """The question with its choices as lines ``A. text``, where it has some."""
    choices = [f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ())]
    return "\n".join([question.question, *choices])


def agreed(straight: Verdict, swapped: Verdict, max_apart: float = 0.0) -> Verdict:
    """The verdict of two judgements of the same two texts, shown in one order and in the other: their mean.

    Unscored where one of them is, or where they differ by more than ``max_apart``: what changes with the order says
    more of the judge than of the texts.
    """
    name = straight.name
    if straight.value is None or swapped.value is None:
        missing = straight if straight.value is None else swapped
        return Verdict(name, None, f"only one order of the texts was judged: {missing.reason}", failed=True)
    both = f"{straight.value:g} and in the other order {swapped.value:g}"
    if abs(straight.value - swapped.value) > max_apart:
        return Verdict(name, None, f"the order of the texts decides: {both}", failed=True)
    return Verdict(name, (straight.value + swapped.value) / 2, f"{both}: {straight.reason}")
