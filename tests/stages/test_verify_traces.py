"""Verification: the best of a draft's traces, and why none is good enough."""

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build
from groundtrace.inference.request import Completion
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.case import Case
from groundtrace.rewards.pointing_score import PointingSettings
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Call, Draft, Rejected, Trace, Verdict
from groundtrace.schemas.usage import Usage
from groundtrace.stages.generate_traces import as_trace
from groundtrace.stages.verify_traces import STAGE, VerifySettings, VerifyTraces, best_trace, good_traces, why_rejected


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_scores_that_make_no_sense(score: float) -> None:
    with pytest.raises(ValueError, match=r"min_score must be (at least 0|at most 1|a finite number), got "):
        VerifySettings(min_score=score)
    with pytest.raises(ValueError, match=r"floors\.spatial must be (at least 0|at most 1|a finite number), got "):
        VerifySettings(floors={"spatial": score})
    with pytest.raises(ValueError, match=r"floors\.counting must be (at least 0|at most 1|a finite number), got "):
        VerifySettings(floors={"counting": score})


def test_a_planner_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="planner must be 'rules' or 'judge', got 'agent'"):
        VerifySettings(planner="agent")


NO_FLOORS = {"spatial": 0.0, "counting": 0.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"floors": {"spatail": 0.5}}, "verify.floors.spatail"),
        ({"gate": GateSettings({"outcome": 1.0, "temprl": 1.0})}, "verify.gate.weights.temprl"),
        ({"gate": GateSettings(skip=("temprl",))}, "verify.gate.skip.temprl"),
    ],
)
def test_a_scorer_that_does_not_exist(
    changes: dict[str, Any], said: str, models: Callable[..., ModelsSettings]
) -> None:
    with pytest.raises(ConfigError) as caught:
        VerifyTraces(VerifySettings(**changes), models())
    known = "outcome, format, spatial, counting, temporal, reasoning"
    assert str(caught.value) == f"{said}: the scorer is unknown: use one of {known}"


def test_scorers_need_names_and_a_grader(models: Callable[..., ModelsSettings]) -> None:
    grader = r"the scorer 'outcome', which grades the answer, is missing: add \S+outcome\.SCORER to the scorers "
    for scorers, said in (
        (TRACE_SCORERS[1:], rf"{grader}\(format, "),
        ((*TRACE_SCORERS, TRACE_SCORERS[2]), "two scorers have the name 'spatial'"),
        ((), rf"{grader}\(none\)"),
    ):
        with pytest.raises(ValueError, match=said):
            VerifyTraces(VerifySettings(), models(), scorers)


def test_former_names_have_successors() -> None:
    fields = {field.name for field in dataclasses.fields(VerifySettings)}
    assert not fields & set(VerifySettings.RENAMED)
    assert {name.partition(".")[0] for name in VerifySettings.RENAMED.values()} <= fields


def test_a_config_changes_single_floors() -> None:
    settings = build(VerifySettings, {"floors": {"counting": 0.5, "colours": 1}})
    assert settings.floors == {"format": 1.0, "spatial": 1.0, "counting": 0.5, "temporal": 0.7, "colours": 1.0}
    assert hash(settings) == hash(VerifySettings())
    assert pickle.loads(pickle.dumps(settings)) == settings


FAILED = "failed"


def judged(index: int, score: float | None, said: str = "", **values: float | str | None) -> Trace:
    """A trace with verdicts of these values, whose reason is ``said`` if it is given; None does not apply."""
    verdicts = tuple(
        Verdict(name, None if value == FAILED else value, said or f"{name} says so", failed=value == FAILED)  # type: ignore[arg-type]
        for name, value in values.items()
    )
    return Trace(index, "", None, (), (), verdicts, score)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([None], None),
        ([None, None], None),
        ([0.0], 0),
        ([None, 0.0], 1),
        ([0.5, 0.9, 0.7], 1),
        ([0.9, 0.9], 0),
        ([0.1, 0.9, None, 0.9], 1),
        ([None, 0.3, 0.3], 1),
    ],
)
def test_the_best_trace(scores: list[float | None], best: int | None) -> None:
    found = best_trace(tuple(judged(index, score) for index, score in enumerate(scores)))
    assert (None if found is None else found.index) == best


