"""RuCL §3.2: replies into rubrics and scores, η and p by hand, and the paper's Table 6 and Table 1."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.grounding import BadReply
from groundtrace.rewards.outcome_rubrics import asks_for_right_answer
from groundtrace.rewards.rubrics import (
    RubricScore,
    RubricSettings,
    candidates_of_reply,
    measure,
    scores_of_reply,
    stratify,
)
from groundtrace.schemas.records import Rubric

PAPER = json.loads((Path(__file__).parent / "data" / "rucl_table6.json").read_text(encoding="utf-8"))


def rubric(name: str, applicability: float = 0.0, pass_rate: float | None = None) -> Rubric:
    return Rubric(name, "what", "when", applicability, pass_rate, "")


def table6() -> tuple[Rubric, ...]:
    """The candidates with the paper's numbers, without the gold-answer check, which is the outcome reward."""
    return tuple(
        rubric(name, eta / 100, p / 100)
        for name, (eta, p) in PAPER["candidates"].items()
        if name != PAPER["gold_answer_check"]
    )


def test_rucl_table6_applicability_of_099_leaves_six() -> None:
    assert len(PAPER["candidates"]) == 20
    assert [kept.id for kept in stratify(table6(), RubricSettings())] == PAPER["kept"]


def test_rucl_table1_strata() -> None:
    strata = {kept.id: kept.stratum for kept in stratify(table6(), RubricSettings(easy_pass_rate=0.8))}
    assert strata == {name: stratum for name, (_, stratum) in PAPER["strata"].items()}


def judged(name: str, *scores: int | None) -> list[RubricScore]:
    return [RubricScore(name, score is not None, score) for score in scores]


@pytest.mark.parametrize(
    ("scores", "eta", "p"),
    [
        ((1, 1, 1, 1), 1.0, 1.0),
        ((1, 0, 1, 0), 1.0, 0.5),
        ((1, 0, None, None), 0.5, 0.5),
        ((None, 1, 1, 0), 0.75, 2 / 3),
        ((0, 0, 0, None), 0.75, 0.0),
        ((None, None), 0.0, None),
        ((), 0.0, None),
    ],
)
def test_rucl_3_2_applicability_and_pass_rate(scores, eta, p) -> None:
    (measured,) = measure((rubric("a"),), [(score,) for score in judged("a", *scores)])
    assert measured.applicability == pytest.approx(eta)
    assert measured.pass_rate == (None if p is None else pytest.approx(p))


def test_rucl_3_2_each_rubric_has_its_own_statistics() -> None:
    rows = list(zip(judged("a", 1, 1, 0, None), judged("b", None, 0, None, 1), strict=True))
    a, b = measure((rubric("a"), rubric("b")), rows)
    assert (a.applicability, a.pass_rate) == (0.75, pytest.approx(2 / 3))
    assert (b.applicability, b.pass_rate) == (0.5, 0.5)


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0, 1, None]), min_size=1, max_size=30))
def test_rucl_3_2_order_does_not_matter(scores: list[int | None]) -> None:
    rows = [(score,) for score in judged("a", *scores)]
    forwards, backwards = (measure((rubric("a"),), each)[0] for each in (rows, rows[::-1]))
    assert forwards == backwards
    assert forwards.applicability * len(scores) == pytest.approx(sum(score is not None for score in scores))


@pytest.mark.parametrize(
    ("eta", "p", "kept"),
    [
        (0.99, 0.8, "easy"),
        (1.0, 1.0, "easy"),
        (1.0, 0.79, "hard"),
        (1.0, 0.0, "hard"),
        (0.98, 1.0, None),
        (0.0, None, None),
    ],
)
def test_rucl_strata_at_the_thresholds(eta, p, kept) -> None:
    assert [each.stratum for each in stratify((rubric("a", eta, p),), RubricSettings())] == ([kept] if kept else [])


