"""The verifier: which scorers run for a response, what it says of the others, and the gated score of all."""

import json
from dataclasses import replace

import numpy as np
import pytest

from inference.grounding import encode_mask
from rewards.aggregate import GateSettings
from rewards.scorers.spatial import ObjectMasks
from rewards.selection import Served
from rewards.verifier import contents_of, verify_trace
from schemas.geometry import Box, Point
from schemas.records import FrameRef, Trace

ALL = Served(frozenset({"judge", "detector", "segmenter"}))
PLACES = (Point("yellow square", 45.0, 35.0), Point("yellow square", 215.0, 65.0))


def trace(answer: str | None, points: tuple[Point, ...] = PLACES) -> Trace:
    tags = " ".join(f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points>' for p in points)
    return Trace(0, f"<think>I see {tags}.</think><answer>{answer}</answer>", answer, points, ())


@pytest.fixture
def verify(run, draft):
    def build(caller, given: Trace, served: Served = ALL, planner: str = "rules", **changes) -> Trace:
        checked = draft(**changes)
        masks = ObjectMasks(checked.question, caller, served)
        return run(verify_trace(checked, given, GateSettings(), masks, planner))

    return build


LEFT_OUT = {"counting": None, "temporal": None}
PLAIN = {"counting": "0 are found where the answer is 2: not all of them may be meant", "temporal": "there is no clip"}


def values(scored: Trace) -> dict[str, float | None]:
    return {verdict.name: verdict.value for verdict in scored.verdicts}


@pytest.mark.parametrize("answer", ["3", None])
def test_argos_eq9_below_the_gate_nothing_else_is_asked(verify, scripted, answer) -> None:
    caller = scripted()
    scored = verify(caller, trace(answer))
    assert (values(scored), scored.score) == ({"outcome": 0.0}, 0.0)
    assert caller.asked == []


def supports(word: str) -> str:
    return json.dumps({"reason": "", "supports": word})


@pytest.mark.parametrize(
    ("word", "reasoning", "score"), [("yes", 1.0, 2 / 3), ("no", 0.0, 1 / 3), ("cannot_judge", None, 0.5)]
)
def test_argos_eq9_gated_over_all_scorers(verify, scripted, word, reasoning, score) -> None:
    """Outcome 1 and spatial 0, the label being not detected."""
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports(word)]), trace("2"))
    assert values(scored) == LEFT_OUT | {"outcome": 1.0, "spatial": 0.0, "reasoning": reasoning}
    assert scored.score == pytest.approx(score)


@pytest.mark.parametrize(
    ("roles", "unscored"),
    [
        (
            {"detector", "segmenter"},
            PLAIN | {"temporal": "no judge is configured", "reasoning": "no judge is configured"},
        ),
        ({"judge"}, PLAIN | dict.fromkeys(("spatial", "counting"), "no detector and segmenter are configured")),
    ],
)
def test_a_scorer_without_endpoint_is_unscored_and_says_so(verify, scripted, roles, unscored) -> None:
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), trace("2"), Served(frozenset(roles)))
    assert {v.name: v.reason for v in scored.verdicts if v.value is None} == unscored


def test_without_any_scorer_the_outcome_is_the_score(verify, scripted) -> None:
    assert verify(scripted(), trace("2"), Served()).score == 1.0


def test_a_verdict_says_why_its_scorer_ran(verify, scripted) -> None:
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), trace("2"))
    chosen = {
        v.name: json.loads(v.evidence[-1])["chosen"] for v in scored.verdicts if v.value is not None and v.evidence
    }
    assert chosen == {
        "spatial": "the response points, or should",
        "reasoning": "the response reasons before it answers",
    }


def test_the_planner_leaves_scorers_out(verify, scripted) -> None:
    plan = json.dumps({"scorers": [{"name": "reasoning", "reason": "a count"}]})
    scored = verify(scripted(judge=[plan, supports("no")]), trace("2"), planner="judge")
    assert values(scored) == LEFT_OUT | {"outcome": 1.0, "spatial": None, "reasoning": 0.0}
    assert {v.reason for v in scored.verdicts if v.name in ("spatial", "counting")} == {"left out by the planner"}


def test_without_a_judge_nobody_plans(verify, scripted) -> None:
    caller = scripted(detector=['{"boxes": []}'])
    verify(caller, trace("2"), Served(ALL.roles - {"judge"}), planner="judge")
    assert [role for role, _, _ in caller.asked] == ["detector"]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("<think>two</think><answer>2</answer>", {"think": True}),
        ("<think> </think><answer>2</answer>", {"think": False}),
        ("2", {"think": False}),
    ],
)
def test_the_contents_of_a_trace(draft, text, fields) -> None:
    points = (*PLACES, Point("table", 1.0, 1.0))
    found = contents_of(draft(points=PLACES), Trace(0, text, "2", points, (Box("box", 0, 0, 1, 1),)), ALL)
    expected = {"answer_type": "numeric", "points": 3, "boxes": 1, "times": 0, "clips": 0}
    expected |= {"pointable": True, "locatable": True, "counted": 2} | fields
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(("pointed", "spatial"), [(PLACES, 0.0), ((), None)])
def test_no_points_counts_only_where_the_pointer_found_some(verify, scripted, pointed, spatial) -> None:
    scored = verify(scripted(judge=[supports("yes")]), trace("2", ()), points=pointed)
    assert values(scored)["spatial"] == spatial


