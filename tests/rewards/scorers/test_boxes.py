"""iVGR Eq. 2 by hand, the degenerate cases as documented, and its invariants."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.scorers.boxes import (
    FORMS,
    SAME_BOX_IOU,
    SCORER,
    match_group,
    max_boxes,
    score_boxes,
    score_group,
)
from groundtrace.schemas.geometry import Box


def box(x1: float, y1: float, x2: float, y2: float, media_index: int = 0, label: str = "cat") -> Box:
    return Box(label, x1, y1, x2, y2, media_index)


def iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The IoU of two boxes: recall and precision of one predicted box on one gold box."""
    recall, precision = match_group([(box(*a),)], (box(*b),))
    assert recall[0] == precision[0]
    return float(recall[0])


SQUARE = (0, 0, 10, 10)
GOLD = (box(*SQUARE), box(100, 0, 110, 10))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (SQUARE, SQUARE, 1.0),
        # 5 x 10 shared of 100 + 100 - 50
        (SQUARE, (5, 0, 15, 10), 1 / 3),
        # 5 x 5 shared of 100 + 100 - 25
        (SQUARE, (5, 5, 15, 15), 25 / 175),
        # one within the other: 16 of 100
        (SQUARE, (3, 3, 7, 7), 0.16),
        # exclusive edges: boxes that touch share nothing, and a box of 0.5 pixels has an area
        (SQUARE, (10, 0, 20, 10), 0.0),
        ((0, 0, 0.5, 0.5), (0, 0, 0.5, 1.0), 0.5),
        (SQUARE, (50, 50, 60, 60), 0.0),
        # no area, corners in the wrong order, no numbers: no overlap, not even with itself
        ((5, 5, 5, 9), (5, 5, 5, 9), 0.0),
        ((0, 0, 0, 0), SQUARE, 0.0),
        ((10, 10, 0, 0), SQUARE, 0.0),
        ((math.nan, 0, 10, 10), SQUARE, 0.0),
        ((-math.inf, -math.inf, math.inf, math.inf), SQUARE, 0.0),
        ((math.inf,) * 4, (math.inf,) * 4, 0.0),
        ((0, 0, 1e-200, 1e-200), (0, 0, 1e-200, 1e-200), 0.0),
        ((0, 0, 1e200, 1e200), (0, 0, 1e200, 1e200), 0.0),
    ],
)
def test_iou_of_two_boxes(a, b, expected) -> None:
    assert iou(a, b) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predicted", "recall", "precision"),
    [
        (GOLD, 1.0, 1.0),
        # gold: 1 and 0; predicted: 1
        ((box(*SQUARE),), 0.5, 1.0),
        # gold: 1/3 and 0; predicted: 1/3
        ((box(5, 0, 15, 10),), 1 / 6, 1 / 3),
        # gold: 1 and 1; predicted: 1, 1, 0, 0
        ((*GOLD, box(0, 50, 10, 60), box(0, 70, 10, 80)), 1.0, 0.5),
        # gold: the better of 1/3 and 0.16, and 0; predicted: 1/3 and 0.16
        ((box(5, 0, 15, 10), box(3, 3, 7, 7)), 1 / 6, (1 / 3 + 0.16) / 2),
        ((box(50, 50, 60, 60),), 0.0, 0.0),
    ],
)
def test_ivgr_eq2_by_hand(predicted, recall, precision) -> None:
    assert score_boxes(predicted, GOLD).value == pytest.approx((recall + precision) / 2)
    assert score_boxes(predicted, GOLD, "recall_only").value == pytest.approx(recall)
    total = recall + precision
    assert score_boxes(predicted, GOLD, "f1").value == pytest.approx(2 * recall * precision / total if total else 0)


def test_ivgr_eq2_says_recall_and_precision() -> None:
    verdict = score_boxes((box(*SQUARE),), GOLD)
    assert (verdict.name, verdict.value) == ("boxes", 0.75)
    assert verdict.reason == "1 boxes, of 2 gold boxes (bidirectional): recall 0.500, precision 1.000"


@pytest.mark.parametrize("form", FORMS)
def test_no_predicted_box_scores_0_and_no_gold_box_is_not_applicable(form) -> None:
    assert score_boxes((), GOLD, form).value == 0.0
    assert score_boxes((), (), form).value is None
    assert score_boxes(GOLD, (), form).value is None


def test_labels_are_not_compared() -> None:
    assert score_boxes((box(*SQUARE, label="dog"),), (box(*SQUARE, label="cat"),)).value == 1.0


def test_boxes_on_different_media_do_not_overlap() -> None:
    gold = (box(*SQUARE, media_index=0), box(*SQUARE, media_index=1))
    assert score_boxes((box(*SQUARE, media_index=1),), gold).value == pytest.approx((0.5 + 1) / 2)
    assert score_boxes((box(*SQUARE, media_index=2),), gold).value == 0.0
    assert score_boxes((box(*SQUARE, media_index=1),), gold[:1]).value == 0.0
    assert score_boxes(gold, gold).value == 1.0