# A floor is named before the score: it says what is wrong, and the score only how much.
WHY = [
    ([judged(0, None, outcome=None)], "unverifiable", "no answer could be graded: outcome says so", "outcome"),
    ([judged(0, None, outcome=FAILED)], "unverifiable", "outcome could not be checked: outcome says so", "outcome"),
    (
        [judged(0, None, outcome=1.0, spatial=FAILED, reasoning=1.0)],
        "unverifiable",
        "spatial could not be checked: spatial says so",
        "spatial",
    ),
    (
        [judged(0, None, outcome=1.0, spatial=1.0, reasoning=FAILED), judged(1, 0.0, outcome=0.0)],
        "unverifiable",
        "reasoning could not be checked: reasoning says so",
        "reasoning",
    ),
    (
        # a wrong trace beside one whose answer nobody could grade
        [judged(0, None, outcome=FAILED), judged(1, 0.0, outcome=0.0)],
        "wrong_answer",
        "no trace of 2 is right: outcome says so",
        "outcome",
    ),
    (
        # what was checked is told before what was not
        [judged(0, None, outcome=1.0, spatial=FAILED), judged(1, 0.5, outcome=1.0, spatial=0.0)],
        "low_grounding",
        "best score 0.50, and spatial 0.00 is below verify.floors.spatial = 1: spatial says so",
        "spatial",
    ),
    (
        [judged(0, 0.0, outcome=1.0, format=0.0)],
        "malformed",
        "best score 0.00, and format 0.00 is below verify.floors.format = 1: format says so",
        "format",
    ),
    (
        # the most frequent fault is told, and how frequent it is
        [judged(0, 0.1, outcome=0.0), *(judged(each, 0.0, outcome=0.0, said="other side") for each in (1, 2))],
        "wrong_answer",
        "no trace of 3 is right: other side (2 of them)",
        "outcome",
    ),
    ([judged(0, 0.0, outcome=0.0)] * 2, "wrong_answer", "no trace of 2 is right: outcome says so", "outcome"),
    (
        [judged(0, 0.5, outcome=1.0, spatial=0.0, reasoning=0.5)],
        "low_grounding",
        "best score 0.50, and spatial 0.00 is below verify.floors.spatial = 1: spatial says so",
        "spatial",
    ),
    (
        [judged(0, 0.6, outcome=1.0, spatial=0.5, reasoning=0.3)],
        "low_grounding",
        "best score 0.60, and spatial 0.50 is below verify.floors.spatial = 1: spatial says so",
        "spatial",
    ),
    (
        [judged(0, 0.5, outcome=1.0, spatial=None, reasoning=0.0)],
        "low_reasoning",
        "best score 0.50 is below verify.min_score = 0.7: reasoning reasoning says so",
        "reasoning",
    ),
    (
        [judged(0, 0.67, outcome=1.0, spatial=1.0, counting=1.0, reasoning=0.0)],
        "low_reasoning",
        "best score 0.67 is below verify.min_score = 0.7: reasoning reasoning says so",
        "reasoning",
    ),
    (
        [judged(0, 0.9, outcome=1.0, spatial=0.7, reasoning=1.0)],
        "low_grounding",
        "best score 0.90, and spatial 0.70 is below verify.floors.spatial = 1: spatial says so",
        "spatial",
    ),
    (
        [judged(0, 1.0, outcome=1.0, spatial=1.0, counting=0.75)],
        "low_grounding",
        "best score 1.00, and counting 0.75 is below verify.floors.counting = 1: counting says so",
        "counting",
    ),
    (
        [judged(0, 0.67, outcome=1.0, spatial=1.0, counting=0.5, reasoning=0.0)],
        "low_grounding",
        "best score 0.67, and counting 0.50 is below verify.floors.counting = 1: counting says so",
        "counting",
    ),
]


