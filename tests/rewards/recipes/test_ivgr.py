"""The rewards of iVGR's streams by hand (Eq. 1–4): boxes, the reference, and agreement with it."""

import json

import pytest

from groundtrace.grading.responses.response import parse_boxes
from groundtrace.rewards.aggregate import StreamSettings
from groundtrace.rewards.case import Context
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.recipes.base import Earned, Memory, Reference, RewardedResponse
from groundtrace.rewards.recipes.ivgr import Ivgr, IvgrSettings
from groundtrace.schemas.geometry import Box

JUDGED = ServedRoles(frozenset({"judge"}))
GOLD = (Box("", 0, 0, 10, 10),)
EXACT = "<think>a car <box>[0,0,10,10]</box></think><answer>2</answer>"
HALF = "<think>a car <box>[0,0,10,5]</box></think><answer>2</answer>"
"""Its IoU with the gold box is 1/2, and so is its box reward."""
POOR = "<think>a car <box>[0,0,10,2]</box></think><answer>2</answer>"
"""Its IoU is 0.2, not above τ."""
WRONG = "<think>a car <box>[0,0,10,10]</box></think><answer>3</answer>"
NONE = "<think>a car</think><answer>2</answer>"
UNFORMED = "a car <box>[0,0,10,10]</box> so <answer>2</answer>"
WORDS = "<think>a red car</think><answer>2</answer>"
RECIPE = Ivgr(IvgrSettings())


def level(name: str) -> str:
    return json.dumps({"reason": "", "verdict": name})


@pytest.fixture
def group(case, scripted):
    """Responses of (stream, text) to a question with a gold box."""

    def build(*responses: tuple[str, str], judge: tuple[str, ...] = (), gold=GOLD):
        caller = scripted(judge=list(judge))
        return caller, [
            case(text, caller, JUDGED, boxes=parse_boxes(text), context=Context(stream=stream), gold_boxes=gold)
            for stream, text in responses
        ]

    return build


@pytest.mark.parametrize(
    ("text", "total"),
    [
        # format + outcome + boxes
        (EXACT, 3.0),
        (HALF, 2.5),
        (WRONG, 2.0),
        (NONE, 2.0),
        (UNFORMED, 2.0),
    ],
)
def test_ivgr_eq1_grounded_by_hand(run, group, text, total) -> None:
    _, cases = group(("grounded", text))
    (earned,) = run(RECIPE.score(cases, Memory()))
    assert earned.reward == pytest.approx(total)
    assert [verdict.name for verdict in earned.verdicts] == ["outcome", "format", "boxes"]


@pytest.mark.parametrize(
    ("said", "alpha"), [("identical", 1.0), ("one_kind", 0.7), ("both_kinds", 0.3), ("contradicts", 0)]
)
def test_ivgr_eq3_textual_by_hand(run, group, said, alpha) -> None:
    caller, cases = group(("grounded", EXACT), ("textual", WORDS), judge=(level(said),))
    grounded, textual = run(RECIPE.score(cases, Memory()))
    assert (grounded.reward, textual.reward) == (3.0, pytest.approx(2 + alpha))
    assert [verdict.name for verdict in textual.verdicts] == ["outcome", "format", "consistency"]
    prompt = caller.asked[0][1]
    assert (prompt.variable("first"), prompt.variable("second")) == ("a car <box>[0,0,10,10]</box>", "a red car")


KEPT = Memory(references={"q1": Reference("what was kept", 0.6)})
REFERENCES = [
    # the best of the group, wherever it stands
    (Memory(), [HALF, EXACT, POOR], "a car <box>[0,0,10,10]</box>"),
    # valid are only formed, right and well placed ones (§3.3)
    (Memory(), [HALF, WRONG, UNFORMED], "a car <box>[0,0,10,5]</box>"),
    # the better of the group's and the one that was kept
    (KEPT, [HALF], "what was kept"),
    (KEPT, [EXACT], "a car <box>[0,0,10,10]</box>"),
    (KEPT, [], "what was kept"),
]


@pytest.mark.parametrize(("memory", "grounded", "reference"), REFERENCES)
def test_ivgr_eq4_the_reference_of_a_group(run, group, memory, grounded, reference) -> None:
    texts = [("textual", WORDS), *(("grounded", text) for text in grounded)]
    caller, cases = group(*texts, judge=(level("identical"),))
    assert run(RECIPE.score(cases, memory))[0].reward == 3.0
    assert caller.asked[0][1].variable("first") == reference


