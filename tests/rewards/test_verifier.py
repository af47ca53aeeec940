"""The verifier: which scorers run for a response, what it says of the others, and the gated score of all."""

import json
from dataclasses import replace

import numpy as np
import pytest

from inference.asking import Asks
from inference.grounding import encode_mask
from rewards.aggregate import GateSettings
from rewards.case import Case
from rewards.locating import Served
from rewards.registry import SCORERS
from rewards.scorer import Scorer
from rewards.verifier import Verified, verify
from schemas.geometry import Point
from schemas.records import FrameRef, Verdict

ALL = Served(frozenset({"judge", "detector", "segmenter"}))
PLACES = (Point("yellow square", 45.0, 35.0), Point("yellow square", 215.0, 65.0))


def said(answer: str | None, points: tuple[Point, ...] = PLACES) -> dict[str, object]:
    """A response that points and answers, as the fields of its case."""
    tags = " ".join(f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points>' for p in points)
    text = f"<think>I see {tags}.</think><answer>{answer}</answer>"
    return {"text": text, "answer": answer, "points": points}


@pytest.fixture
def verified(run, case):
    def build(caller, given: dict, served: Served = ALL, planner: str = "rules", **changes) -> Verified:
        return run(verify(case(caller=caller, served=served, **given, **changes), GateSettings(), planner=planner))

    return build


LEFT_OUT = {"counting": None, "temporal": None}
PLAIN = {"counting": "0 are found where the answer is 2: not all of them may be meant", "temporal": "there is no clip"}


def values(scored: Verified) -> dict[str, float | None]:
    return {verdict.name: verdict.value for verdict in scored.verdicts}


@pytest.mark.parametrize("answer", ["3", None])
def test_argos_eq9_below_the_gate_nothing_else_is_asked(verified, scripted, answer) -> None:
    caller = scripted()
    scored = verified(caller, said(answer))
    assert (values(scored), scored.score) == ({"outcome": 0.0}, 0.0)
    assert caller.asked == []


def supports(word: str) -> str:
    return json.dumps({"reason": "", "supports": word})


@pytest.mark.parametrize(
    ("word", "reasoning", "score"), [("yes", 1.0, 2 / 3), ("no", 0.0, 1 / 3), ("cannot_judge", None, 0.5)]
)
def test_argos_eq9_gated_over_all_scorers(verified, scripted, word, reasoning, score) -> None:
    """Outcome 1 and spatial 0, the label being not detected."""
    scored = verified(scripted(detector=['{"boxes": []}'], judge=[supports(word)]), said("2"))
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
def test_a_scorer_without_endpoint_is_unscored_and_says_so(verified, scripted, roles, unscored) -> None:
    scored = verified(
        scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), said("2"), Served(frozenset(roles))
    )
    assert {v.name: v.reason for v in scored.verdicts if v.value is None} == unscored


def test_without_any_scorer_the_outcome_is_the_score(verified, scripted) -> None:
    assert verified(scripted(), said("2"), Served()).score == 1.0


def test_a_verdict_says_why_its_scorer_ran(verified, scripted) -> None:
    scored = verified(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), said("2"))
    chosen = {
        v.name: json.loads(v.evidence[-1])["chosen"] for v in scored.verdicts if v.value is not None and v.evidence
    }
    assert chosen == {
        "spatial": "the response points, or should",
        "reasoning": "the response reasons before it answers",
    }


def test_the_planner_leaves_scorers_out(verified, scripted) -> None:
    plan = json.dumps({"scorers": [{"name": "reasoning", "reason": "a count"}]})
    scored = verified(scripted(judge=[plan, supports("no")]), said("2"), planner="judge")
    assert values(scored) == LEFT_OUT | {"outcome": 1.0, "spatial": None, "reasoning": 0.0}
    assert {v.reason for v in scored.verdicts if v.name in ("spatial", "counting")} == {"left out by the planner"}


def test_without_a_judge_nobody_plans(verified, scripted) -> None:
    caller = scripted(detector=['{"boxes": []}'])
    verified(caller, said("2"), Served(ALL.roles - {"judge"}), planner="judge")
    assert [role for role, _, _ in caller.asked] == ["detector"]