def moved(by: float, of: Box = GOLD[0]) -> Box:
    """The box moved to the right: by 1 of 10 pixels its IoU with the first gold box is 9 / 11, by 3 it is 7 / 13."""
    return box(of.x1 + by, of.y1, of.x2 + by, of.y2, of.media_index)


BAD, SECOND = box(50, 50, 60, 60), GOLD[1]


@pytest.mark.parametrize(
    ("predicted", "counted"),
    [
        ((GOLD[0], GOLD[0], GOLD[0], BAD), (GOLD[0], BAD)),
        # near copies are one box, the worst of them
        ((GOLD[0], moved(0.5), moved(1), BAD), (moved(1), BAD)),
        ((moved(1), GOLD[0]), (moved(1),)),
        # so are copies of a bad box
        ((GOLD[0], BAD, moved(0.5, BAD), moved(1, BAD)), (GOLD[0], BAD)),
        # one step after another counts as near: 1.5 is near 0 and near 3, which are not near each other
        ((GOLD[0], moved(1.5), moved(3)), (moved(3),)),
        # boxes apart are two, also on one gold box
        ((GOLD[0], moved(3)), (GOLD[0], moved(3))),
        ((GOLD[0], SECOND, moved(0.5, SECOND)), (GOLD[0], moved(0.5, SECOND))),
        # alike on two media
        ((GOLD[0], box(0, 0, 10, 10, 1)), (GOLD[0], box(0, 0, 10, 10, 1))),
    ],
)
def test_ivgr_eq2_near_duplicates_are_one_box(predicted, counted) -> None:
    assert score_boxes(predicted, GOLD).value == pytest.approx(by_pairs(counted, GOLD))


def test_two_gold_boxes_that_overlap_as_near_duplicates_are_two_objects() -> None:
    gold = (GOLD[0], moved(1))
    assert score_boxes(gold, gold).value == 1.0
    assert score_boxes(gold[:1], gold).value == pytest.approx((1 + 9 / 11 + 2) / 4)


@pytest.mark.parametrize("form", FORMS)
def test_copies_of_a_good_box_never_pay_more_than_the_good_one_and_the_bad_one(form) -> None:
    gold, honest = GOLD[:1], score_boxes((GOLD[0], BAD), GOLD[:1], form).value
    for count in range(1, 60):
        copies = tuple(moved(0.01 * index) for index in range(count))
        value = score_boxes((*copies, BAD), gold, form).value
        assert value is not None and honest is not None and value <= honest


def grid(count: int) -> tuple[Box, ...]:
    return tuple(box(20 * i, 0, 20 * i + 10, 10) for i in range(count))


def test_a_box_that_is_mentioned_again_and_again_is_one_box() -> None:
    verdict = score_boxes(GOLD * 50, GOLD)
    assert (verdict.value, verdict.reason.split(",")[0]) == (1.0, "2 boxes")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("gold", "limit"), [(1, 8), (2, 8), (3, 12), (300, 1200)])
def test_box_spam_beyond_the_limit_scores_0(form, gold, limit) -> None:
    assert max_boxes(grid(gold)) == limit
    assert score_boxes(grid(limit), grid(gold), form).value > 0  # type: ignore[operator]
    verdict = score_boxes(grid(limit + 1), grid(gold), form)
    assert (verdict.value, verdict.reason) == (0.0, f"{limit + 1} boxes, more than {limit}")


def test_a_group_is_scored_as_its_responses_one_by_one() -> None:
    responses = [(), GOLD, (box(*SQUARE),), grid(9), grid(8), (box(*SQUARE, media_index=1),), GOLD]
    together = score_group(responses, GOLD)
    assert together == tuple(score_boxes(response, GOLD) for response in responses)
    assert [verdict.value for verdict in together][:4] == [0.0, 1.0, 0.75, 0.0]
    assert score_group([], GOLD) == ()
    assert [verdict.value for verdict in score_group(responses, ())] == [None] * 7


def test_groups_of_many_boxes_are_scored_alike() -> None:
    gold = grid(130)
    responses = [grid(count) for count in range(1, 250, 3)]
    recall, precision = match_group(responses, gold)
    for index, response in enumerate(responses):
        hit = min(len(response), len(gold))
        assert recall[index] == pytest.approx(hit / len(gold))
        assert precision[index] == pytest.approx(hit / len(response))


def test_matching_without_gold_is_an_error_and_an_unknown_form_too() -> None:
    with pytest.raises(ValueError, match="gold"):
        match_group([GOLD], ())
    with pytest.raises(ValueError, match="the form 'precision' of the box reward is unknown"):
        score_boxes(GOLD, GOLD, "precision")


SIDE = st.floats(-1e9, 1e9)
ANY_BOX = st.builds(box, *[st.floats()] * 4, st.integers(0, 2))
REAL_BOX = st.builds(
    lambda x, y, w, h, medium: box(x, y, x + w, y + h, medium),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 1),
)