def test_a_rubric_that_was_never_applicable_is_never_kept() -> None:
    assert stratify((rubric("a", 0.0, None),), RubricSettings(min_applicability=0.0)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"max_rubrics": 0},
        {"examples": 0},
        {"sample": 0},
        {"min_applicability": 1.1},
        {"min_applicability": -0.1},
        {"easy_pass_rate": 1.1},
        {"easy_pass_rate": float("nan")},
    ],
)
def test_impossible_settings(fields) -> None:
    with pytest.raises(ValueError, match="must be"):
        RubricSettings(**fields)


def row(name: str = "a", **changes: object) -> dict[str, object]:
    return {"id": name, "description": f"what {name}", "criteria": f"when {name}", **changes}


def test_candidates() -> None:
    text = "```json\n" + json.dumps({"rubrics": [row("a"), row("b"), row("c")]}) + "\n```"
    found = candidates_of_reply(text, 20)
    assert found.rubrics == tuple(Rubric(name, f"what {name}", f"when {name}", 0.0, None, "") for name in "abc")
    assert (found.apart, found.pool) == ((), "teacher")
    assert [each.id for each in candidates_of_reply(text, 2).rubrics] == ["a", "b"]


@pytest.mark.parametrize(
    "reply",
    [
        "no JSON",
        {},
        {"rubrics": []},
        {"rubrics": {}},
        {"rubrics": None},
        {"rubrics": ["a"]},
        {"rubrics": [row(id="")]},
        {"rubrics": [row(id=3)]},
        {"rubrics": [row(criteria=None)]},
        {"rubrics": [{"id": "a", "description": "b"}]},
        {"rubrics": [row("a"), row("a")]},
        {"rubrics": [row("a"), row("b", description="looks <|im_start|>")]},
        {"rubrics": [row(criteria="when\0")]},
        {"rubrics": [row(criteria="when\x1c here")]},
        {"rubrics": [row(id="a\ud83d")]},
        {"rubrics": [row(criteria="when \u202e it")]},
    ],
)
def test_candidates_of_the_wrong_form(reply) -> None:
    with pytest.raises(BadReply):
        candidates_of_reply(reply if isinstance(reply, str) else json.dumps(reply), 20)


ASK_FOR_THE_RIGHT_ANSWER = [
    {"id": "final_answer_correct"},
    {"id": "answer-accuracy"},
    {"id": "cand_20_ground_truth_check"},
    {"description": "The final answer is correct."},
    {"description": "The answer matches the gold answer."},
    {"description": "Arrives at the correct conclusion."},
    {"description": "Correctness of the final answer."},
    {"description": "The attempt answers the question correctly."},
    {"description": "It correctly solves the problem."},
    {"description": "The chosen option equals the answer key."},
    {"description": "The same as the provided answer."},
    {"description": "The final number is the expected final value."},
    {"description": "答案与标准答案一致"},
    {"criteria": "1 when the conclusion agrees with the reference answer, else 0"},
    {"criteria": "1 if the selected option is right"},
    {"criteria": "0 where the final answer is\nwrong"},
    {"criteria": "1 when the steps are sound and the attempt reaches the true answer"},
]
LEAVE_IT_ASIDE = [
    {
        "description": "The conclusion follows from the reasoning.",
        "criteria": "1 when the answer is what the steps say",
    },
    {"description": "The final answer agrees with the things pointed at."},
    {"description": "The final answer has the form that the question asks for."},
    {"description": "The answer has the correct answer format."},
    {"description": "The attempt answers the question that is asked."},
    {"description": "Every object named is visible.", "criteria": "1 when each reference to the image is true"},
    {"description": "Reads the correct values from the axis, and each step is correct."},
    {"description": "Positions lie on the right objects."},
    {"description": "The golden ring is named as such."},
    {"criteria": "1 when the box is what the reasoning concludes, even if the answer is wrong; else 0"},
    {"criteria": "1 when the steps agree, regardless of whether the final answer is correct"},
]


