"""Boxes whose names count: Eq. 2 with labels, who is asked about synonyms, and the laws of the reward."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import CallError, Failure
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorers.boxes import max_boxes, score_boxes, score_group
from groundtrace.rewards.scorers.boxes_named import PROMPT, SCORER, score_named_group
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.labels import names_alike

JUDGED = ServedRoles(frozenset({"judge"}))
SOFA = Box("sofa", 0, 0, 10, 10)
CAT = Box("black cat", 100, 0, 110, 10)


def at(gold: Box, label: str, by: float = 0.0) -> Box:
    """A box on the gold one, or beside it, under a label."""
    return Box(label, gold.x1 + by, gold.y1, gold.x2 + by, gold.y2, gold.media_index)


def says(same: bool) -> str:
    return json.dumps({"reason": "", "same": same})


@pytest.fixture
def score(run, case, scripted):
    """The values of responses, and what the judge was asked."""

    def value(*responses: Sequence[Box], gold=(SOFA, CAT), judge: Sequence[object] | None = ()):
        caller, served = scripted(judge=list(judge or ())), ServedRoles() if judge is None else JUDGED
        found = run(score_named_group([case("", caller, served, boxes=tuple(r), gold_boxes=gold) for r in responses]))
        assert all(verdict.name == "boxes" for verdict in found)
        return [verdict.value for verdict in found], [
            (prompt.variable("label"), prompt.variable("gold")) for _, prompt, _ in caller.asked
        ]

    return value


CASES = [
    # words tell
    ("true names", [SOFA, CAT], 1.0),
    ("less exact and more exact", [at(SOFA, "red sofa"), at(CAT, "the cats")], 1.0),
    ("no names", [at(SOFA, ""), at(CAT, "object")], 1.0),
    # (1/2 + 1/2) / 2: one of two gold boxes, one of two boxes
    ("a colour that is another", [SOFA, at(CAT, "white cat")], 0.5),
    ("the whole image", [SOFA, at(CAT, "picture")], 0.5),
    ("no name at all", [SOFA, at(CAT, "?!")], 0.5),
    # a second box on the cat is one with the first, and the worst counts
    ("a true and a junk name", [SOFA, CAT, at(CAT, "picture")], 0.5),
    # beside: 5/15 each, (1/2·(1 + 1/3) + 1/2·(1 + 1/3)) / 2
    ("beside", [SOFA, at(CAT, "cat", 5)], 2 / 3),
]


@pytest.mark.parametrize(("boxes", "value"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_words_that_tell_are_not_asked_about(score, boxes, value) -> None:
    assert score(boxes) == ([pytest.approx(value)], [])


def test_of_synonyms_the_judge_is_asked_once(score) -> None:
    couch = [at(SOFA, "couch"), CAT]
    assert score(couch, couch, [at(SOFA, "couch")], judge=[says(True)]) == ([1.0, 1.0, 0.75], [("couch", "sofa")])
    assert score(couch, judge=[says(False)]) == ([0.5], [("couch", "sofa")])


def test_only_boxes_that_overlap_are_asked_about(score) -> None:
    assert score([at(SOFA, "couch", 50)]) == ([0.0], [])


def test_the_judge_sees_question_and_names(run, case, scripted) -> None:
    caller = scripted(judge=[says(True)])
    assert run(SCORER.score(case("", caller, JUDGED, boxes=(at(SOFA, "couch"),), gold_boxes=(SOFA,)))).value == 1.0
    [(role, prompt, _)] = caller.asked
    assert (role, prompt.name) == ("judge", PROMPT)
    assert (prompt.variable("label"), prompt.variable("gold")) == ("couch", "sofa")
    assert prompt.variable("question") == "How many yellow squares are there?"
    assert not prompt.media


def test_without_a_judge_other_words_are_another_name(score) -> None:
    assert score([at(SOFA, "couch"), CAT], judge=None) == ([0.5], [])


def test_a_label_that_the_judge_does_not_know_is_another_name(score) -> None:
    unknown = CallError(Failure.UNKNOWN_LABEL, "the engine does not know 'gizmo'")
    assert score([at(SOFA, "gizmo"), CAT], judge=[unknown])[0] == [0.5]


@pytest.mark.parametrize("reply", ["?", CallError(Failure.AWAY, "away")])
def test_a_judge_that_fails_leaves_those_unscored_that_it_was_asked_about(score, reply) -> None:
    assert score([at(SOFA, "couch")], [SOFA, CAT], [], judge=[reply])[0] == [None, 1.0, 0.0]


def test_nothing_to_judge(run, case) -> None:
    assert run(score_named_group([])) == ()
    assert run(score_named_group([case(boxes=(SOFA,), gold_boxes=())]))[0].value is None


def test_one_object_under_two_gold_names(score) -> None:
    gold = (Box("person", 0, 0, 10, 10), Box("wooden chair", 0, 0, 10, 10))
    assert score(gold, gold=gold, judge=[says(False)] * 2)[0] == [1.0]


def test_the_embedded_judge_knows_its_own_words(with_models, case) -> None:
    from groundtrace.inference.session import Session

    gold = (Box("yellow square", 30, 20, 60, 50),)
    labels = ["yellow block", "gizmo", "yellow or blue block", "yellow circle", "square"]

    async def work(models):
        return [
            (await score_named_group([case("", Session(models), JUDGED, boxes=(at(gold[0], label),), gold_boxes=gold)]))
            for label in labels
        ]

    assert [found[0].value for found in with_models(work)] == [1.0, 0.0, 0.0, 0.0, 1.0]


NAMES = ("red car", "blue car", "dog", "tree")


@st.composite
def scenes(draw) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
    """Gold objects of a scene, which do not overlap, and the others of it."""
    count = draw(st.integers(2, 8))
    boxes = [
        Box(
            draw(st.sampled_from(NAMES)),
            40.0 * n,
            0.0,
            40.0 * n + draw(st.integers(8, 30)),
            float(draw(st.integers(8, 30))),
        )
        for n in range(count)
    ]
    gold = draw(st.integers(1, count - 1))
    return tuple(boxes[:gold]), tuple(boxes[gold:])


@st.composite
def responses(draw) -> tuple[tuple[Box, ...], tuple[Box, ...], tuple[Box, ...]]:
    """Gold objects, the others of a scene, and boxes on, near and off them under names of all kinds."""
    gold, others = draw(scenes())
    shift, label = st.integers(-12, 12), st.sampled_from((*NAMES, "", "picture", "object"))
    near = st.builds(
        lambda box, by, wider, name: Box(name, box.x1 + by, box.y1, box.x2 + by + abs(wider), box.y2),
        st.sampled_from((*gold, *others)),
        shift,
        shift,
        label,
    )
    return gold, others, tuple(draw(st.lists(near, max_size=max_boxes(gold) - 1)))


def named(predicted: Sequence[Box], gold: tuple[Box, ...], form: str = "bidirectional") -> float:
    value = score_group([tuple(predicted)], gold, form, lambda own, other: names_alike(own, other) is True)[0].value
    assert value is not None
    return value


@settings(max_examples=200)
@given(responses(), st.data())
def test_a_right_box_never_lowers_the_reward(scene, data) -> None:
    gold, _, predicted = scene
    right = data.draw(st.sampled_from(gold))
    assert named((*predicted, right), gold) >= named(predicted, gold) - 1e-12
    places = tuple(Box("", box.x1, box.y1, box.x2, box.y2) for box in predicted)
    before, after = (score_boxes(boxes, gold).value for boxes in (places, (*places, right)))
    assert before is not None and after is not None and after >= before - 1e-12


@settings(max_examples=200)
@given(responses(), st.data())
def test_a_wrong_box_lowers_the_reward(scene, data) -> None:
    """Off all gold boxes, or on one under a name that it cannot have. It is neutral where its object has a wrong box
    already: several tries at one object are one box, the worst of them.
    """
    gold, _, predicted = scene
    off = Box("dog", 10_000, 0, 10_020, 20)
    on = data.draw(st.sampled_from(gold))
    for wrong in (off, at(on, "picture"), at(on, "green " + on.label.split()[-1])):
        if wrong is not off and names_alike(wrong.label, on.label) is True:
            continue  # "green dog" contradicts no "dog"
        before, after = named(predicted, gold), named((*predicted, wrong), gold)
        is_second = any(box.iou(wrong) > 0 and named((box,), gold) == 0 for box in predicted)
        assert after <= before if is_second or not before else after < before


@given(scenes())
def test_boxes_on_all_objects_earn_less_than_boxes_on_the_gold_ones(scene) -> None:
    gold, others = scene
    for form in ("bidirectional", "f1"):
        assert named((*gold, *others), gold, form) < named(gold, gold, form) == 1.0


@given(responses(), st.randoms())
def test_order_changes_nothing(scene, random) -> None:
    gold, _, predicted = scene
    shuffled, other = list(predicted), list(gold)
    random.shuffle(shuffled)
    random.shuffle(other)
    assert named(shuffled, tuple(other)) == pytest.approx(named(predicted, gold), abs=1e-12)


@given(scenes())
def test_silence_earns_nothing_where_there_is_gold(scene) -> None:
    assert named((), scene[0]) == 0.0


@given(responses())
def test_names_never_pay_more_than_positions_alone(scene) -> None:
    gold, _, predicted = scene
    plain = score_boxes(predicted, gold).value
    assert plain is not None
    assert named(tuple(at(box, "") for box in predicted), gold) == pytest.approx(plain)