@settings(max_examples=60)
@given(st.tuples(*[SIDE] * 4), st.tuples(*[SIDE] * 4))
def test_iou_is_in_0_1_symmetric_and_1_with_itself(a, b) -> None:
    assert 0 <= iou(a, b) <= 1
    assert iou(a, b) == iou(b, a)
    has_area = a[2] > a[0] and a[3] > a[1] and (a[2] - a[0]) * (a[3] - a[1]) > 0
    assert iou(a, a) == float(has_area)


@settings(max_examples=60)
@given(st.lists(ANY_BOX, max_size=6), st.lists(ANY_BOX, max_size=6), st.sampled_from(list(FORMS)))
def test_any_boxes_score_in_0_1_or_not_at_all(predicted, gold, form) -> None:
    value = score_boxes(tuple(predicted), tuple(gold), form).value
    assert value is None if not gold else value is not None and 0 <= value <= 1


@settings(max_examples=60)
@given(
    st.lists(REAL_BOX, min_size=1, max_size=6),
    st.lists(REAL_BOX, min_size=1, max_size=6),
    st.integers(1, 9),
    st.sampled_from(["bidirectional", "f1"]),
)
def test_ivgr_eq2_boxes_off_all_gold_never_raise_the_score(predicted, gold, count, form) -> None:
    off = tuple(box(1000 + 50 * i, 0, 1020 + 50 * i, 10) for i in range(count))
    before = score_boxes(tuple(predicted), tuple(gold), form).value
    after = score_boxes((*predicted, *off), tuple(gold), form).value
    assert before is not None and after is not None
    assert after <= before


@settings(max_examples=60)
@given(st.lists(REAL_BOX, max_size=8), st.lists(REAL_BOX, min_size=1, max_size=6), st.randoms())
def test_ivgr_eq2_order_does_not_matter(predicted, gold, random) -> None:
    value = score_boxes(tuple(predicted), tuple(gold)).value
    random.shuffle(predicted)
    random.shuffle(gold)
    assert score_boxes(tuple(predicted), tuple(gold)).value == value


def iou_of(a: Box, b: Box) -> float:
    width = max(0.0, min(a.x2, b.x2) - max(a.x1, b.x1))
    height = max(0.0, min(a.y2, b.y2) - max(a.y1, b.y1))
    shared = width * height * (a.media_index == b.media_index)
    return shared / (a.width * a.height + b.width * b.height - shared)


def by_pairs(predicted: Sequence[Box], gold: Sequence[Box]) -> float:
    """Eq. 2 written out."""
    recall = sum(max(iou_of(b, p) for p in predicted) for b in gold) / len(gold)
    precision = sum(max(iou_of(p, b) for b in gold) for p in predicted) / len(predicted)
    return (recall + precision) / 2


@settings(max_examples=60)
@given(
    st.lists(st.lists(REAL_BOX, min_size=1, max_size=5), min_size=1, max_size=5),
    st.lists(REAL_BOX, min_size=1, max_size=5, unique=True),
)
def test_ivgr_eq2_a_group_without_near_duplicates_matches_the_equation_pair_by_pair(responses, gold) -> None:
    apart = [
        [one for i, one in enumerate(each) if not any(_near(one, other) for other in each[:i])] for each in responses
    ]
    scored = score_group([tuple(response) for response in apart], tuple(gold))
    assert [verdict.value for verdict in scored] == pytest.approx([by_pairs(response, gold) for response in apart])


def _near(a: Box, b: Box) -> bool:
    return iou_of(a, b) >= SAME_BOX_IOU


@pytest.mark.parametrize(
    ("side", "far", "expected"),
    [
        # sides on both sides of the bounds that spare the closer look: sound boxes score alike
        (1e-149, 0.0, 1.0),
        (1e-151, 0.0, 1.0),
        (1e-170, 0.0, 0.0),
        (1e148, 0.0, 1.0),
        (1e149, 0.0, 1.0),
        (1e151, 0.0, 0.0),
        # a corner far away with a side of its own length, beside a sound box
        (10.0, 1e149, 0.5),
        (10.0, math.inf, 0.5),
    ],
)
def test_boxes_of_extreme_size_hide_no_sound_box_and_warn_of_nothing(side, far, expected, recwarn) -> None:
    sound = box(0, 0, side, side)
    gold = (sound, box(far, far, far, far)) if far else (sound,)
    assert score_boxes(gold, gold, "recall_only").value == expected
    assert not recwarn.list


def test_the_scorer_takes_the_boxes_of_the_response_and_of_the_question(run, case) -> None:
    gold, other = Box("", 0, 0, 10, 10), Box("", 50, 50, 60, 60)
    assert run(SCORER.score(case(boxes=(gold, other), gold_boxes=(gold,)))).value == 0.75
    assert not any(holds(case(gold_boxes=none)) for none in ((), None) for holds, _ in SCORER.needs)
