"""The verifier: which scorers run for a response, what it says of the others, and the score of what none failed on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.grounding import encode_mask
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.case import Case
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.rewards.scorers import spatial
from groundtrace.rewards.verifier import VerifiedResponse, verify
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import FrameRef, Verdict

ALL = ServedRoles(frozenset({"judge", "detector", "segmenter"}))
PLACES = (Point("yellow square", 45.0, 35.0), Point("yellow square", 215.0, 65.0))


def said(answer: str | None, points: tuple[Point, ...] = PLACES) -> dict[str, object]:
    """A response that points and answers, as the fields of its case."""
    tags = " ".join(f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points>' for p in points)
    text = f"<think>I see {tags}.</think><answer>{answer}</answer>"
    return {"text": text, "answer": answer, "points": points}


@pytest.fixture
def verified(run, case):
    def build(caller, given: dict, served: ServedRoles = ALL, planner: str = "rules", **changes) -> VerifiedResponse:
        return run(verify(case(caller=caller, served=served, **given, **changes), GateSettings(), planner=planner))

    return build


WRONG = -0.1 * 2 / 3
"""What two wrong points alone earn."""
LEFT_OUT = {"format": 1.0, "counting": None, "temporal": None}
UNPAIRED = "0 are found where the answer is 2: not all of them may be meant"
PLAIN = {"counting": UNPAIRED, "temporal": "there is no clip"}
NO_EYES = "no endpoint is configured that finds objects"


def values(scored: VerifiedResponse) -> dict[str, float | None]:
    return {verdict.name: verdict.value for verdict in scored.verdicts}


def failed(scored: VerifiedResponse) -> set[str]:
    return {verdict.name for verdict in scored.verdicts if verdict.failed}


@pytest.mark.parametrize("answer", ["3", None])
def test_argos_eq9_below_the_gate_nothing_else_is_asked(verified, scripted, answer) -> None:
    caller = scripted()
    scored = verified(caller, said(answer))
    assert (values(scored), scored.score) == ({"outcome": 0.0}, 0.0)
    assert caller.asked == []


def supports(word: str) -> str:
    return json.dumps({"reason": "", "supports": word})


@pytest.mark.parametrize(
    ("word", "reasoning", "score"),
    [("yes", 1.0, (1 + WRONG + 1) / 3), ("no", 0.0, (1 + WRONG) / 3), ("cannot_judge", None, None)],
)
def test_argos_eq9_gated_over_all_scorers(verified, scripted, word, reasoning, score) -> None:
    """Both points are wrong, the label being not detected."""
    scored = verified(scripted(detector=['{"boxes": []}'], judge=[supports(word)]), said("2"))
    found = {"outcome": 1.0, "spatial": pytest.approx(WRONG), "reasoning": reasoning}
    assert values(scored) == LEFT_OUT | found
    assert scored.score == (None if score is None else pytest.approx(score))
    assert failed(scored) == ({"reasoning"} if score is None else set())


MALFORMED = {
    "a second answer": "<answer>3</answer><think>I see {tags}.</think><answer>2</answer>",
    "a box": "<think>I see {tags} and <box>[1,2,3,4]</box>.</think><answer>2</answer>",
    "another conclusion": "<think>I see {tags}. So there are 3.</think><answer>2</answer>",
    "no reasoning": "<think></think><answer>2</answer>",
    "points in the answer": "<think>I see them.</think><answer>2 {tags}</answer>",
    "a tag that cannot be read": "<think>I see {tags} <points x1=1>it</points>.</think><answer>2</answer>",
    "coordinates in prose": "<think>I see {tags} at (45, 35).</think><answer>2</answer>",
}


@pytest.mark.parametrize("template", MALFORMED.values(), ids=MALFORMED)
def test_where_the_form_is_wrong_the_score_is_0_and_nobody_is_asked(verified, scripted, template) -> None:
    caller, given = scripted(), said("2")
    tags = str(given["text"]).removeprefix("<think>I see ").partition(".</think>")[0]
    scored = verified(caller, given | {"text": template.format(tags=tags)})
    assert (values(scored), scored.score) == ({"outcome": 1.0, "format": 0.0}, 0.0)
    assert caller.asked == []


@pytest.mark.parametrize(
    ("roles", "unscored", "lacking"),
    [
        (
            {"detector", "segmenter"},
            PLAIN | {"reasoning": "no judge is configured"},
            {"reasoning"},
        ),
        ({"judge"}, PLAIN | dict.fromkeys(("spatial", "counting"), NO_EYES), {"spatial", "counting"}),
        ({"judge", "segmenter"}, PLAIN | dict.fromkeys(("spatial", "counting"), NO_EYES), {"spatial", "counting"}),
    ],
)
def test_a_scorer_without_endpoint_fails_and_says_so(verified, scripted, roles, unscored, lacking) -> None:
    scored = verified(
        scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), said("2"), ServedRoles(frozenset(roles))
    )
    assert {v.name: v.reason for v in scored.verdicts if v.value is None} == unscored
    assert (failed(scored), scored.score) == (lacking, None)


def test_without_any_endpoint_there_is_no_score(verified, scripted) -> None:
    scored = verified(scripted(), said("2"), ServedRoles())
    assert (failed(scored), scored.score) == ({"spatial", "counting", "reasoning"}, None)
    assert verified(scripted(), said("3"), ServedRoles()).score == 0.0


@pytest.mark.parametrize(
    ("skip", "score"),
    [
        (("spatial", "counting", "reasoning"), 1.0),
        (("reasoning",), None),
        (("spatial", "counting"), None),
        (("spatial", "reasoning"), None),
    ],
)
def test_a_scorer_that_the_config_leaves_out_does_not_apply(run, scripted, case, skip, score) -> None:
    scored = run(verify(case(caller=scripted(), **said("2")), GateSettings(skip=skip)))
    assert {v.name for v in scored.verdicts if v.reason == "left out by the config"} == {*skip}
    assert not failed(scored) & {*skip}
    assert scored.score == score


def test_the_gate_too_can_be_left_out(run, scripted, case) -> None:
    given = said("2") | {"text": MALFORMED["no reasoning"]}
    skip = ("format", "spatial", "counting", "reasoning")
    assert run(verify(case(caller=scripted(), **given), GateSettings(skip=skip))).score == 1.0


def test_a_verdict_says_why_its_scorer_ran(verified, scripted) -> None:
    scored = verified(scripted(detector=['{"boxes": []}'], judge=[supports("yes")]), said("2"))
    chosen = {
        v.name: json.loads(v.evidence[-1])["chosen"] for v in scored.verdicts if v.value is not None and v.evidence
    }
    assert chosen == {
        "format": "every response has a form",
        "spatial": "the response points, or should",
        "reasoning": "the response reasons before it answers",
    }


def test_the_planner_leaves_out_no_scorer_that_looks_at_the_media(verified, scripted) -> None:
    """It reads the response, which may plead to be left alone."""
    plan = json.dumps({"scorers": []})
    caller = scripted(judge=[plan], detector=['{"boxes": []}'])
    scored = verified(caller, said("2"), planner="judge")
    assert values(scored) == LEFT_OUT | {"outcome": 1.0, "spatial": pytest.approx(WRONG), "reasoning": None}
    assert {v.name for v in scored.verdicts if v.reason == "left out by the planner"} == {"reasoning"}
    assert (failed(scored), scored.score) == (set(), pytest.approx((1 + WRONG) / 2))


def test_without_a_judge_nobody_plans(verified, scripted) -> None:
    caller = scripted(detector=['{"boxes": []}'])
    verified(caller, said("2"), ServedRoles(ALL.roles - {"judge"}), planner="judge")
    assert [role for role, _, _ in caller.asked] == ["detector"]


@pytest.mark.parametrize(
    ("entities", "pointable", "spatial", "counting", "score"),
    [
        (("yellow square",), ("yellow square",), 0.0, 0.0, 2 / 3),
        (("yellow square", "table"), ("table",), 0.0, None, 2 / 3),
        (("yellow square",), (), None, None, 1.0),
        ((), (), None, None, 1.0),
    ],
)
def test_no_points_are_0_where_the_pointer_found_some_and_else_no_fault(
    verified, scripted, entities, pointable, spatial, counting, score
) -> None:
    known = {"entities": entities, "pointable": pointable}
    given = said("2") | {"text": "<think>I look. So there are 2.</think><answer>2</answer>", "points": ()}
    caller = scripted(judge=[supports("yes")], detector=['{"boxes": []}'])
    scored = verified(caller, given, **known)
    assert (values(scored)["spatial"], values(scored)["counting"]) == (spatial, counting)
    assert (failed(scored), scored.score) == (set(), pytest.approx(score))


def test_an_unscored_outcome_has_no_score(run, scripted, case) -> None:
    asked = {"gold": "riding a horse", "answer_type": "text"}
    given = said("he sits on the back of a galloping brown animal")
    scored = run(verify(case(caller=scripted(judge=["no idea"]), served=ALL, **given, **asked), GateSettings()))
    assert (values(scored), failed(scored), scored.score) == ({"outcome": None}, {"outcome"}, None)


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
        (ALL.roles, '{"boxes": []}', "yes", -0.1 / 2),
        (ALL.roles, '{"boxes": [[10, 10, 20, 20]]}', "yes", 1.0),
        (ALL.roles, "I see a dog", "no", None),
        (ALL.roles, "I see a dog", "yes", None),
        ({"judge"}, None, "yes", None),
        ({"judge"}, None, "no", None),
    ],
)
def test_argos_eq4_a_clip_is_scored_by_its_times(
    run, scripted, case, question, roles, detector, shown, temporal
) -> None:
    """The mean of the mean over its points and the mean over its spans, at most that over its points.

    Without a detector that can be read it fails, whatever the judge says of the spans.
    """
    judge = [json.dumps(EXTRACTED), json.dumps({"reason": "", "shown": shown}), supports("yes")]
    mask = json.dumps({"masks": [encode_mask(10, 10, np.ones((10, 10), bool))]})
    caller = scripted(judge=judge, detector=[detector], segmenter=[mask])
    points = (Point("dog", 15.0, 15.0, frame=2, t_s=1.0),)
    served = ServedRoles(frozenset(roles))
    spoken_of = {"entities": ("dog",), "pointable": ("dog",), "media": clip_question(question).media}
    given = case(CLIP_SAID, caller, served, answer="2", points=points, **spoken_of)
    scored = run(verify(given, GateSettings()))
    found = values(scored)
    assert (found["spatial"], found["temporal"], found["reasoning"]) == (None, temporal, 1.0)
    assert failed(scored) == ({"temporal"} if temporal is None else set())
    assert (scored.score is None) is (temporal is None)
    if detector is not None:
        assert [prompt.media[0].uri for role, prompt, _ in caller.asked if role == "detector"] == ["run:f2.jpg"]


def test_a_clip_whose_statements_cannot_be_read_fails(run, scripted, case, question) -> None:
    caller = scripted(judge=["nothing of the kind", supports("yes")])
    scored = run(verify(case(CLIP_SAID, caller, ALL, media=clip_question(question).media), GateSettings()))
    (temporal,) = (verdict for verdict in scored.verdicts if verdict.name == "temporal")
    assert (temporal.value, temporal.failed, scored.score) == (None, True, None)
    assert temporal.reason.startswith("extraction: ")


DOG = Point("dog", 15.0, 15.0)


@pytest.mark.parametrize(
    ("changes", "temporal"),
    [
        # nothing is said of a time: 0 where there is something to point at, or a point
        ({"points": (DOG,)}, 0.0),
        ({"pointable": ("dog",)}, 0.0),
        ({}, None),
    ],
)
def test_a_response_on_a_clip_that_names_no_time(run, scripted, case, question, changes, temporal) -> None:
    tag = '<points x1="15" y1="15" alt="dog">dog</points>' if changes.get("points") else "dog"
    given = case(
        f"<think>The {tag} barks.</think><answer>2</answer>",
        scripted(judge=[supports("yes")]),
        ALL,
        media=clip_question(question).media,
        **changes,
    )
    scored = run(verify(given, GateSettings()))
    assert (values(scored)["temporal"], failed(scored)) == (temporal, set())
    assert scored.score == pytest.approx(2 / 3 if temporal == 0.0 else 1.0)


def test_a_point_of_a_clip_without_its_time_is_0(run, scripted, case, question) -> None:
    """Another sentence names a time, so that the clip is looked at."""
    text = '<think>At 1.00 s it is dark.\n\nA <points x1="15" y1="15" alt="dog">dog</points>.</think><answer>2</answer>'
    said_so = {"points": [], "frames": [], "segments": []}
    caller = scripted(judge=[json.dumps(said_so), supports("yes")])
    given = case(text, caller, ALL, points=(DOG,), media=clip_question(question).media)
    scored = run(verify(given, GateSettings()))
    assert (values(scored)["temporal"], failed(scored)) == (-0.1 / 2, set())


def test_times_in_one_of_several_clips_cannot_be_checked(run, scripted, case, question) -> None:
    caller = scripted(judge=[supports("yes")])
    given = case(CLIP_SAID, caller, ALL, media=clip_question(question).media * 2)
    scored = run(verify(given, GateSettings()))
    assert (failed(scored), scored.score) == ({"temporal"}, None)


@pytest.mark.parametrize(
    ("answer", "points", "expected", "score"),
    [
        ("2", PLACES, {"outcome": 1.0, "spatial": 1.0, "counting": 1.0, "reasoning": 1.0}, 1.0),
        (
            "2",
            (PLACES[0], Point("yellow square", 335.0, 25.0)),
            {"outcome": 1.0, "spatial": 0.375, "counting": 1 / 3, "reasoning": 1.0},
            (1 + 0.375 + 1) / 3,
        ),
        (
            "2",
            (PLACES[0], Point("yellow square", 46.0, 35.0)),
            {"outcome": 1.0, "spatial": 0.75, "counting": 1 / 3, "reasoning": 1.0},
            (1 + 0.75 + 1) / 3,
        ),
        ("2", (*PLACES, PLACES[0]), {"outcome": 1.0, "spatial": 1.0, "counting": 1.0, "reasoning": 1.0}, 1.0),
        (
            "2",
            (*PLACES, Point("gizmo", 300.0, 80.0)),
            {"outcome": 1.0, "spatial": 2 / 3, "counting": 1.0, "reasoning": 1.0},
            8 / 9,
        ),
        ("2", PLACES[:1], {"outcome": 1.0, "spatial": 0.75, "counting": 0.5, "reasoning": 1.0}, 2.75 / 3),
        ("3", PLACES, {"outcome": 0.0}, 0.0),
    ],
)
def test_argos_eq9_on_a_drawn_scene(with_models, case, answer, points, expected, score) -> None:
    def work(models):
        known = {"entities": ("yellow square",), "pointable": ("yellow square",)}
        return verify(case(caller=models, served=ALL, **known, **said(answer, points)), GateSettings())

    scored = with_models(work)
    assert failed(scored) == set()
    found = {name: value for name, value in values(scored).items() if name not in ("temporal", "format")}
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
    ("roles", "points", "value", "reason", "score"),
    [
        ({"second_judge"}, PLACES, 0.25, "1", 1.0),
        ({"second_judge"}, (), None, "no colour is named", 1.0),
        (set(), (), None, "no colour is named", 1.0),
        (set(), PLACES, None, "no second_judge is configured", None),
    ],
)
def test_a_scorer_of_ones_own_runs_where_it_is_passed(run, case, roles, points, value, reason, score) -> None:
    """It stands where it is put, knows the outcome, and has no part in the score without a weight, unless it failed."""
    given = case(served=ServedRoles(frozenset(roles)), **said("2", points))
    scored = run(verify(given, GateSettings(), (OWN, TRACE_SCORERS[0])))
    assert [verdict.name for verdict in scored.verdicts] == ["colours", "outcome"]
    own = scored.verdicts[0]
    assert (own.value, own.reason, scored.score) == (value, reason, score)


GATE = replace(OWN, name="colours", asks=(), is_gate=True, needs=())


@pytest.mark.parametrize(
    ("found", "score", "others"), [(0.0, 0.0, set()), (0.25, (1 + WRONG + 1) / 3, {"spatial", "reasoning"})]
)
def test_a_gate_of_ones_own_at_0_ends_it(run, scripted, case, found, score, others) -> None:
    async def says(_: Case) -> Verdict:
        return Verdict("colours", found, "said")

    caller = scripted(detector=['{"boxes": []}'], judge=[supports("yes")])
    scorers = (*TRACE_SCORERS, replace(GATE, score=says))
    scored = run(verify(case(caller=caller, served=ALL, **said("2")), GateSettings(), scorers))
    assert scored.score == pytest.approx(score)
    assert {*values(scored)} & {"spatial", "reasoning"} == others


FAILING = {
    "the detector": {"detector": [CallError(Failure.TIMEOUT, "late")], "judge": [supports("yes")]},
    "the segmenter": {
        "detector": ['{"boxes": [[10, 10, 20, 20]]}'] * 3,
        "segmenter": [CallError(Failure.CONNECTION, "refused")] * 3,
        "judge": [supports("yes")],
    },
    "the judge": {"detector": ['{"boxes": []}'], "judge": [CallError(Failure.SERVER_ERROR, "500")]},
    "the judge's words": {"detector": ['{"boxes": []}'], "judge": ["I cannot say"]},
}


@pytest.mark.parametrize("replies", FAILING.values(), ids=FAILING)
def test_what_a_server_fails_at_has_no_score(verified, scripted, replies) -> None:
    again = {role: [*given, *given] for role, given in replies.items()}
    scored = verified(scripted(**again), said("2"))
    assert failed(scored)
    assert scored.score is None


STATES = st.tuples(st.floats(0, 1) | st.none(), st.booleans(), st.booleans())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(outcome=st.sampled_from([0.0, 1.0, None]), states=st.lists(STATES, max_size=4))
def test_a_case_with_a_verdict_that_failed_never_has_a_score_above_0(run, case, outcome, states) -> None:
    """Whatever the scorers say, gates among them."""

    def scorer(name: str, value: float | None, fails: bool, gate: bool) -> Scorer:
        async def says(_: Case) -> Verdict:
            return Verdict(name, value, "said", failed=fails and value is None)

        return Scorer(name, "always", says, is_gate=gate)

    own = [scorer(f"own{number}", *state) for number, state in enumerate(states)]
    grader = scorer("outcome", outcome, True, False)
    scored = run(verify(case(), GateSettings({"outcome": 1.0, "own0": 2.0}), (grader, *own)))
    if failed(scored):
        assert scored.score in (None, 0.0)
    else:
        assert scored.score is not None


ROLES = st.frozensets(st.sampled_from(["judge", "detector", "segmenter", "pointer"]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(roles=ROLES, known=st.booleans(), points=st.sampled_from([(), PLACES, PLACES[:1]]))
def test_a_role_that_is_missing_never_makes_a_response_pass(run, seeing, case, roles, known, points) -> None:
    """The score with fewer endpoints is none, or what it is with all of them."""
    names = ("yellow square",) if known else ()
    text = said("2", points)["text"] if points else "<think>I look.</think><answer>2</answer>"
    given = {"text": text, "points": points, "entities": names, "pointable": names}
    drawn = {"yellow square": [(30, 20, 60, 50), (200, 50, 230, 80)]}

    def score(served: ServedRoles) -> float | None:
        return run(verify(case(caller=seeing(drawn), served=served, **given), GateSettings())).score

    assert score(ServedRoles(roles)) in (None, score(ALL))


UNSERVED = st.sampled_from(["gizmo", "picture", "background", "?!", "objet", "圆圈", "x" * 500])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.lists(st.sampled_from([*PLACES, Point("yellow square", 300.0, 80.0)]), max_size=4),
    added=st.lists(st.builds(Point, UNSERVED, st.integers(0, 399), st.integers(0, 99)), min_size=1, max_size=3),
    known=st.booleans(),
)
def test_a_point_with_a_label_that_nothing_can_serve_never_raises_the_score(
    run, seeing, case, points, added, known
) -> None:
    names = ("yellow square",) if known else ()
    drawn = {"yellow square": [(30, 20, 60, 50), (200, 50, 230, 80)]}

    def score(*placed: Point) -> float:
        given = said("2", tuple(placed)) | {"entities": names, "pointable": names}
        scored = run(verify(case(caller=seeing(drawn), served=ALL, **given), GateSettings()))
        assert scored.score is not None
        return scored.score

    assert score(*points, *added) <= score(*points)


def test_with_the_embedded_judge_too_each_target_found_raises_the_score_and_a_wrong_point_lowers_it(
    with_models, case
) -> None:
    """Its word on the reasoning must not depend on how many places are pointed at."""
    known = {"entities": ("yellow square",), "pointable": ("yellow square",)}
    wrong = Point("yellow square", 120.0, 90.0)

    def scored(*points: Point) -> float:
        tags = "".join(f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points> ' for p in points)
        given = {"text": f"<think>I see {tags}. So there are 2.</think><answer>2</answer>", "points": points}
        found = with_models(lambda models: verify(case(caller=models, served=ALL, **known, **given), GateSettings()))
        assert found.score is not None
        return found.score

    ways = [(wrong,), (), (PLACES[0], wrong, replace(wrong, x=130.0)), (PLACES[0], wrong), PLACES[:1], PLACES]
    scores = [scored(*points) for points in ways]
    assert scores == sorted(set(scores)), scores


@pytest.mark.parametrize(("scorers", "got"), [((spatial.SCORER,), "spatial"), ((), "none")])
def test_one_of_the_scorers_grades_the_answer(run, scripted, case, scorers, got) -> None:
    with pytest.raises(
        UserError, match=f"the argument `scorers` lacks the scorer 'outcome'.*given: {got}.: add .*outcome.SCORER"
    ):
        run(verify(case(caller=scripted(), **said("2")), GateSettings(), scorers))
