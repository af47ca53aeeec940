"""The figures of an evaluation, by hand on a small table; and its page."""

import json
from dataclasses import replace
from typing import Any

import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.records import Question, Verdict
from groundtrace.trainer.evaluation.figures import (
    EvaluatedQuestion,
    eval_figures,
    exact_points,
    iou,
    mean,
    point_f1,
    points_in_gold,
)
from groundtrace.trainer.evaluation.page import eval_page
from groundtrace.trainer.sample import Rollout

SQUARES = (Box("red square", 0, 0, 10, 10, 0), Box("red square", 20, 0, 30, 10, 0))


def tags(*places: tuple[float, float], label: str = "red square") -> str:
    """One tag for each place."""
    return " ".join(f'<points x1="{x:g}" y1="{y:g}" alt="{label}">{label}</points>' for x, y in places)


def row(
    id: str = "q", source: str = "a", answer: str = "2", answer_type: str = "numeric",
    boxes: tuple[Box, ...] | None = SQUARES, question: str = "How many red squares?",
) -> TrainingRow:  # fmt: skip
    asked = Question(id, source, "", (), question, answer, answer_type, gold_boxes=boxes)
    return TrainingRow(id, source, (), (), asked)


def scored(outcome: float | None, text: str = "", spatial: float | None = None) -> Scored:
    reward = outcome if spatial is None or outcome is None else (outcome + spatial) / 2
    return Scored(reward, outcome, text, (Verdict("outcome", outcome, ""), Verdict("spatial", spatial, "")))


def answered(asked: TrainingRow, *each: Scored, tokens: int = 3, truncated: int = 0) -> EvaluatedQuestion:
    """The answers to a question, the first few of them cut off."""
    rollouts = tuple(Rollout((1,) * tokens, index < truncated) for index in range(len(each)))
    return EvaluatedQuestion(asked, rollouts, each)


TABLE = [
    # 2 of 4 right; the points of three answers lie in: both boxes, one of two, and the same box twice.
    answered(
        row("a0"),
        scored(1.0, "<think>x</think>" + tags((5, 5), (25, 5)), 1.0),
        scored(1.0, "<think> </think>" + tags((5, 5), (50, 50)), 0.5),
        scored(0.0, tags((5, 5), (6, 6))),
        scored(0.0),
        truncated=1,
    ),
    # 1 of 4 right, one of them unscored.
    answered(row("a1", answer="1", boxes=None), scored(1.0, "", 0.0), scored(0.0), scored(0.0), scored(None), tokens=7),
    # Nobody could score it.
    answered(row("b0", "b", "because", "text", None), *[scored(None)] * 4),
    # 2 of 2 right, in a source of its own; yes is the commonest answer there.
    answered(row("b1", "b", "yes", "bool", None), scored(1.0), scored(1.0)),
    answered(row("b2", "b", "yes", "bool", None), scored(0.0), scored(0.0)),
]