@pytest.mark.parametrize("grounded", [[WRONG], [POOR], [NONE], [WRONG, POOR]])
def test_ivgr_3_3_without_a_reference_consistency_is_0(run, group, grounded) -> None:
    caller, cases = group(("textual", WORDS), *(("grounded", text) for text in grounded))
    assert run(RECIPE.score(cases, Memory()))[0].reward == 2.0
    assert caller.asked == []


def test_a_judge_that_fails_leaves_the_response_unscored(run, group) -> None:
    _, cases = group(("grounded", EXACT), ("textual", WORDS), judge=("?",))
    grounded, textual = run(RECIPE.score(cases, Memory()))
    assert (grounded.reward, textual.reward) == (3.0, None)


@pytest.mark.parametrize("gold", [None, GOLD])
def test_ivgr_app_b_a_question_asked_in_words_alone_has_no_consistency(run, group, gold) -> None:
    """Two terms of two, on the scale of three, with gold boxes as without."""
    caller, cases = group(("textual", WORDS), gold=gold)
    assert run(RECIPE.score(cases, Memory()))[0].reward == 3.0
    assert caller.asked == []


def test_a_response_of_no_stream_is_unscored(run, group) -> None:
    _, cases = group((None, EXACT))  # type: ignore[arg-type]
    (earned,) = run(RECIPE.score(cases, Memory()))
    assert (earned.reward, earned.outcome) == (None, 1.0)
    assert run(RECIPE.score([], Memory())) == []


def test_weights_form_threshold_and_orders(run, group) -> None:
    """0.5 + 2 + 4 * recall 1/2; at τ = 0.6 it is no reference."""
    chosen = IvgrSettings(StreamSettings(0.5, 2.0, 4.0, 1.0), min_box_score=0.6, boxes="recall_only")
    caller, cases = group(("grounded", HALF), ("textual", WORDS))
    grounded, textual = run(Ivgr(chosen).score(cases, Memory()))
    assert (grounded.reward, textual.reward) == (pytest.approx(0.5 + 2 + 2), pytest.approx(2.5))
    both = (level("identical"), level("one_kind"))
    caller, cases = group(("grounded", EXACT), ("textual", WORDS), judge=both)
    _, textual = run(Ivgr(IvgrSettings(max_apart=0.4)).score(cases, Memory()))
    assert (textual.reward, len(caller.asked)) == (pytest.approx(2.85), 2)


NAMED = (Box("yellow square", 0, 0, 10, 10),)
UNDER = '<think>here <box alt="{}">[0,0,10,10]</box></think><answer>2</answer>'


@pytest.mark.parametrize(
    ("label", "judge", "named", "asked"),
    [
        ("yellow square", None, 3.0, 0),
        ("square", None, 3.0, 0),
        ("picture", None, 2.0, 0),
        ("blue square", None, 2.0, 0),
        ("gizmo", False, 2.0, 1),
        ("黄色方块", True, 3.0, 1),
    ],
)
def test_labels_count_unless_the_settings_say_otherwise(run, group, label, judge, named, asked) -> None:
    replies = () if judge is None else (json.dumps({"reason": "", "same": judge}),)
    caller, cases = group(("grounded", UNDER.format(label)), judge=replies, gold=NAMED)
    assert run(RECIPE.score(cases, Memory()))[0].reward == pytest.approx(named)
    assert len(caller.asked) == asked
    caller, cases = group(("grounded", UNDER.format(label)), gold=NAMED)
    assert run(Ivgr(IvgrSettings(labels=False)).score(cases, Memory()))[0].reward == 3.0
    assert caller.asked == []


def test_a_judge_that_fails_on_a_label_leaves_the_response_unscored(run, group) -> None:
    _, cases = group(("grounded", UNDER.format("gizmo")), ("grounded", UNDER.format("")), judge=("?",), gold=NAMED)
    assert [earned.reward for earned in run(RECIPE.score(cases, Memory()))] == [None, 3.0]


def test_what_it_asks_is_looked_at_before_training() -> None:
    asked = {prompt for scorer in RECIPE.runs for asks in scorer.asks for prompt in asks.prompts}
    plain = {prompt for each in Ivgr(IvgrSettings(labels=False)).runs for asks in each.asks for prompt in asks.prompts}
    assert asked - plain == {"judge_label.v1"}


def learned(run, group, memory: Memory, *texts: str, stream: str = "grounded") -> dict[str, Reference]:
    _, cases = group(*((stream, text) for text in texts))
    earned = run(RECIPE.score(cases, memory))
    step = [RewardedResponse("q1", case.text, case.context, each) for case, each in zip(cases, earned, strict=True)]
    return dict(RECIPE.learn(memory, step).references)