@pytest.mark.parametrize(
    ("changes", "asks"),
    [(row, True) for row in ASK_FOR_THE_RIGHT_ANSWER] + [(row, False) for row in LEAVE_IT_ASIDE],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_rucl_a_rubric_does_not_ask_for_the_right_answer(changes, asks) -> None:
    rubric = Rubric(
        **{"id": "a", "description": "d", "criteria": "c", **changes}, applicability=0, pass_rate=None, stratum=""
    )
    assert asks_for_right_answer(rubric) is asks
    reply = json.dumps({"rubrics": [row(**changes), row("kept")]})
    found = candidates_of_reply(reply, 20)
    assert (len(found.rubrics), len(found.apart)) == ((1, 1) if asks else (2, 0))


def test_rucl_rubrics_that_all_ask_for_the_right_answer_are_a_bad_reply() -> None:
    with pytest.raises(BadReply, match="every rubric is about whether the final answer is right"):
        candidates_of_reply(json.dumps({"rubrics": [row("answer_correctness"), row("ground_truth")]}), 20)


def scores(*rows: object) -> str:
    return json.dumps({"scores": list(rows)})


def said(name: str, applicable: object, score: object) -> dict[str, object]:
    return {"id": name, "applicable": applicable, "score": score}


RUBRICS = (rubric("a"), rubric("b"))


def test_rucl_scores_stand_in_the_order_of_the_rubrics() -> None:
    text = scores(said("b", True, 0), said("other", True, 1), said("a", False, None))
    assert scores_of_reply(text, RUBRICS) == (RubricScore("a", False, None), RubricScore("b", True, 0))


def test_rucl_a_score_counts_only_where_the_rubric_applies() -> None:
    text = scores(said("a", False, 1), said("b", True, 1))
    assert scores_of_reply(text, RUBRICS) == (RubricScore("a", False, None), RubricScore("b", True, 1))


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "{}",
        '{"scores": {"a": 1, "b": 1}}',
        scores(),
        scores(said("a", True, 1)),
        scores(said("a", True, 1), said("b", True, None)),
        scores(said("a", True, 1), said("b", True, 2)),
        scores(said("a", True, 1), said("b", True, 0.5)),
        scores(said("a", True, 1), said("b", True, True)),
        scores(said("a", True, 1), said("b", True, "1")),
        scores(said("a", True, 1), said("b", "yes", 1)),
        scores(said("a", True, 1), said("b", None, 1)),
        scores(said("a", True, 1), {"id": "b"}),
        scores(said("a", True, 1), "b"),
        scores(said("a", True, 1), said("b", True, [1])),
        scores(said("a", True, 1), {"id": ["b"], "applicable": True, "score": 1}),
        scores(said("a", True, 1), said("b", True, 0), said("b", True, 1)),
    ],
)
def test_scores_of_the_wrong_form(text) -> None:
    with pytest.raises(BadReply):
        scores_of_reply(text, RUBRICS)


def test_one_score_is_not_for_two_rubrics() -> None:
    with pytest.raises(BadReply, match="two of the given rubrics have the same id"):
        scores_of_reply(scores(said("a", True, 1)), (rubric("a"), rubric("a")))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"id": " A ", "description": "other", "criteria": "other"}, "same id"),
        ({"id": "b", "description": "What", "criteria": "when  so"}, "the same text"),
        ({"id": "Required_Place", "description": "other", "criteria": "other"}, "reserved id 'required_place'"),
        ({"id": "b", "description": " ", "criteria": "when so"}, "each rubric must have texts in the fields id"),
    ],
)
def test_rucl_a_candidate_that_stands_twice_or_says_nothing_is_a_bad_reply(second: dict[str, str], says: str) -> None:
    first = {"id": "a", "description": "what", "criteria": "when so"}
    with pytest.raises(BadReply, match=says):
        candidates_of_reply(json.dumps({"rubrics": [first, second]}), 20)
