"""Makes the HTML page of an evaluation: its metrics, and some questions with their images and answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.pages.render import render
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion
from groundtrace.trainer.watching.entries import ShownAnswer, ShownQuestion, entries_of

SHOWN_QUESTIONS, SHOWN_ANSWERS, SHOWN_IMAGES = 24, 2, 3
PARTS = ("source", "answer_type", "stream")
"""The keys of a report that divide the questions into parts, each with its own metrics."""
COLUMNS = (
    ("questions", "questions"),
    ("answers", "answers"),
    ("accuracy", "accuracy"),
    ("accuracy_interval", "95 % interval"),
    ("blind_accuracy", "without looking"),
    ("best_constant", "best constant"),
    ("reward", "reward"),
    ("spatial", "spatial"),
    ("points_in_gold_boxes", "points in gold boxes"),
    ("point_f1", "point F1"),
    ("exact_points", "exact points"),
    ("iou", "IoU"),
    ("thinks", "thinks"),
    ("turns", "turns"),
    ("response_tokens", "tokens"),
    ("truncated", "truncated"),
    ("unscored", "unscored"),
)
"""The metrics in the page's table, each with the title of its column. A metric without any value has no column."""


def eval_page(report: Mapping[str, Any], answered: Sequence[EvaluatedQuestion], model: str, data: str) -> str:
    """Return the HTML page of an evaluation, which needs no other files.

    ``report`` holds the metrics by name, e.g. ``report["all"]["accuracy"]``
    (:func:`groundtrace.trainer.evaluation.figures.eval_figures`). ``answered`` are the questions with their answers and
    scores; the page shows only the first questions. ``model`` and ``data`` are the names of the model and of the data,
    for the heading.
    """
    rows = [("all", report["all"])]
    rows += [("without crops", report["without_crops"])] if "without_crops" in report else []
    rows += [(name, part) for kind in PARTS for name, part in report.get(kind, {}).items()]
    columns = [(name, title) for name, title in COLUMNS if any(part.get(name) is not None for _, part in rows)]
    return render(
        "groundtrace.trainer.evaluation",
        "eval.html.jinja",
        name=model,
        data=data,
        report=report,
        rows=rows,
        columns=columns,
        questions=entries_of([_shown(each) for each in answered[:SHOWN_QUESTIONS]]),
        figure_of=_figure,
    )


def _figure(value: float | Sequence[float] | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, Sequence):
        return " to ".join(map(_figure, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _shown(each: EvaluatedQuestion) -> ShownQuestion:
    asked = each.row.question
    answers = tuple(
        ShownAnswer(
            "" if each.crops is None else f"with {each.crops} crops",
            scored.text,
            scored.reward,
            scored.outcome,
            tuple((verdict.name, verdict.value) for verdict in scored.verdicts if verdict.name != "outcome"),
        )
        for scored in each.scored[:SHOWN_ANSWERS]
    )
    images = tuple(data for data, _ in each.row.images[:SHOWN_IMAGES])
    stream = each.row.context.stream or ""
    return ShownQuestion(each.row.id, stream, asked.question, asked.answer, asked.choices or (), images, answers)
