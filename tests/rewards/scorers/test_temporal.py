"""The temporal reward (Argos §3.1 and App. D): the mean of the means of points, frames and segments."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.inference.errors import BudgetUsedUp, CallError, Failure
from groundtrace.rewards.extraction import FrameStatement, SegmentStatement, Statements
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorers.temporal import (
    CATEGORIES,
    MAX_DESCRIPTION_CHARS,
    MAX_OF_A_CATEGORY,
    SCORER,
    ClipFrame,
    score_temporal,
)
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.ordering import thinned
from groundtrace.schemas.records import FrameRef

CLIP = tuple(ClipFrame(n, float(n - 1), MediaPart(f"run:media/f{n}.jpg", str(n) * 64)) for n in range(1, 9))
YES, NO, NEITHER = (json.dumps({"reason": "seen", "shown": word}) for word in ("yes", "no", "cannot_judge"))
OFF = -0.1 / 2
"""What one wrong point alone earns."""
TIMEOUT = CallError(Failure.TIMEOUT, "no reply in time")


def on(*labels: str):
    """A detector's word: True for points of these labels."""

    async def spatial(point: Point) -> bool:
        return point.label in labels

    return spatial


def frame(number: int | None = 1, t_s: float | None = None, description: str = "he sits") -> FrameStatement:
    return FrameStatement(number, t_s, description)


def segment(first: int | None = 1, last: int | None = 3, start_s=None, end_s=None) -> SegmentStatement:
    return SegmentStatement(first, last, start_s, end_s, "he stands up")


def point(label: str = "cup", number: int | None = 1, t_s: float | None = None) -> Point:
    return Point(label, 5, 6, 0, number, t_s)


def items(verdict) -> list[dict]:
    return [json.loads(item) for item in verdict.evidence]


@pytest.mark.parametrize(
    ("statements", "replies", "value"),
    [
        (Statements(frames=(frame(),)), [YES], 1.0),
        (Statements(frames=(frame(1), frame(2))), [YES, NO], 0.5),
        (Statements(segments=(segment(), segment(2, 4), segment(5, 6))), [YES, NO, NO], 1 / 3),
        (Statements((point("cup"), point("dog"))), [], 0.5),
        # (1/2 + 1/1 + 0/2) / 3
        (
            Statements((point("cup"), point("dog")), (frame(),), (segment(), segment(2, 4))),
            [YES, NO, NO],
            0.5,
        ),
        # (1/1 + 1/4) / 2: the sets weigh the same, not their items
        (
            Statements((), (frame(),), (segment(1, 2), segment(2, 3), segment(3, 4), segment(4, 5))),
            [YES, YES, NO, NO, NO],
            0.625,
        ),
    ],
)
def test_argos_s3_1_mean_of_the_means_of_the_sets(run, scripted, statements, replies, value) -> None:
    verdict = run(score_temporal(statements, CLIP, scripted(judge=replies), on("cup")))
    assert (verdict.name, verdict.value) == ("temporal", pytest.approx(value))


def test_argos_fig11_the_judge_of_a_frame_sees_that_frame_only(run, scripted) -> None:
    caller = scripted(judge=[YES])
    verdict = run(score_temporal(Statements(frames=(frame(3, 2.0),)), CLIP, caller))
    ((role, prompt, _),) = caller.asked
    assert (role, prompt.name, prompt.media) == ("judge", "judge_frame.v2", (CLIP[2].part,))
    assert items(verdict) == [
        {
            "category": "frames",
            "item": "'he sits'",
            "value": 1.0,
            "frames": [3],
            "reason": "judge: seen",
            "failed": False,
        }
    ]


def test_argos_eq4_the_judge_of_a_span_sees_its_frames_in_order(run, scripted) -> None:
    caller = scripted(judge=[YES])
    verdict = run(score_temporal(Statements(segments=(segment(None, None, 2.0, 4.0),)), CLIP, caller))
    ((role, prompt, _),) = caller.asked
    assert (role, prompt.name, prompt.media) == ("judge", "judge_segment.v2", tuple(f.part for f in CLIP[2:5]))
    assert prompt.user[:3] == (TextPart("Frame 3 (2.00 s):"), CLIP[2].part, TextPart("Frame 4 (3.00 s):"))
    assert items(verdict)[0]["frames"] == [3, 4, 5]


def test_argos_eq4_a_span_between_two_frames_takes_the_nearest(run, scripted) -> None:
    caller = scripted(judge=[YES])
    run(score_temporal(Statements(segments=(segment(None, None, 2.2, 2.4),)), CLIP, caller))
    assert caller.asked[0][1].media == (CLIP[2].part,)


