"""The verifier: which scorers run for a response, what it says of the others, and the gated score of all."""

import json

import pytest

from rewards.aggregate import GateSettings
from rewards.spatial import ObjectMasks
from rewards.verifier import Scorers, verify_trace
from schemas.geometry import Point
from schemas.records import Trace

ALL = Scorers(judge=True, spatial=True)
PLACES = (Point("yellow square", 45.0, 35.0), Point("yellow square", 215.0, 65.0))


def trace(answer: str | None, points: tuple[Point, ...] = PLACES) -> Trace:
    tags = " ".join(f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points>' for p in points)
    return Trace(0, f"<think>I see {tags}.</think><answer>{answer}</answer>", answer, points, ())


@pytest.fixture
def verify(run, draft):
    def build(caller, given: Trace, scorers: Scorers = ALL, gate: GateSettings | None = None, **changes) -> Trace:
        checked = draft(**changes)
        masks = ObjectMasks(checked.question, caller)
        return run(verify_trace(checked, given, scorers, gate or GateSettings(), masks))

    return build


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
    assert values(scored) == {"outcome": 1.0, "spatial": 0.0, "reasoning": reasoning}
    assert scored.score == pytest.approx(score)


@pytest.mark.parametrize(
    ("scorers", "unscored"),
    [
        (Scorers(judge=False, spatial=True), {"reasoning": "no judge is configured"}),
        (Scorers(judge=True, spatial=False), {"spatial": "no detector and segmenter are configured"}),
    ],
)
def test_a_scorer_without_endpoint_is_unscored_and_says_so(verify, scripted, scorers, unscored) -> None:
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), trace("2"), scorers)
    assert {v.name: v.reason for v in scored.verdicts if v.value is None} == unscored


def test_without_any_scorer_the_outcome_is_the_score(verify, scripted) -> None:
    assert verify(scripted(), trace("2"), Scorers(judge=False, spatial=False)).score == 1.0


@pytest.mark.parametrize(("pointed", "spatial"), [(PLACES, 0.0), ((), None)])
def test_no_points_counts_only_where_the_pointer_found_some(verify, scripted, pointed, spatial) -> None:
    scored = verify(scripted(judge=[supports("yes")]), trace("2", ()), points=pointed)
    assert values(scored)["spatial"] == spatial


def test_an_unscored_outcome_has_no_score(run, scripted, question, draft) -> None:
    asked = question(answer="riding a horse", answer_type="text")
    given = trace("he sits on the back of a galloping brown animal")
    masks = ObjectMasks(asked, scripted(judge=["no idea"]))
    scored = run(verify_trace(type(draft())(asked), given, ALL, GateSettings(), masks))
    assert (values(scored), scored.score) == ({"outcome": None}, None)


def test_the_trace_itself_stays_as_it_is(verify, scripted) -> None:
    given = trace("2")
    scored = verify(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), given)
    assert (scored.text, scored.points, scored.answer, scored.index) == (given.text, given.points, "2", 0)


@pytest.mark.parametrize(
    ("answer", "points", "expected", "score"),
    [
        ("2", PLACES, {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}, 1.0),
        (
            "2",
            (PLACES[0], Point("yellow square", 335.0, 25.0)),
            {"outcome": 1.0, "spatial": 0.5, "reasoning": 1.0},
            2.5 / 3,
        ),
        ("2", PLACES[:1], {"outcome": 1.0, "spatial": 1.0, "reasoning": 0.0}, 2 / 3),
        ("3", PLACES, {"outcome": 0.0}, 0.0),
    ],
)
def test_argos_eq9_on_a_drawn_scene(with_models, draft, answer, points, expected, score) -> None:
    checked = draft(points=PLACES)
    scored = with_models(
        lambda models: verify_trace(
            checked, trace(answer, points), ALL, GateSettings(), ObjectMasks(checked.question, models)
        )
    )
    assert values(scored) == expected
    assert scored.score == pytest.approx(score)