def test_an_unscored_outcome_has_no_score(run, scripted, question, draft) -> None:
    asked = question(answer="riding a horse", answer_type="text")
    given = trace("he sits on the back of a galloping brown animal")
    masks = ObjectMasks(asked, scripted(judge=["no idea"]), ALL)
    scored = run(verify_trace(type(draft())(asked), given, GateSettings(), masks))
    assert (values(scored), scored.score) == ({"outcome": None}, None)


SAID = (
    '<think>The <points x1="15" y1="15" alt="dog">dog</points> sits in frame 2 (1.00 s). It barks from 0.50 s to '
    "1.00 s.</think><answer>2</answer>"
)
EXTRACTED = {
    "points": [{"object": "dog", "x": 15, "y": 15, "frame": 2, "t_s": 1.0, "anchor": "frame 2 (1.00 s)"}],
    "frames": [],
    "segments": [
        {"first_frame": None, "last_frame": None, "start_s": 0.5, "end_s": 1.0}
        | {"description": "It barks", "anchor": "from 0.50 s to 1.00 s"}
    ],
}


def clip_question(question):
    frames = tuple(FrameRef(n, n / 2, f"run:f{n}.jpg", f"{n}" * 64, 1) for n in (1, 2))
    return question(media=(replace(question().media[0], kind="video", frames=frames),))


@pytest.mark.parametrize(
    ("roles", "detector", "shown", "temporal"),
    [
        (ALL.roles, '{"boxes": [[10, 10, 20, 20]]}', "no", 0.5),
        (ALL.roles, '{"boxes": []}', "yes", 0.5),
        (ALL.roles, '{"boxes": [[10, 10, 20, 20]]}', "yes", 1.0),
        (ALL.roles, "I see a dog", "no", 0.0),
        ({"judge"}, None, "yes", 1.0),
    ],
)
def test_argos_eq4_a_clip_is_scored_by_its_times(
    run, scripted, question, draft, roles, detector, shown, temporal
) -> None:
    """The mean of the mean over its points and the mean over its spans; without a detector the spans alone."""
    judge = [json.dumps(EXTRACTED), json.dumps({"reason": "", "shown": shown}), supports("yes")]
    mask = json.dumps({"masks": [encode_mask(10, 10, np.ones((10, 10), bool))]})
    caller = scripted(judge=judge, detector=[detector], segmenter=[mask])
    asked = clip_question(question)
    given = Trace(0, SAID, "2", (Point("dog", 15.0, 15.0, frame=2, t_s=1.0),), ())
    masks = ObjectMasks(asked, caller, Served(frozenset(roles)))
    scored = run(verify_trace(type(draft())(asked), given, GateSettings(), masks))
    found = values(scored)
    assert (found["spatial"], found["temporal"], found["reasoning"]) == (None, temporal, 1.0)
    if detector is not None:
        assert [prompt.media[0].uri for role, prompt, _ in caller.asked if role == "detector"] == ["run:f2.jpg"]


def test_a_clip_whose_statements_cannot_be_read_is_unscored(run, scripted, question, draft) -> None:
    asked = clip_question(question)
    caller = scripted(judge=["nothing of the kind", supports("yes")])
    scored = run(
        verify_trace(type(draft())(asked), Trace(0, SAID, "2", (), ()), GateSettings(), ObjectMasks(asked, caller, ALL))
    )
    (temporal,) = (verdict for verdict in scored.verdicts if verdict.name == "temporal")
    assert temporal.value is None
    assert temporal.reason.startswith("extraction: ")


def test_the_trace_itself_stays_as_it_is(verify, scripted) -> None:
    given = trace("2")
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), given)
    assert (scored.text, scored.points, scored.answer, scored.index) == (given.text, given.points, "2", 0)


@pytest.mark.parametrize(
    ("answer", "points", "expected", "score"),
    [
        ("2", PLACES, {"outcome": 1.0, "spatial": 1.0, "counting": 1.0, "reasoning": 1.0}, 1.0),
        (
            "2",
            (PLACES[0], Point("yellow square", 335.0, 25.0)),
            {"outcome": 1.0, "spatial": 0.5, "counting": 1 / 3, "reasoning": 1.0},
            2.5 / 3,
        ),
        (
            "2",
            (PLACES[0], Point("yellow square", 46.0, 35.0)),
            {"outcome": 1.0, "spatial": 1.0, "counting": 1 / 3, "reasoning": 1.0},
            1.0,
        ),
        ("2", PLACES[:1], {"outcome": 1.0, "spatial": 1.0, "counting": 0.5, "reasoning": 0.0}, 2 / 3),
        ("3", PLACES, {"outcome": 0.0}, 0.0),
    ],
)
def test_argos_eq9_on_a_drawn_scene(with_models, draft, answer, points, expected, score) -> None:
    checked = draft(points=PLACES)
    scored = with_models(
        lambda models: verify_trace(
            checked, trace(answer, points), GateSettings(), ObjectMasks(checked.question, models, ALL)
        )
    )
    found = {name: value for name, value in values(scored).items() if name != "temporal"}
    assert found == pytest.approx(expected)
    assert scored.score == pytest.approx(score)