def test_ivgr_eq4_the_archive_keeps_the_best(run, group) -> None:
    assert learned(run, group, Memory(), POOR, WRONG) == {}
    half = learned(run, group, Memory(), POOR, HALF)
    assert half == {"q1": Reference("a car <box>[0,0,10,5]</box>", pytest.approx(0.5))}
    best = learned(run, group, Memory(references=half), EXACT, HALF)
    assert best == {"q1": Reference("a car <box>[0,0,10,10]</box>", 1.0)}
    assert learned(run, group, Memory(references=best), HALF) == best
    other = Memory(references={"q2": Reference("kept", 0.9)})
    assert set(learned(run, group, other, EXACT)) == {"q1", "q2"}


def test_textual_responses_are_no_references() -> None:
    step = [RewardedResponse("q1", EXACT, Context(stream="textual"), Earned(3.0, ()))]
    assert RECIPE.learn(Memory(), step) == Memory()


@pytest.mark.parametrize("changes", [{"min_box_score": 1.0}, {"judgements": 0}, {"boxes": "iou"}])
def test_impossible_settings(changes) -> None:
    with pytest.raises(ValueError, match=r"min_box_score must be|judgements must be|boxes must be"):
        IvgrSettings(**changes)


def judged_step(run, group, recipe: Ivgr, memory: Memory, *responses: tuple[str, str]) -> list[RewardedResponse]:
    _, cases = group(*responses, judge=(level("identical"),) * len(responses))
    earned = run(recipe.score(cases, memory))
    return [RewardedResponse("q1", case.text, case.context, each) for case, each in zip(cases, earned, strict=True)]


BEST = Memory(references={"q1": Reference("a kept car", 0.9)})


def test_without_the_archive_only_the_step_has_references(run, group) -> None:
    """Table 5, variant (6)."""
    fresh = Ivgr(IvgrSettings(archive=False))
    step = judged_step(run, group, fresh, Memory(), ("grounded", HALF), ("textual", WORDS))
    assert step[1].earned.reward == pytest.approx(3.0)
    assert fresh.learn(Memory(), step) == Memory()


def test_without_the_weight_of_consistency_nobody_is_asked(run, group) -> None:
    """Table 5, variant (5): the textual reward is format + outcome."""
    plain = Ivgr(IvgrSettings(StreamSettings(consistency_weight=0.0)))
    caller, cases = group(("grounded", EXACT), ("textual", WORDS))
    assert run(plain.score(cases, Memory()))[1].reward == pytest.approx(2.0)
    assert caller.asked == []


@pytest.mark.parametrize(
    ("band", "kept"),
    [(None, EXACT), ((0.3, 1.0), EXACT), ((0.1, 0.3), POOR), ((0.3, 0.6), HALF), ((0.0, 0.1), None)],
)
def test_references_of_a_band(run, group, band, kept) -> None:
    """Table 8: the best reference of those whose box score lies in the band; 0.2, 0.5 and 1 are there."""
    recipe = Ivgr(IvgrSettings(reference_band=band))
    step = judged_step(run, group, recipe, Memory(), ("grounded", POOR), ("grounded", HALF), ("grounded", EXACT))
    found = {id: reference.text for id, reference in recipe.learn(Memory(), step).references.items()}
    assert found == ({} if kept is None else {"q1": kept.split("think>")[1].removesuffix("</")})


def test_a_band_has_an_order() -> None:
    with pytest.raises(ValueError, match=r"reference_band must be two numbers in ascending order, got \[0.3, 0.1\]"):
        IvgrSettings(reference_band=(0.3, 0.1))


@pytest.mark.parametrize(
    ("memory", "responses", "has_reference", "hits"),
    [
        (Memory(), (("grounded", HALF), ("textual", WORDS)), 1.0, 0.0),
        (BEST, (("grounded", HALF), ("textual", WORDS)), 1.0, 1.0),
        (BEST, (("grounded", EXACT), ("textual", WORDS)), 1.0, 0.0),
        (Memory(), (("grounded", POOR), ("textual", WORDS)), 0.0, 0.0),
        (BEST, (("textual", WORDS),), None, None),
    ],
)
def test_the_hit_rate_of_the_archive(run, group, memory, responses, has_reference, hits) -> None:
    """Figure 4d: the kept reference is used if no response of the step is better."""
    step = judged_step(run, group, RECIPE, memory, *responses)
    assert RECIPE.metrics(memory, step) == {"has_reference": has_reference, "archive_hits": hits}