@pytest.mark.parametrize(("pointed", "spatial"), [(PLACES, 0.0), ((), None)])
def test_no_points_counts_only_where_the_pointer_found_some(verified, scripted, pointed, spatial) -> None:
    scored = verified(scripted(judge=[supports("yes")]), said("2", ()), pointable=bool(pointed))
    assert values(scored)["spatial"] == spatial


def test_an_unscored_outcome_has_no_score(run, scripted, case) -> None:
    asked = {"gold": "riding a horse", "answer_type": "text"}
    given = said("he sits on the back of a galloping brown animal")
    scored = run(verify(case(caller=scripted(judge=["no idea"]), served=ALL, **given, **asked), GateSettings()))
    assert (values(scored), scored.score) == ({"outcome": None}, None)


CLIP_SAID = (
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
    run, scripted, case, question, roles, detector, shown, temporal
) -> None:
    """The mean of the mean over its points and the mean over its spans; without a detector the spans alone."""
    judge = [json.dumps(EXTRACTED), json.dumps({"reason": "", "shown": shown}), supports("yes")]
    mask = json.dumps({"masks": [encode_mask(10, 10, np.ones((10, 10), bool))]})
    caller = scripted(judge=judge, detector=[detector], segmenter=[mask])
    points = (Point("dog", 15.0, 15.0, frame=2, t_s=1.0),)
    served = Served(frozenset(roles))
    given = case(CLIP_SAID, caller, served, answer="2", points=points, media=clip_question(question).media)
    scored = run(verify(given, GateSettings()))
    found = values(scored)
    assert (found["spatial"], found["temporal"], found["reasoning"]) == (None, temporal, 1.0)
    if detector is not None:
        assert [prompt.media[0].uri for role, prompt, _ in caller.asked if role == "detector"] == ["run:f2.jpg"]


def test_a_clip_whose_statements_cannot_be_read_is_unscored(run, scripted, case, question) -> None:
    caller = scripted(judge=["nothing of the kind", supports("yes")])
    scored = run(verify(case(CLIP_SAID, caller, ALL, media=clip_question(question).media), GateSettings()))
    (temporal,) = (verdict for verdict in scored.verdicts if verdict.name == "temporal")
    assert temporal.value is None
    assert temporal.reason.startswith("extraction: ")


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
def test_argos_eq9_on_a_drawn_scene(with_models, case, answer, points, expected, score) -> None:
    def work(models):
        return verify(case(caller=models, served=ALL, pointable=True, **said(answer, points)), GateSettings())

    scored = with_models(work)
    found = {name: value for name, value in values(scored).items() if name != "temporal"}
    assert found == pytest.approx(expected)
    assert scored.score == pytest.approx(score)


async def _says_colours(case: Case) -> Verdict:
    return Verdict("colours", 0.25, f"{case.outcome.value:g}" if case.outcome else "")


OWN = Scorer(
    "colours",
    "colours are named",
    _says_colours,
    needs=((lambda case: "yellow" in case.text, "no colour is named"),),
    asks=(Asks("second_judge", ()),),
)


@pytest.mark.parametrize(
    ("roles", "points", "value", "reason"),
    [
        ({"second_judge"}, PLACES, 0.25, "1"),
        ({"second_judge"}, (), None, "no colour is named"),
        (set(), PLACES, None, "no second_judge is configured"),
    ],
)
def test_a_scorer_of_ones_own_runs_where_it_is_passed(run, case, roles, points, value, reason) -> None:
    """It stands where it is put, knows the outcome, and has no part in the score without a weight."""
    given = case(served=Served(frozenset(roles)), **said("2", points))
    scored = run(verify(given, GateSettings(), (OWN, SCORERS[0])))
    assert [verdict.name for verdict in scored.verdicts] == ["colours", "outcome"]
    own = scored.verdicts[0]
    assert (own.value, own.reason, scored.score) == (value, reason, 1.0)
