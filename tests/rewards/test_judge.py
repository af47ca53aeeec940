"""Asking a judge: quoted material, what is read of the reply, and a failure that is no score."""

import json
from dataclasses import replace

import pytest

from groundtrace.inference.errors import BudgetUsedUp, CallError, Failure
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Sampling
from groundtrace.rewards.judge import JudgeTask, Reading, ask_judge, judge, true_or_false, yes_or_no
from groundtrace.schemas.records import Verdict

FIELDS = {"question": "What is it?", "gold": "a dog"}


def task(predicted: str, **changes) -> JudgeTask[Reading]:
    return JudgeTask("judge_answer.v3", {"predicted": predicted}, true_or_false("same"), FIELDS, **changes)


def test_the_judge_is_shown_the_text_between_marks(run, scripted) -> None:
    caller = scripted(judge=['{"reason": "alike", "same": true}'])
    assert run(ask_judge(task("a d\u200bog <|im_end|>"), caller)) == (1.0, "alike")
    ((role, prompt, sampling),) = caller.asked
    assert (role, prompt.name, sampling) == ("judge", "judge_answer.v3", Sampling(max_tokens=2048))
    assert prompt.variable("predicted") == "a dog < |im_end| >"
    assert (prompt.variable("gold"), len(prompt.variable("mark"))) == ("a dog", 16)


def test_what_is_too_long_is_cut(run, scripted) -> None:
    caller = scripted(judge=['{"reason": "", "same": false}'])
    run(ask_judge(task("word " * 100, max_chars=20), caller))
    prompt = caller.asked[0][1]
    assert prompt.variable("predicted") == f"word word \nCUT {prompt.variable('mark')}\nword word "


def test_another_role_and_another_sampling(run, scripted) -> None:
    caller = scripted(second_judge=['{"reason": "r", "same": true}'])
    verdict = run(judge("x", task("a", sampling=Sampling(max_tokens=7)), caller, "second_judge", prefix="it says: "))
    assert verdict == Verdict("x", 1.0, "it says: r")
    assert caller.asked[0][2].max_tokens == 7


FAILURES = [CallError(Failure.TIMEOUT, "late"), "no JSON", '{"same": 1}']


@pytest.mark.parametrize("role", ["judge", "second_judge"])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_judge_that_fails_fails_the_verdict(run, scripted, failure, role) -> None:
    verdict = run(judge("x", task("a"), scripted(**{role: [failure]}), role, prefix="it says: "))
    assert (verdict.name, verdict.value, verdict.failed) == ("x", None, True)
    assert verdict.reason.startswith(f"{role}: ")


def test_a_judge_that_says_that_it_cannot_judge_has_failed(run, scripted) -> None:
    asked = replace(task("a"), read=yes_or_no("same"))
    verdict = run(judge("x", asked, scripted(judge=['{"reason": "dark", "same": "cannot_judge"}']), prefix="it says: "))
    assert verdict == Verdict("x", None, "it says: dark", failed=True)


@pytest.mark.parametrize("raised", [BudgetUsedUp("used up"), ZeroDivisionError("a defect")])
def test_a_used_up_budget_and_a_defect_are_no_verdicts(run, scripted, raised) -> None:
    with pytest.raises(type(raised)):
        run(judge("x", task("a"), scripted(judge=[raised])))


class Replied:
    def __init__(self, **fields: object) -> None:
        self.text = json.dumps(fields)


READ = [
    (true_or_false("same"), {"same": True, "reason": "r" * 300}, (1.0, "r" * 200)),
    (true_or_false("same"), {"same": False}, (0.0, "")),
    (true_or_false("same"), {"same": 1}, "the reply's field 'same' must be true or false, got 1"),
    (true_or_false("same"), {}, "the reply's field 'same' must be true or false, got None"),
    (yes_or_no("shown"), {"shown": "yes", "reason": 7}, (1.0, "7")),
    (yes_or_no("shown"), {"shown": "no"}, (0.0, "")),
    (yes_or_no("shown"), {"shown": "cannot_judge"}, (None, "")),
    (yes_or_no("shown"), {"shown": "Yes"}, "the reply's field 'shown' must be yes, no or cannot_judge, got 'Yes'"),
    (yes_or_no("shown"), {}, "the reply's field 'shown' must be yes, no or cannot_judge, got 'None'"),
]


@pytest.mark.parametrize(("read", "fields", "found"), READ)
def test_what_is_read_of_a_reply(read, fields, found) -> None:
    if isinstance(found, tuple):
        assert read(Replied(**fields)) == found
        return
    with pytest.raises(BadReply) as caught:
        read(Replied(**fields))
    assert str(caught.value) == found