@pytest.mark.parametrize(
    ("settings", "good"),
    [
        (VerifySettings(), [0, 4]),
        (VerifySettings(floors={"spatial": 0.5}), [0, 1, 4]),
        (VerifySettings(floors={"counting": 0.5}), [0, 2, 4]),
        (VerifySettings(floors=NO_FLOORS), [0, 1, 2, 4]),
        (VerifySettings(floors=NO_FLOORS, min_score=0.95), [0, 2]),
    ],
)
def test_floors_under_the_grounding(settings: VerifySettings, good: list[int]) -> None:
    traces = (
        judged(0, 1.0, outcome=1.0, spatial=1.0, counting=1.0),
        judged(1, 0.8, outcome=1.0, spatial=0.6, counting=None),
        judged(2, 1.0, outcome=1.0, spatial=1.0, counting=0.5),
        judged(3, 0.0, outcome=0.0),
        judged(4, 0.75, outcome=1.0, spatial=None, counting=None, reasoning=0.5),
        judged(5, None, outcome=None),
        judged(6, None, outcome=1.0, spatial=1.0, reasoning=FAILED),
        judged(7, 0.0, outcome=1.0, format=0.0),
    )
    assert [trace.index for trace in good_traces(traces, settings)] == good


@pytest.mark.parametrize(("traces", "reason", "detail", "scorer"), WHY)
def test_why_none_is_good_enough(traces: list[Trace], reason: str, detail: str, scorer: str) -> None:
    said, why, about, by = why_rejected(tuple(traces), VerifySettings())
    assert (said, why, by) == (reason, detail, scorer)
    assert traces[about].index == about
    name = detail.split(":")[0].removesuffix(" could not be checked")
    if reason == "unverifiable" and "could not be checked" in detail:
        assert any(verdict.failed for verdict in traces[about].verdicts if verdict.name == name)


def test_a_value_is_not_rounded_up_to_its_minimum() -> None:
    _, why, _, _ = why_rejected((judged(0, 0.9, outcome=1.0, spatial=0.9996, reasoning=1.0),), VerifySettings())
    assert why == "best score 0.90, and spatial 0.9996 is below verify.floors.spatial = 1: spatial says so"


@pytest.mark.parametrize("score", [None, 0.5, 1.0])
@pytest.mark.parametrize("settings", [VerifySettings(), VerifySettings(min_score=0.0, floors=NO_FLOORS)])
def test_what_failed_is_never_good(score: float | None, settings: VerifySettings) -> None:
    """Whatever the settings are: such a trace has no score (see groundtrace.rewards.aggregate)."""
    traces = (judged(0, None, outcome=1.0, spatial=FAILED), judged(1, score, outcome=1.0, spatial=1.0, counting=1.0))
    assert [trace.index for trace in good_traces(traces, settings)] == (
        [1] if score is not None and score >= settings.min_score else []
    )


def response(answer: str, *points: Point) -> str:
    """A trace that points and answers."""
    tags = (f'<points x1="{p.x:g}" y1="{p.y:g}" alt="{p.label}">{p.label}</points>' for p in points)
    return f"<think>I find {', '.join(tags)}.</think><answer>{answer}</answer>"


ON = tuple(Point(f"{colour} square", 18 + 24 * n, 40) for n, colour in enumerate(("red", "blue", "black")))
OFF = tuple(replace(point, x=300 + n) for n, point in enumerate(ON))
GOOD, BAD, WRONG = response("3", *ON), response("3", *OFF), response("4", *ON)
TWO_OF_THREE = response("3", *ON[:2], OFF[2])


@pytest.fixture
def drafts(tmp_path: Path, make_draft: Callable[..., Draft], write_scene: Callable[..., Path]) -> Callable[..., Draft]:
    """A draft about three squares, pointed at, with these traces."""
    write_scene(tmp_path / "a.png", width=400, height=100)

    def draft(
        name: str, *texts: str, points: tuple[Point, ...] = ON, media: tuple[str, ...] = ("a.png",), **fields: Any
    ) -> Draft:
        keys = tuple(f"k{n}" for n in range(len(texts)))
        calls = (Call("teacher", "trace.v1", "s", "m", keys, Usage(calls=1, worth_usd=0.5)),)
        made = make_draft(name, tmp_path, media, **fields)
        traces = tuple(as_trace(index, Completion(text), made.question.media) for index, text in enumerate(texts))
        entities = tuple(dict.fromkeys(point.label for point in points))
        return replace(made, entities=entities, points=points, traces=traces, calls=calls)

    return draft


