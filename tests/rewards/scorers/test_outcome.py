"""The outcome reward, Argos Eq. 6-8 and case (iii): rules first, then the judge, who may leave an answer unscored."""

import json

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.rewards.scorers.outcome import MAX_ANSWER_CHARS, needs_judge, score_outcome

RULES = [
    # Eq. 6: the same choice, phrase or polarity
    ("argos eq6", "mcq", "red", ("blue", "red"), "B", 1.0),
    ("argos eq6", "mcq", "red", ("blue", "red"), "red", 1.0),
    ("argos eq6", "mcq", "red", ("blue", "red"), "A", 0.0),
    ("argos eq6", "bool", "yes", None, "Yes.", 1.0),
    ("argos eq6", "bool", "yes", None, "no", 0.0),
    ("argos eq6", "text", "red", None, "Red", 1.0),
    # Eq. 7-8, both floats: |10.5 - 10.0| / 10 = 0.05, |10.51 - 10.0| / 10 = 0.051; below 1 too the error is relative
    ("argos eq8", "numeric", "10.0", None, "10.5", 1.0),
    ("argos eq8", "numeric", "10.0", None, "10.51", 0.0),
    ("argos eq8", "numeric", "10.0", None, "9.5", 1.0),
    ("argos eq8", "numeric", "0.2", None, "0.21", 1.0),
    ("argos eq8", "numeric", "0.2", None, "0.22", 0.0),
    ("argos eq8", "numeric", "-40.0", None, "-38.5", 1.0),
    # a gold without a decimal point is met exactly
    ("argos eq6", "numeric", "20", None, "20", 1.0),
    ("argos eq6", "numeric", "20", None, "21", 0.0),
    # no answer is a wrong one
    ("missing", "numeric", "2", None, None, 0.0),
    ("missing", "text", "a dog on a sofa", None, None, 0.0),
    ("missing", "mcq", "red", ("blue", "red"), "  ", 0.0),
]


@pytest.mark.parametrize(
    ("rule", "kind", "gold", "choices", "predicted", "value"), RULES, ids=lambda value: str(value)[:20]
)
def test_argos_eq6_to_eq8_need_no_judge(run, scripted, question, rule, kind, gold, choices, predicted, value) -> None:
    asked = question(answer=gold, answer_type=kind, choices=choices)
    caller = scripted()
    verdict = run(score_outcome(asked, predicted, caller))
    assert (verdict.name, verdict.value) == ("outcome", value)
    assert verdict.reason
    assert caller.asked == []


def semantic(question, **changes):
    return question(question="What is the man doing?", answer="riding a horse", answer_type="text", **changes)


PREDICTED = "he sits on the back of a galloping brown animal"


@pytest.mark.parametrize(("same", "value"), [(True, 1.0), (False, 0.0)])
def test_argos_case_iii_the_judge_decides_on_free_text(run, scripted, question, same, value) -> None:
    caller = scripted(judge=[json.dumps({"reason": "same act", "same": same})])
    verdict = run(score_outcome(semantic(question), PREDICTED, caller))
    assert (verdict.value, verdict.reason) == (value, "judge: same act")
    ((role, prompt, sampling),) = caller.asked
    assert (role, prompt.name, sampling.temperature, sampling.n) == ("judge", "judge_answer.v3", 0.0, 1)
    assert (prompt.variable("gold"), prompt.variable("predicted")) == ("riding a horse", PREDICTED)


FAILURES = {
    "no JSON": "Yes, they mean the same.",
    "empty object": "{}",
    "a word": '{"same": "true"}',
    "a number": '{"same": 1}',
    "null": '{"same": null}',
    "a list": "[true]",
    "call failed": CallError(Failure.SERVER_ERROR, "HTTP 500"),
    "refused": CallError(Failure.REFUSED, "no"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_judge_without_a_verdict_leaves_the_answer_unscored(run, scripted, question, case) -> None:
    verdict = run(score_outcome(semantic(question), PREDICTED, scripted(judge=[FAILURES[case]])))
    assert (verdict.value, verdict.failed) == (None, True)
    assert verdict.reason.startswith("judge: ")


def test_without_a_judge_free_text_is_unscored(run, question) -> None:
    verdict = run(score_outcome(semantic(question), PREDICTED, None))
    assert (verdict.value, verdict.reason) == (None, "judge: no judge is configured for free text")


def test_the_judge_is_told_the_choices(run, scripted, question) -> None:
    caller = scripted(judge=['{"reason": "", "same": true}'])
    asked = semantic(question, choices=("riding a horse", "swimming"))
    assert run(score_outcome(asked, PREDICTED, caller)).value == 1.0
    assert caller.asked[0][1].variable("question").endswith("\nA. riding a horse\nB. swimming")


@pytest.mark.parametrize(
    ("kind", "gold", "choices", "predicted"),
    [
        ("numeric", "5", None, "more than 5"),
        ("mcq", "red", ("blue", "red"), "the one on the left looks red to me"),
        ("text", "12 cm", None, "12 somethings"),
        ("text", "2021-03-04", None, "March 2021"),
        ("bool", "yes", None, "perhaps"),
    ],
)
def test_without_a_judge_what_is_no_free_text_and_cannot_be_read_is_wrong(
    run, question, kind, gold, choices, predicted
) -> None:
    asked = question(answer=gold, answer_type=kind, choices=choices)
    assert run(score_outcome(asked, predicted, None)).value == 0.0
    assert not needs_judge(asked)


@pytest.mark.parametrize(("gold", "predicted"), [("sofa", "couch"), ("gray", "grey"), ("U.S.A.", "USA")])
def test_short_text_in_other_words_is_for_the_judge(run, scripted, question, gold, predicted) -> None:
    asked = question(answer=gold, answer_type="text")
    assert needs_judge(asked)
    assert run(score_outcome(asked, predicted, scripted(judge=['{"reason": "same", "same": true}']))).value == 1.0
    assert run(score_outcome(asked, predicted, None)).value is None


def test_the_judge_sees_no_endless_answer(run, scripted, question) -> None:
    caller = scripted(judge=['{"reason": "", "same": false}'])
    verdict = run(score_outcome(semantic(question), "word " * 100_000, caller))
    assert (verdict.value, caller.asked) == (0.0, []), "too long to be that of a short gold answer"
    run(score_outcome(semantic(question), "word " * 3_000, caller))
    prompt = caller.asked[0][1]
    shown = prompt.variable("predicted").split(f"\nCUT {prompt.variable('mark')}\n")
    assert [len(part) for part in shown] == [MAX_ANSWER_CHARS // 2] * 2


def test_box_answers_are_not_scored_here(run, scripted, question) -> None:
    verdict = run(score_outcome(question(answer="[1,2,3,4]", answer_type="boxes"), "[1,2,3,4]", scripted()))
    assert verdict.value is None
    assert verdict.reason.startswith("boxes: ")


def test_a_defect_in_the_caller_is_not_hidden(run, scripted, question) -> None:
    with pytest.raises(ZeroDivisionError):
        run(score_outcome(semantic(question), PREDICTED, scripted(judge=[ZeroDivisionError("defect")])))


def test_the_embedded_engine_does_not_judge_free_text(with_models, question) -> None:
    verdict = with_models(lambda models: score_outcome(semantic(question), PREDICTED, models))
    assert verdict.value is None
    assert "unsupported" in verdict.reason