def test_argos_eq2_a_point_is_asked_for_in_its_frame(run, scripted) -> None:
    asked: list[Point] = []

    async def spatial(one: Point) -> bool:
        asked.append(one)
        return True

    run(score_temporal(Statements((point("cup", None, 3.1),)), CLIP, scripted(), spatial))
    assert asked == [Point("cup", 5, 6, 0, 4, 3.0)]


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (Statements(frames=(frame(9),)), "the clip has no frame 9"),
        (Statements(frames=(frame(None, 60.0),)), "60 s is outside of the clip"),
        (Statements(frames=(frame(3, 6.0),)), "frame 3 is at 2 s, not at 6 s"),
        (Statements(segments=(segment(3, 1),)), "it ends before it starts"),
        (Statements(segments=(segment(None, None, 1.0, 90.0),)), "90 s is outside of the clip"),
        (Statements((point("cup", 12),)), "the clip has no frame 12"),
    ],
)
def test_a_moment_that_the_clip_does_not_have_scores_0_and_asks_nobody(run, scripted, statements, said) -> None:
    verdict = run(score_temporal(statements, CLIP, scripted(), on("cup")))
    assert verdict.value == (OFF if statements.points else 0.0)
    assert said in verdict.reason


@pytest.mark.parametrize("failure", [TIMEOUT, "yes", "{}", '{"shown": true}', '{"shown": "maybe"}', NEITHER])
def test_an_item_that_the_judge_fails_on_fails_the_verdict(run, scripted, failure) -> None:
    one = run(score_temporal(Statements(frames=(frame(1),)), CLIP, scripted(judge=[failure])))
    assert (one.value, one.failed) == (None, True)
    several = Statements(frames=(frame(1), frame(2)), segments=(segment(),))
    verdict = run(score_temporal(several, CLIP, scripted(judge=[failure, YES, NO])))
    assert (verdict.value, verdict.failed) == (None, True)
    assert "1 unscored" in verdict.reason
    assert [item["value"] for item in items(verdict)] == [None, 1.0, 0.0]


def test_a_point_without_a_vote_leaves_the_mean(run, scripted) -> None:
    async def spatial(one: Point) -> bool | None:
        return None if one.x == 5 else False

    statements = Statements((point(), replace(point(), x=7.0)), (frame(),))
    verdict = run(score_temporal(statements, CLIP, scripted(judge=[YES]), spatial))
    assert (verdict.value, verdict.failed) == (OFF, False)
    assert [item["value"] for item in items(verdict)] == [None, 0.0, 1.0]


def test_a_point_that_the_detector_fails_on_fails_the_verdict(run, scripted) -> None:
    async def spatial(one: Point) -> bool | None:
        raise TIMEOUT

    for statements in (Statements((point(),), (frame(),)), Statements((point(),))):
        verdict = run(score_temporal(statements, CLIP, scripted(judge=[NO]), spatial))
        assert (verdict.value, verdict.failed) == (None, True)
        assert "1 unscored, as 'cup' at (5, 6): " in verdict.reason


def test_points_that_nobody_can_look_for_fail_the_verdict(run, scripted) -> None:
    verdict = run(score_temporal(Statements((point(),), (frame(),)), CLIP, scripted(judge=[YES])))
    assert (verdict.value, verdict.failed) == (None, True)
    assert "no endpoint is configured that finds objects" in verdict.reason


@pytest.mark.parametrize(
    ("labels", "shown", "value"),
    [
        # half of the points: (1/2 + 1 + 1) / 3 is more than their own mean
        (("cup", "dog"), YES, 0.5),
        (("dog", "dog"), YES, -0.1 * 2 / 3),
        # all of them: (1 + 0 + 0) / 3
        (("cup", "cup"), NO, 1 / 3),
        ((), YES, 1.0),
    ],
)
def test_no_judges_word_makes_up_for_points_off_their_objects(run, scripted, labels, shown, value) -> None:
    statements = Statements(tuple(point(label, n) for n, label in enumerate(labels, 1)), (frame(),), (segment(),))
    verdict = run(score_temporal(statements, CLIP, scripted(judge=[shown, shown]), on("cup")))
    assert verdict.value == pytest.approx(value)


def test_points_without_a_moment_score_0(run, scripted) -> None:
    verdict = run(score_temporal(Statements((point("cup", None, None),)), CLIP, scripted(), on("cup")))
    assert (verdict.value, items(verdict)[0]["value"]) == (OFF, 0.0)
    assert "no frame or time is stated for it" in verdict.reason


def test_a_point_without_a_moment_bounds_what_the_others_earn(run, scripted) -> None:
    statements = Statements((point("cup"), point("cup", None, None)), (frame(),))
    assert run(score_temporal(statements, CLIP, scripted(judge=[YES]), on("cup"))).value == 0.5


def test_a_response_that_states_nothing_scores_0(run, scripted) -> None:
    verdict = run(score_temporal(Statements(dropped=("a: not there",)), CLIP, scripted()))
    assert (verdict.value, verdict.failed) == (0.0, False)
    assert verdict.reason == "nothing to judge; 1 not borne out by the response"


def test_a_clip_without_frames_fails_the_verdict(run, scripted) -> None:
    verdict = run(score_temporal(Statements(frames=(frame(),)), (), scripted()))
    assert (verdict.value, verdict.failed) == (None, True)
    assert verdict.reason == "the clip has no frames to look at"


