"""Computes the metrics of an evaluation from the sampled answers and their scores."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.responses.response import parse_boxes, parse_points, parse_response
from groundtrace.grading.responses.traces import read_trace
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.scorers.boxes import score_boxes
from groundtrace.rewards.scorers.outcome import NAME as OUTCOME
from groundtrace.rewards.streams import GROUNDED
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.passk import pass_at_k
from groundtrace.schemas.records import MediaRef
from groundtrace.trainer.evaluation.blind import blind_accuracy
from groundtrace.trainer.group import mean
from groundtrace.trainer.sample import Rollout


@dataclass(frozen=True)
class EvaluatedQuestion:
    """Holds one question with its sampled answers and their scores.

    ``row`` is the row of the question. ``rollouts`` are the answers, and ``scored`` holds the scores of each answer, in
    the same order. ``crops`` is the number of crops (cut-out image regions) that the prompt shows.

    An evaluation with crops makes two objects for each question: one with the answers to the prompt with crops, and
    one, for comparison, with the answers to the prompt without crops. In the second object, ``crops`` is None. In an
    evaluation without crops, ``crops`` is always None.
    """

    row: TrainingRow
    rollouts: tuple[Rollout, ...]
    scored: tuple[Scored, ...]
    crops: int | None = None

    @property
    def outcomes(self) -> list[float]:
        """Return the outcomes of the answers: 1 for a right answer, 0 for a wrong one.

        Answers that could not be graded are left out.
        """
        return [each.outcome for each in self.scored if each.outcome is not None]


def eval_figures(answered: Sequence[EvaluatedQuestion], ks: Sequence[int]) -> dict[str, Any]:
    """Return the metrics of an evaluation: for all questions together, and for each source and answer type.

    ``answered`` are the questions with their scored answers, and ``ks`` are the values of k for pass@k. The metrics of
    all questions are under the key ``all``, e.g. ``report["all"]["accuracy"]``. The keys ``source`` and ``answer_type``
    hold the metrics of a part of the questions, e.g. ``report["answer_type"]["numeric"]["accuracy"]``. If rows have
    streams (forms of response), there is also the key ``stream``. A metric without data is None. Three metrics need
    an explanation:

    - ``verdicts`` maps the name of each verdict (score of one aspect of a response) to its mean. The outcome is left
      out.
    - ``accuracy_interval`` is the 95 % interval of the accuracy. For this interval, the questions are treated as a
      random sample from a large set of similar questions.
    - ``blind_accuracy`` is the accuracy that is possible without the images
      (:func:`groundtrace.trainer.evaluation.blind.blind_accuracy`).

    In an evaluation with crops (cut-out image regions), each question is answered twice: with crops and without crops.
    The keys above hold the metrics of the answers with crops. The key ``without_crops`` holds the metrics of the
    answers without crops. The key ``crops`` holds the number of questions that have crops, and the mean number of crops
    of these questions.
    """
    with_crops = [each for each in answered if each.crops is not None]
    plain = [each for each in answered if each.crops is None]
    if with_crops and plain:
        return eval_figures(with_crops, ks) | {"without_crops": _figures(plain, ks), "crops": _crops(with_crops)}
    parts: dict[str, Callable[[EvaluatedQuestion], str]] = {
        "source": lambda a: a.row.source,
        "answer_type": lambda a: a.row.question.answer_type,
    }
    if any(each.row.context.stream for each in answered):
        parts["stream"] = lambda a: a.row.context.stream or "none"
    report: dict[str, Any] = {"all": _figures(answered, ks)}
    for name, key in parts.items():
        values = sorted({key(each) for each in answered})
        report[name] = {value: _figures([each for each in answered if key(each) == value], ks) for value in values}
    return report


def _crops(answered: Sequence[EvaluatedQuestion]) -> dict[str, Any]:
    """Return the number of questions with crops (cut-out image regions), and their mean number of crops."""
    counts = [float(each.crops) for each in answered if each.crops]
    return {"questions": len(counts), "mean": mean(counts)}


def _figures(answered: Sequence[EvaluatedQuestion], ks: Sequence[int]) -> dict[str, Any]:
    pairs = [pair for each in answered for pair in zip(each.rollouts, each.scored, strict=True)]
    texts = [scored.text for _, scored in pairs]
    golds = Counter(each.row.question.answer for each in answered)
    graded = [each for each in answered if each.outcomes]
    return {
        "questions": len(answered),
        "answers": len(pairs),
        "unscored": sum(scored.outcome is None for _, scored in pairs),
        "accuracy": mean([outcome for each in answered for outcome in each.outcomes]),
        "accuracy_interval": accuracy_interval(graded),
        "blind_accuracy": blind_accuracy([each.row for each in answered]),
        "best_constant": max(golds.values()) / len(answered) if answered else None,
        "pass_at_k": {str(k): mean([_pass(each, k) for each in graded if len(each.outcomes) >= k]) for k in ks},
        "reward": mean([scored.reward for _, scored in pairs]),
        "verdicts": {
            name: mean([scored.value(name) for _, scored in pairs])
            for name in dict.fromkeys(verdict.name for _, scored in pairs for verdict in scored.verdicts)
            if name != OUTCOME
        },
        "spatial": mean([scored.value("spatial") for _, scored in pairs]),
        "points_in_gold_boxes": mean([share for a in answered for s in a.scored for share in points_in_gold(a.row, s)]),
        "iou": mean([found for a in answered for s in a.scored for found in iou(a.row, s)]),
        "point_f1": mean([found for a in answered for s in a.scored for found in point_f1(a.row, s)]),
        "exact_points": mean([found for a in answered for s in a.scored for found in exact_points(a.row, s)]),
        "thinks": mean([float(bool((parse_response(text).think or "").strip())) for text in texts]),
        "points": mean([float(len(parse_points(text))) for text in texts]),
        "response_tokens": mean([float(rollout.own_tokens) for rollout, _ in pairs]),
        "turns": mean([float(len(rollout.turns)) for rollout, _ in pairs]),
        "truncated": mean([float(rollout.is_truncated) for rollout, _ in pairs]),
    }


def accuracy_interval(answered: Sequence[EvaluatedQuestion]) -> list[float] | None:
    """Return Wilson's 95 % interval of the accuracy as [low, high]; None if no answer is graded.

    ``answered`` holds the questions; those without graded answers are left out. The interval is computed for the number
    of questions. The number of answers is not used, because the answers to one question are not independent. A question
    with several streams (forms of response) counts once.
    """
    graded = [each for each in answered if each.outcomes]
    accuracy, questions = mean([o for each in graded for o in each.outcomes]), len({each.row.id for each in graded})
    return None if accuracy is None else list(wilson(min(accuracy * questions, questions), questions))


def points_in_gold(row: TrainingRow, scored: Scored) -> list[float]:
    """Return one number for each point of a response: 1 if the point is inside a gold box with the same label, else 0.

    A gold box is the known right box of an object. ``row`` holds the gold boxes of the question, and ``scored`` holds
    the text of the response. The result is empty if the question has no gold boxes. The ``argos`` reward does not use
    gold boxes, so this metric is independent of it.
    """
    boxes = row.question.gold_boxes
    return [float(bool(_hits(point, boxes))) for point in parse_points(scored.text)] if boxes else []


def iou(row: TrainingRow, scored: Scored) -> list[float]:
    """Return the IoU of a response's boxes with the gold boxes (iVGR Table 14), as a list with one number in [0, 1].

    A gold box is the known right box of an object. ``row`` holds the gold boxes of the question, and ``scored`` holds
    the text of the response. The IoU is R_box of iVGR Eq. 2, with the deviations that
    :mod:`groundtrace.rewards.scorers.boxes` lists. Labels are not compared. R_box is the mean of two averages. For the
    first average, the highest IoU of each gold box with any predicted box is computed, and averaged over the gold
    boxes. For the second average, the highest IoU of each predicted box with any gold box is computed, and averaged
    over the predicted boxes.

    If a response has no boxes, the number is 0 if the prompt requested boxes (the form of response ``grounded``); else
    the list is empty. The list is also empty if the question has no gold boxes.
    """
    shown = () if row.frames else tuple(MediaRef(name, "image", "", "", "", 0, 0, 1, 0) for _, name in row.images)
    boxes, gold = read_trace(0, scored.text, shown).boxes, row.question.gold_boxes
    if not gold or (not boxes and row.context.stream != GROUNDED):
        return []
    found = score_boxes(boxes, gold).value
    return [] if found is None else [found]


def exact_points(row: TrainingRow, scored: Scored) -> list[float]:
    """Return, as a list with one number, 1 if the points of a response match the gold boxes one to one, else 0.

    A gold box is the known right box of an object. Points and boxes match if three conditions hold. There are as many
    points as gold boxes. Each point is inside exactly one gold box with its label. No two points are in the same box.
    This metric is for counting questions. The list is empty if the gold answer is not a number, or if the question has
    no gold boxes. ``row`` is the row of the question, and ``scored`` holds the text of the response.
    """
    boxes, points = row.question.gold_boxes, parse_points(scored.text)
    if not boxes or not answer_type_named(row.question.answer_type).is_number:
        return []
    hits = [_hits(point, boxes) for point in points]
    single = [hit[0] for hit in hits if len(hit) == 1]
    return [float(len(points) == len(boxes) == len(set(single)))]


def point_f1(row: TrainingRow, scored: Scored) -> list[float]:
    """Return the F1 of a response's points against the gold boxes, as a list with one number in [0, 1].

    A gold box is the known right box of an object. ``row`` holds the gold boxes of the question, and ``scored`` holds
    the text of the response. A point matches a gold box that has its label and contains it. Each box is matched by at
    most one point. F1 is twice the number of matches, divided by the number of points plus the number of gold
    boxes. The list is empty in three cases:

    - The question has no gold boxes.
    - The prompt does not request points, but boxes or text only, as the prompts of the paper iVGR do.
    - The response has boxes but no points.

    In all other cases, the F1 of a response without points is 0.
    """
    gold, points = row.question.gold_boxes, parse_points(scored.text)
    if not gold or row.context.stream is not None or (not points and parse_boxes(scored.text)):
        return []
    taken: dict[int, int] = {}  # the point of each matched box
    hits = [_hits(point, gold) for point in points]
    matches = sum(_is_matched(place, hits, taken, set()) for place in range(len(points)))
    return [2 * matches / (len(points) + len(gold))]


def _is_matched(place: int, hits: Sequence[Sequence[int]], taken: dict[int, int], tried: set[int]) -> bool:
    """Return whether the point with the index ``place`` can be matched with a box (Kuhn's algorithm).

    To free a box for this point, points that are already matched may be matched with other boxes. ``hits`` holds, for
    each point, the indices of its possible boxes. ``taken`` maps the index of each matched box to the index of its
    point. ``tried`` holds the indices of the boxes that this search has already tried, and does not try again. The
    function updates ``taken`` and ``tried``.
    """
    for box in hits[place]:
        if box not in tried:
            tried.add(box)
            if box not in taken or _is_matched(taken[box], hits, taken, tried):
                taken[box] = place
                return True
    return False


def _hits(point: Point, boxes: Sequence[Box]) -> list[int]:
    """Return the indices of the gold boxes that contain the point, are in its image and have its label.

    A gold box is the known right box of an object; ``boxes`` are the gold boxes of the question.
    """
    return [
        index
        for index, box in enumerate(boxes)
        if (box.label, box.media_index) == (point.label, point.media_index)
        and box.x1 <= point.x <= box.x2
        and box.y1 <= point.y <= box.y2
    ]


def _pass(answered: EvaluatedQuestion, k: int) -> float:
    return pass_at_k(len(answered.outcomes), sum(outcome == 1 for outcome in answered.outcomes), k)