def test_figures_of_all() -> None:
    found = eval_figures(TABLE, (1, 2, 3, 4))["all"]
    assert (found["questions"], found["answers"], found["unscored"]) == (5, 16, 5)
    assert found["accuracy"] == pytest.approx(5 / 11), "of the scored answers"
    assert found["best_constant"] == 2 / 5
    assert found["accuracy_interval"] == pytest.approx(wilson(4 * 5 / 11, 4)), "each question counts once"
    assert 0 < found["blind_accuracy"] < 1
    # Of n scored answers c are right: 4 and 2, 3 and 1, 2 and 2, 2 and 0. pass@k is 1 - C(n - c, k) / C(n, k).
    assert found["pass_at_k"]["1"] == pytest.approx((1 / 2 + 1 / 3 + 1 + 0) / 4)
    assert found["pass_at_k"]["2"] == pytest.approx((5 / 6 + 2 / 3 + 1 + 0) / 4)
    assert found["pass_at_k"]["3"] == pytest.approx((1 + 1) / 2), "questions with fewer scored answers are left out"
    assert found["pass_at_k"]["4"] == 1.0
    assert found["reward"] == pytest.approx((1 + 0.75 + 0.5 + 1 + 1) / 11)
    assert found["spatial"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["points_in_gold_boxes"] == pytest.approx(5 / 6)
    assert found["exact_points"] == pytest.approx(1 / 4), "of the four answers to the one count with gold boxes"
    assert found["thinks"] == pytest.approx(1 / 16), "blank thinking is none"
    assert found["points"] == pytest.approx(6 / 16)
    assert found["response_tokens"] == pytest.approx((12 * 3 + 4 * 7) / 16)
    assert found["truncated"] == pytest.approx(1 / 16)


def test_by_source_and_answer_type() -> None:
    report = eval_figures(TABLE, (1,))
    assert {name: part["questions"] for name, part in report["source"].items()} == {"a": 2, "b": 3}
    assert {name: part["accuracy"] for name, part in report["source"].items()} == {
        "a": pytest.approx(3 / 7),
        "b": pytest.approx(1 / 2),
    }
    assert report["source"]["b"]["best_constant"] == pytest.approx(2 / 3)
    assert {name: part["questions"] for name, part in report["answer_type"].items()} == {
        "bool": 2,
        "numeric": 2,
        "text": 1,
    }


def test_unscored_is_never_0() -> None:
    """Where nobody could score anything there is no figure, and the rest of the report does not change."""
    [part] = [eval_figures(TABLE, (1, 2))["answer_type"]["text"]]
    assert (part["answers"], part["unscored"]) == (4, 4)
    for name in ("accuracy", "reward", "spatial", "points_in_gold_boxes", "exact_points"):
        assert part[name] is None
    assert part["pass_at_k"] == {"1": None, "2": None}
    with_it, without = eval_figures(TABLE, (1, 2))["all"], eval_figures([TABLE[0], TABLE[1], *TABLE[3:]], (1, 2))["all"]
    for name in ("accuracy", "pass_at_k", "reward"):
        assert with_it[name] == without[name]


def test_no_questions() -> None:
    found = eval_figures([], (1,))
    assert found["all"]["questions"] == 0
    assert found["all"]["accuracy"] is None and found["all"]["best_constant"] is None
    assert found["all"]["accuracy_interval"] is None and found["all"]["blind_accuracy"] is None
    assert (found["source"], found["answer_type"]) == ({}, {})


def test_the_report_is_json() -> None:
    assert json.loads(json.dumps(eval_figures(TABLE, (1, 4)), allow_nan=False)) == eval_figures(TABLE, (1, 4))


POINTS: list[tuple[str, list[float], list[float]]] = [
    # Text; each point in a gold box of its label; the points stand one to one with the boxes.
    (tags((5, 5), (25, 5)), [1, 1], [1]),
    (tags((25, 5), (5, 5)), [1, 1], [1]),
    (tags((0, 0), (30, 10)), [1, 1], [1]),
    (tags((5, 5)), [1], [0]),
    (tags((5, 5), (6, 6)), [1, 1], [0]),
    (tags((5, 5), (25, 5), (26, 5)), [1, 1, 1], [0]),
    (tags((5, 5), (15, 5)), [1, 0], [0]),
    (tags((5, 5), (25, 5), label="blue square"), [0, 0], [0]),
    ('<points x1="5" y1="5" x2="25" y2="5" alt="red square">red square</points>', [1, 1], [1]),
    ("", [], [0]),
]


@pytest.mark.parametrize(("text", "in_gold", "exact"), POINTS)
def test_points_and_gold_boxes(text: str, in_gold: list[float], exact: list[float]) -> None:
    assert points_in_gold(row(), scored(1.0, text)) == in_gold
    assert exact_points(row(), scored(1.0, text)) == exact


def test_what_has_no_gold_boxes_has_no_such_figures() -> None:
    assert points_in_gold(row(boxes=None), scored(1.0, tags((5, 5)))) == []
    assert exact_points(row(boxes=None), scored(1.0, tags((5, 5)))) == []
    assert exact_points(row(answer="yes", answer_type="bool"), scored(1.0, tags((5, 5), (25, 5)))) == []


def test_boxes_of_another_picture() -> None:
    """Points are on the first picture: a gold box at the same place of the second one does not hold them."""
    second = row(boxes=(Box("red square", 0, 0, 10, 10, 1),))
    assert points_in_gold(second, scored(1.0, tags((5, 5)))) == [0.0]


@pytest.mark.parametrize(("values", "expected"), [([], None), ([None], None), ([0.0], 0.0), ([1.0, None, 0.0], 0.5)])
def test_mean(values: Any, expected: float | None) -> None:
    assert mean(values) == expected


EVIL = '<script>alert("x")</script>'


def test_the_page_escapes_what_models_and_data_say() -> None:
    evil = row(EVIL, EVIL, EVIL, "text", None, EVIL)
    table = [answered(evil, scored(1.0, f"</pre>{EVIL}"), scored(0.0), scored(None))]
    html = eval_page(eval_figures(table, (1,)), table, EVIL, EVIL)
    assert "<script" not in html
    assert "</pre>&lt;script" not in html
    assert html.count("&lt;script&gt;alert(&#34;x&#34;)") == 6, "model, data, id, question, gold, source"


def test_the_page_shows_the_figures() -> None:
    html = eval_page(eval_figures(TABLE, (1, 4)), TABLE, "model", "data")
    assert "pass@1" in html and "pass@4" in html
    assert "0.455" in html, "the accuracy"
    assert "–" in html, "a figure that nothing can be said of"
    assert html.count('class="right"') == 5 and html.count('class="unscored"') == 2
    assert "http:" not in html and "https:" not in html, "it loads nothing"


def test_the_page_shows_the_first_questions_only() -> None:
    table = [answered(row(f"q{number:03}"), *[scored(1.0, "text")] * 5) for number in range(40)]
    html = eval_page(eval_figures(table, (1,)), table, "model", "data")
    assert html.count('class="trace') == 24 * 2
    assert "q023" in html and "q024" not in html


@pytest.mark.parametrize(
    ("text", "stream", "expected"),
    [
        (tags((5, 5), (25, 5)), None, [1.0]),
        (tags((25, 5), (5, 5), (99, 99)), None, [4 / 5]),
        (tags((5, 5)), None, [2 / 3]),
        (tags((5, 5), (6, 6)), None, [2 / 4]),  # the second point on an object counts against it
        (tags((5, 5), label="blue square"), None, [0.0]),
        ("no point", None, [0.0]),
        ("no point", "textual", []),
        ('<box alt="red square">[0, 0, 10, 10]</box>', None, []),
    ],
)
def test_point_f1(text: str, stream: str | None, expected: list[float]) -> None:
    asked = replace(row(boxes=SQUARES), context=Context(stream=stream))
    assert point_f1(asked, scored(1.0, text)) == pytest.approx(expected)
    assert point_f1(row(boxes=None), scored(1.0, text)) == []


def test_points_in_boxes_that_overlap_get_a_box_each() -> None:
    """The first point lies in both boxes and leaves the box of the second, whatever the order."""
    asked = row(boxes=(Box("red square", 0, 0, 10, 10, 0), Box("red square", 0, 0, 30, 10, 0)))
    for places in (((5, 5), (20, 5)), ((20, 5), (5, 5)), ((5, 5), (6, 6))):
        assert point_f1(asked, scored(1.0, tags(*places))) == [1.0]


def boxed(*corners: tuple[float, ...]) -> str:
    return " ".join(f'<box alt="x">[{", ".join(map(str, each))}]</box>' for each in corners)


@pytest.mark.parametrize(
    ("text", "stream", "expected"),
    [
        (boxed((0, 0, 10, 10), (20, 0, 30, 10)), "grounded", [1.0]),
        # each half of a gold box, which is half of the union: recall (1/2 + 0) / 2, precision 1/2
        (boxed((0, 0, 10, 5)), "grounded", [(0.25 + 0.5) / 2]),
        (boxed((0, 0, 10, 5)), None, [(0.25 + 0.5) / 2]),
        ("no box", "grounded", [0.0]),
        ("no box", "textual", []),
        ("no box", None, []),
    ],
)
def test_iou_of_grounded_responses(text: str, stream: str | None, expected: list[float]) -> None:
    """iVGR Table 14; labels do not matter."""
    asked = replace(row(), context=Context(stream=stream))
    assert iou(asked, scored(1.0, text)) == pytest.approx(expected)
    assert iou(replace(asked, question=replace(asked.question, gold_boxes=None)), scored(1.0, text)) == []


def test_iou_in_the_figures() -> None:
    asked = replace(row(), context=Context(stream="grounded"))
    exact = boxed((0, 0, 10, 10), (20, 0, 30, 10))
    found = eval_figures([answered(asked, scored(1.0, exact), scored(1.0, "no box"))], (1,))
    assert (found["all"]["iou"], found["stream"]["grounded"]["iou"]) == (0.5, 0.5)
    assert eval_figures(TABLE, (1,))["all"]["iou"] is None


def test_iou_on_the_image_that_the_text_names() -> None:
    """Both gold boxes are on the first image."""
    two = replace(row(), images=((b"", "a.png"), (b"", "b.png")))
    for named, expected in (("image 1", 1.0), ("image 2", 0.0)):
        text = " ".join(f"{boxed(each)} in {named}" for each in ((0, 0, 10, 10), (20, 0, 30, 10)))
        assert iou(two, scored(1.0, text)) == [expected]