def test_what_was_dropped_is_said(run, scripted) -> None:
    statements = Statements(frames=(frame(),), dropped=("a: not there",))
    assert "1 not borne out" in run(score_temporal(statements, CLIP, scripted(judge=[YES]))).reason


@pytest.mark.parametrize("category", CATEGORIES)
def test_more_statements_than_are_checked_score_0_and_ask_nobody(run, scripted, category) -> None:
    def stated(count: int) -> Statements:
        made = {"points": point("cup"), "frames": frame(), "segments": segment()}[category]
        return Statements(**{category: (made,) * count})

    caller = scripted(judge=[YES] * MAX_OF_A_CATEGORY)
    verdict = run(score_temporal(stated(MAX_OF_A_CATEGORY + 3), CLIP, caller, on("cup")))
    assert (verdict.value, verdict.failed) == (0.0, False)
    assert verdict.reason == f"3 statements more than the {MAX_OF_A_CATEGORY} of a category that are checked"
    assert caller.asked == []
    assert run(score_temporal(stated(MAX_OF_A_CATEGORY), CLIP, caller, on("cup"))).value == 1.0


def test_a_used_up_budget_is_no_score(run, scripted) -> None:
    caller = scripted(judge=[YES, BudgetUsedUp()])
    with pytest.raises(BudgetUsedUp):
        run(score_temporal(Statements(frames=(frame(1), frame(2))), CLIP, caller))


def test_the_judge_sees_labels_and_no_coordinates(run, scripted) -> None:
    said = 'a <points x1="5" y1="6" alt="cup">red cup</points> and <box>[1,2,3,4]</box>'
    caller = scripted(judge=[YES])
    run(score_temporal(Statements(frames=(frame(1, None, said),)), CLIP, caller))
    assert caller.asked[0][1].variable("description") == "a red cup and <box>[1,2,3,4]</box>"


def test_the_judge_sees_no_endless_description(run, scripted) -> None:
    caller = scripted(judge=[YES])
    run(score_temporal(Statements(frames=(frame(1, None, "x " * 50_000),)), CLIP, caller))
    assert len(caller.asked[0][1].variable("description")) < MAX_DESCRIPTION_CHARS + 50


@given(st.lists(st.integers(), unique=True, max_size=80).map(sorted), st.integers(2, 32))
def test_thinned_keeps_order_and_both_ends(indices: list[int], most: int) -> None:
    kept = thinned(indices, most)
    assert len(kept) == min(len(indices), most)
    assert list(kept) == sorted(set(kept))
    assert set(kept) <= set(indices)
    assert (kept[:1], kept[-1:]) == (tuple(indices[:1]), tuple(indices[-1:]))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=12))
def test_the_value_is_in_0_1_and_never_rises_with_a_wrong_statement(run, scripted, rows) -> None:
    def score(statements: tuple[FrameStatement, ...]) -> float | None:
        shown = [YES if right else NO for (number, right) in rows if 1 <= number <= len(CLIP)]
        return run(score_temporal(Statements(frames=statements), CLIP, scripted(judge=shown))).value

    statements = tuple(frame(number, None, f"{place}") for place, (number, _) in enumerate(rows))
    value = score(statements)
    assert value is not None
    assert 0 <= value <= 1
    worse = score((*statements, frame(99, None, "invented")))
    assert worse is not None
    assert worse <= value


@pytest.mark.parametrize(
    ("points", "value"),
    [((), 0.0), ((point(),), 1.0), ((point(), point("dog")), 0.5), ((point("dog"),), OFF), ((point("table"),), 0.0)],
)
def test_where_there_are_targets_no_statement_makes_up_for_not_pointing_at_them(run, scripted, points, value) -> None:
    async def spatial(one: Point) -> bool | None:
        return None if one.label == "table" else one.label == "cup"

    caller = scripted(judge=[YES])
    verdict = run(score_temporal(Statements(points, (frame(),)), CLIP, caller, spatial, has_targets=True))
    assert verdict.value == pytest.approx(value)


def test_a_detector_that_fails_on_an_image_beside_the_clip_fails_the_verdict(run, case, scripted, question) -> None:
    """A count looks for what is counted in the images; of the clip itself nobody asks."""
    still = question().media[0]
    frames = tuple(FrameRef(n, float(n - 1), f"run:f{n}.jpg", str(n) * 64, 9) for n in (1, 2))
    clip = replace(still, uri="input:clip.mp4", kind="video", frames=frames)
    statements = json.dumps({"frames": [], "segments": [], "points": []})
    asked = case(
        "<think>At 1 s there are two.</think><answer>2</answer>",
        scripted(judge=[statements] * 3, detector=[TIMEOUT] * 3),
        ServedRoles(frozenset({"judge", "detector"})),
        media=(clip, still),
    )
    verdict = run(SCORER.score(asked))
    assert (verdict.value, verdict.failed) == (None, True)
    assert "no reply in time" in verdict.reason