def kept_as(draft: Draft) -> tuple[str, int | None, list[float | None], dict[str, float | None]]:
    assert draft.best is not None
    best = draft.traces[draft.best]
    values = {verdict.name: verdict.value for verdict in best.verdicts}
    return draft.id, draft.best, [t.score and round(t.score, 3) for t in draft.traces], values


def rejected_as(found: Rejected) -> tuple[str, str, str, str | None]:
    assert found.stage == "verify"
    assert found.cost_usd == 0.5
    return found.id, found.reason, found.detail.split(":")[0], found.cache_key


FULL = {"outcome": 1.0, "format": 1.0, "spatial": 1.0, "counting": 1.0, "temporal": None, "reasoning": 1.0}
BLIND = {"spatial": None, "counting": None}


def test_the_embedded_verifier(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    sign = {"question": "What is worn?", "answer": "the coat that is of deep red wool", "answer_type": "text"}
    malformed = "best score 0.00, and format 0.00 is below verify.floors.format = 1"
    check_stage(
        VerifyTraces(VerifySettings(), models()),
        [
            drafts("good", GOOD),
            drafts("tie", GOOD, GOOD),
            drafts("later", WRONG, BAD, GOOD),
            drafts("two of three", TWO_OF_THREE),
            drafts("a later one with all on", TWO_OF_THREE, GOOD),
            drafts("mentioned again", response("3", *ON, ON[0], ON[1])),
            drafts("twice", response("3", *ON[:2], replace(ON[1], y=41))),
            drafts("one more that nothing can serve", response("3", *ON, Point("gizmo", 300, 50))),
            drafts("another conclusion", GOOD.replace("</think>", " So there are 4.</think>")),
            drafts("a second answer", f"<answer>4</answer>{GOOD}"),
            drafts("a box", GOOD.replace("</think>", " <box>[1,2,3,4]</box></think>")),
            drafts("no reasoning", "<think></think><answer>3</answer>"),
            drafts("off", WRONG, BAD),
            drafts("wrong", WRONG, WRONG),
            drafts("no answer", "<think>I look."),
            drafts("count", response("3", *ON[:2])),
            drafts("pointless", response("3")),
            drafts("no such thing", response("3", *(replace(point, label="red circle") for point in ON))),
            drafts("free text", response("a long coat of crimson wool"), **sign),
        ],
        [
            ("good", 0, [1.0], FULL),
            ("tie", 0, [1.0, 1.0], FULL),
            ("later", 2, [0.0, 0.308, 1.0], FULL),
            ("a later one with all on", 1, [0.852, 1.0], FULL),
            ("mentioned again", 0, [1.0], FULL),
        ],
        [
            (
                "two of three",
                "low_grounding",
                "best score 0.85, and spatial 0.56 is below verify.floors.spatial = 1",
                "k0",
            ),
            ("twice", "low_grounding", "best score 0.94, and spatial 0.83 is below verify.floors.spatial = 1", "k0"),
            (
                "one more that nothing can serve",
                "low_grounding",
                "best score 0.92, and spatial 0.75 is below verify.floors.spatial = 1",
                "k0",
            ),
            ("another conclusion", "malformed", malformed, "k0"),
            ("a second answer", "malformed", malformed, "k0"),
            ("a box", "malformed", malformed, "k0"),
            ("no reasoning", "malformed", malformed, "k0"),
            ("off", "low_grounding", "best score 0.31, and spatial -0.08 is below verify.floors.spatial = 1", "k1"),
            ("wrong", "wrong_answer", "no trace of 2 is right", "k0"),
            ("no answer", "wrong_answer", "no trace of 1 is right", "k0"),
            ("count", "low_grounding", "best score 0.94, and spatial 0.83 is below verify.floors.spatial = 1", "k0"),
            (
                "pointless",
                "low_grounding",
                "best score 0.33, and spatial 0.00 is below verify.floors.spatial = 1",
                "k0",
            ),
            (
                "no such thing",
                "low_grounding",
                "best score 0.31, and spatial -0.08 is below verify.floors.spatial = 1",
                "k0",
            ),
            ("free text", "unverifiable", "outcome could not be checked", "k0"),
        ],
        show=kept_as,
        show_rejected=rejected_as,
    )


def test_equal_traces_are_judged_once(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    other = GOOD.replace("I find", "There are")
    check_stage(
        VerifyTraces(VerifySettings(), models()),
        [drafts("q", GOOD, other, GOOD, WRONG, other, GOOD)],
        [(2, [0, 1, 2, 3, 4, 5], [1.0, 1.0, 1.0, 0.0, 1.0, 1.0])],
        [],
        show=lambda kept: (
            sum(call.prompt.startswith("judge_reasoning") for call in kept.calls),
            [trace.index for trace in kept.traces],
            [trace.score for trace in kept.traces],
        ),
    )


def test_where_others_were_cut_off_the_best_is_found_and_the_reply_named(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    """``best`` is a place among the traces; a trace's index is the number of its sample, and of that sample's key."""

    def second_and_fourth(draft: Draft) -> Draft:
        return replace(draft, traces=(draft.traces[1], draft.traces[3]))

    check_stage(
        VerifyTraces(VerifySettings(), models()),
        [
            second_and_fourth(drafts("good", BAD, WRONG, BAD, GOOD)),
            second_and_fourth(drafts("off", BAD, WRONG, BAD, BAD)),
        ],
        [("good", 1, [0.0, 1.0], FULL)],
        [("off", "low_grounding", "best score 0.31, and spatial -0.08 is below verify.floors.spatial = 1", "k3")],
        show=kept_as,
        show_rejected=rejected_as,
    )


VERDICTS = {
    "prose": ("It does follow, I think.", None),
    "unsure": ('{"reason": "dark", "supports": "cannot_judge"}', None),
    "number": ('{"supports": 1}', None),
    "no": ('{"reason": "a gap", "supports": "no"}', 0.0),
}


def test_where_the_judge_answers_garbage_nothing_is_kept(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        return next(reply for name, (reply, _) in VERDICTS.items() if f"({name})" in prompt)

    ask = {name: {"question": f"How many squares are there ({name})?"} for name in VERDICTS}
    unscored = [name for name, (_, value) in VERDICTS.items() if value is None]
    check_stage(
        VerifyTraces(VerifySettings(), models("judge", says=says)),
        [drafts(name, GOOD, **ask[name]) for name in VERDICTS]
        + [drafts(f"off {name}", BAD, **ask[name]) for name in unscored],
        [],
        [("no", "low_reasoning", "best score 0.67 is below verify.min_score = 0.7", "k0")]
        + [(name, "unverifiable", "reasoning could not be checked", "k0") for name in unscored]
        + [(f"off {name}", "unverifiable", "reasoning could not be checked", "k0") for name in unscored],
        show=kept_as,
        show_rejected=rejected_as,
    )


def without(played: ModelsSettings, *roles: str) -> ModelsSettings:
    return replace(played, roles=tuple(pair for pair in played.roles if pair[0] not in roles))


@pytest.mark.parametrize(
    ("skip", "named"),
    [((), ["temporal", "reasoning"]), (("temporal",), ["reasoning"]), (("reasoning", "spatial"), ["temporal"])],
)
def test_a_role_that_a_scorer_needs_must_have_an_endpoint(
    skip: tuple[str, ...], named: list[str], models: Callable[..., ModelsSettings]
) -> None:
    with pytest.raises(ConfigError) as caught:
        VerifyTraces(VerifySettings(gate=GateSettings(skip=skip)), without(models(), "judge"))
    listed = ", ".join(f'"{name}"' for name in named)
    assert str(caught.value) == (
        "roles.judge names no endpoint, but some scorers need one: set it to the name of an endpoint, or skip these "
        f"scorers with verify.gate.skip = [{listed}]"
    )


def test_a_role_that_a_scorer_of_ones_own_needs_must_have_an_endpoint(models: Callable[..., ModelsSettings]) -> None:
    own = replace(PLAINNESS, asks=(Asks("second_judge", ()),))
    refused = r'^roles\.second_judge names no endpoint.* with verify\.gate\.skip = \["plainness"\]$'
    with pytest.raises(ConfigError, match=refused):
        VerifyTraces(VerifySettings(), models(), (*TRACE_SCORERS, own))
    VerifyTraces(VerifySettings(gate=GateSettings(skip=("plainness",))), models(), (*TRACE_SCORERS, own))


@pytest.mark.parametrize(
    ("roles", "skip", "values"),
    [
        ({"judge"}, ("temporal", "reasoning"), FULL | {"reasoning": None}),
        ({"segmenter"}, (), FULL),  # the boxes of the detector stand for masks
        ({"detector"}, ("spatial", "counting"), FULL | BLIND),
        (
            {"judge", "detector"},
            ("spatial", "counting", "temporal", "reasoning"),
            FULL | BLIND | {"reasoning": None},
        ),
    ],
)
def test_what_a_config_leaves_out_is_not_checked(
    roles: set[str],
    skip: tuple[str, ...],
    values: dict[str, float | None],
    check_stage: Callable[..., None],
    drafts: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
) -> None:
    settings = VerifySettings(min_score=1.0, gate=GateSettings(skip=skip))
    stage = VerifyTraces(settings, without(models(), *roles))
    check_stage(stage, [drafts("q", GOOD)], [("q", 0, [1.0], values)], [], show=kept_as)


def test_points_that_nobody_can_look_for_are_unverifiable(
    check_stage: Callable[..., None],
    drafts: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
) -> None:
    stage = VerifyTraces(VerifySettings(min_score=0.0, floors=NO_FLOORS), without(models(), "detector"))
    rejected = [("q", "unverifiable", "spatial could not be checked", "k0")]
    check_stage(stage, [drafts("q", GOOD, BAD)], [], rejected, show_rejected=rejected_as)


def test_a_point_is_looked_at_in_the_image_that_the_trace_names(
    check_stage: Callable[..., None],
    drafts: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
    tmp_path: Path,
    write_scene: Callable[..., Path],
) -> None:
    write_scene(tmp_path / "empty.png", (), width=400, height=100)
    asked = {"media": ("empty.png", "a.png"), "question": "What colour is the first square?", "answer": "red"}
    settings = VerifySettings(min_score=0.0, floors=NO_FLOORS, gate=GateSettings(skip=("reasoning",)))
    texts = {"second": "In picture 2 I", "none named": "I", "first": "In the first image I", "third": "In picture 3 I"}
    found = [
        drafts(name, response("red", ON[0]).replace("I", said, 1), **asked, answer_type="text")
        for name, said in texts.items()
    ]
    off = -0.1 / 2
    expected = [("second", 1.0), ("none named", off), ("first", off), ("third", off)]
    stage = VerifyTraces(settings, models())
    check_stage(stage, found, expected, [], show=lambda draft: (draft.id, kept_as(draft)[3]["spatial"]))


def test_a_wrong_answer_is_kept_at_no_score(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    stage = VerifyTraces(VerifySettings(min_score=0.0), models())
    rejected = [("q", "wrong_answer", "no trace of 1 is right", "k0")]
    check_stage(stage, [drafts("q", WRONG)], [], rejected, show_rejected=rejected_as)


def test_nothing_to_point_at_is_no_fault(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    text = "<think>I look everywhere. So the answer is no.</think><answer>no</answer>"
    draft = drafts("q", text, points=(), question="Is there a circle?", answer="no", answer_type="bool")
    check_stage(VerifyTraces(VerifySettings(), models()), [draft], [("q", 0, [1.0], FULL | BLIND)], [], show=kept_as)


def test_what_was_proposed_and_not_found_need_not_be_pointed_at(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    text = "<think>I look everywhere. So the answer is no.</think><answer>no</answer>"
    asked = {"question": "Is there a circle?", "answer": "no", "answer_type": "bool"}
    proposed = replace(drafts("proposed", text, points=(), **asked), entities=("red circle",))
    found = drafts("found", text, points=ON[:1], **asked)
    check_stage(
        VerifyTraces(VerifySettings(), models()),
        [proposed, found],
        [("proposed", 0, [1.0], FULL | BLIND)],
        [("found", "low_grounding", "best score 0.67, and spatial 0.00 is below verify.floors.spatial = 1", "k0")],
        show=kept_as,
        show_rejected=rejected_as,
    )


def test_at_floors_of_0_the_papers_rule_is_left(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    """Eq. 9 for two of three points, where one target earns the whole: (1 + 2/3 + 1) / 3."""
    gate = GateSettings(pointing=PointingSettings(first_share=1.0))
    stage = VerifyTraces(VerifySettings(floors=NO_FLOORS, gate=gate), models())
    values = FULL | {"spatial": pytest.approx(2 / 3), "counting": pytest.approx(0.5)}
    check_stage(stage, [drafts("q", TWO_OF_THREE)], [("q", 0, [0.889], values)], [], show=kept_as)


def test_a_planner_of_the_run(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    """The judge plans to judge nothing; what looks at the image looks in any case."""

    def says(_prompt: str, _: int) -> str:
        return '{"scorers": []}'

    values = FULL | {"reasoning": None}
    stage = VerifyTraces(VerifySettings(planner="judge"), models("judge", says=says))
    check_stage(stage, [drafts("q", GOOD)], [("q", 0, [1.0], values)], [], show=kept_as)


def test_on_synthetic_sources_the_pointer_looks(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def said(draft: Draft) -> bool:
        (spatial,) = (verdict for verdict in draft.traces[0].verdicts if verdict.name == "spatial")
        return spatial.value == 1.0 and "pointer: drawn holds synthetic images" in spatial.reason

    stage = VerifyTraces(VerifySettings(synthetic_sources=("drawn",)), models())
    check_stage(stage, [drafts("q", GOOD)], [True], [], show=said)


async def _hears_hedging(case: Case) -> Verdict:
    return Verdict("plainness", 0.5 if "I believe" in case.text else 1.0, "it hedges")


PLAINNESS = Scorer("plainness", "every response has a tone", _hears_hedging, floor=0.9)


@pytest.mark.parametrize(
    ("floors", "rejected"),
    [
        (
            {},
            (
                "hedged",
                "low_score",
                "best score 1.00, and plainness 0.50 is below verify.floors.plainness = 0.9",
                "k0",
                "plainness",
            ),
        ),
        ({"plainness": 0.0}, None),
        (
            {"plainness": 1.0},
            (
                "hedged",
                "low_score",
                "best score 1.00, and plainness 0.50 is below verify.floors.plainness = 1",
                "k0",
                "plainness",
            ),
        ),
    ],
)
def test_a_scorer_of_ones_own_has_a_floor_and_a_verdict(
    floors: dict[str, float],
    rejected: tuple[str, ...] | None,
    check_stage: Callable[..., None],
    drafts: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
) -> None:
    """It crosses to the workers with the stage, as a value."""
    hedged = GOOD.replace("I find", "I believe to see")
    made = [drafts("plain", GOOD), drafts("hedged", hedged)]
    kept = [("plain", "plainness")] + ([] if rejected else [("hedged", "plainness")])
    stage = VerifyTraces(VerifySettings(floors=floors), models(), (*TRACE_SCORERS, PLAINNESS))
    check_stage(
        stage,
        made,
        kept,
        [rejected] if rejected else [],
        show=lambda draft: (draft.id, draft.traces[0].verdicts[-1].name),
        show_rejected=lambda found: (*rejected_as(found), found.rejected_by),
    )


def test_what_the_stage_says_of_itself() -> None:
    assert set(STAGE.reasons) == {"wrong_answer", "malformed", "low_grounding", "low_reasoning", "unverifiable"}
    assert STAGE.failures == ("unverifiable",)


@pytest.mark.parametrize(
    ("changes", "scorers", "floors"),
    [
        ({}, TRACE_SCORERS, {"format": 1.0, "spatial": 1.0, "counting": 1.0, "temporal": 0.7, "final": 0.7}),
        ({"floors": {"spatial": 0.5}, "min_score": 0.0}, TRACE_SCORERS[:3], {"format": 1.0, "spatial": 0.5}),
        ({"floors": NO_FLOORS | {"format": 0.0}}, (*TRACE_SCORERS[:4], PLAINNESS), {"plainness": 0.9, "final": 0.7}),
    ],
)
def test_the_stage_describes_its_floors(
    changes: dict[str, Any],
    scorers: tuple[Scorer, ...],
    floors: dict[str, float],
    models: Callable[..., ModelsSettings],
) -> None:
    assert VerifyTraces(VerifySettings(**changes), models(), scorers).stage.floors == floors
