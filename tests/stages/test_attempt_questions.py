"""Attempts: k samples graded by rule or judge; what cannot be graded is neither right nor wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from apache_beam.coders.typecoders import registry

from groundtrace.grading.messages import MediaPart
from groundtrace.grading.question_text import user_text
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Draft, Rejected
from groundtrace.stages.attempt_questions import AttemptQuestions, AttemptSettings, attempt_prompt


@pytest.fixture
def drafts(tmp_path: Path, make_draft: Callable[..., Draft], write_scene: Callable[..., Path]) -> Callable[..., Draft]:
    """A draft about three squares (red, blue, black), with changes to its question."""
    write_scene(tmp_path / "a.png", width=400, height=100)
    return lambda name="q", **fields: make_draft(name, tmp_path, ("a.png",), **fields)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k_min": 0}, "k_min must be greater than 0, got 0"),
        ({"k_min": 5}, "k_min must be at most k = 4, got 5"),
        ({"k": 2}, "k_min must be at most k = 2, got 3"),
        ({"k": 0, "k_min": 0}, "k must be greater than 0, got 0"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AttemptSettings(**wrong)


def graded(draft: Draft) -> tuple[str, list[bool | None], int, float | None]:
    return draft.id, [attempt.correct for attempt in draft.attempts], draft.scored_attempts, draft.pass_rate


def why(rejected: Rejected) -> tuple[str, str, str]:
    assert rejected.stage == "attempt"
    return rejected.id, rejected.reason, rejected.detail


def test_rules_grade_what_the_engine_reads(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    asked = [
        drafts("right"),
        drafts("wrong", answer="4"),
        drafts("choice", choices=("2", "3"), answer_type="mcq"),
        drafts("yes", question="Is there a red square?", answer="yes", answer_type="bool"),
        drafts("no", question="Is there a yellow square?", answer="yes", answer_type="bool"),
        drafts("unread", question="What does the sign say?", answer="stop", answer_type="text"),
    ]
    rates = {"right": 1.0, "wrong": 0.0, "choice": 1.0, "yes": 1.0, "no": 0.0}
    expected = [(name, [rate == 1] * 4, 4, rate) for name, rate in rates.items()]
    detail = "the gold answer is free text, and roles.judge names no endpoint that can grade it"
    rejected = [("unread", "ungradable", detail)]
    stage = AttemptQuestions(AttemptSettings(), models())
    check_stage(stage, asked, expected, rejected, show=graded, show_rejected=why)


def test_the_calls_are_noted(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    check_stage(
        AttemptQuestions(AttemptSettings(k=5), models()),
        [drafts()],
        [[("policy", "attempt.v1", "colour", 5, 5, 0)]],
        [],
        show=lambda draft: [
            (call.role, call.prompt, call.model, len(call.keys), len(set(call.keys)), call.usage.cached)
            for call in draft.calls
        ],
    )


OPEN = {"question": "What is worn?", "answer": "the coat that is of deep red wool", "answer_type": "text"}
SAID = {
    "crimson": '{"reason": "same colour", "same": true}',
    "blue": '{"reason": "another", "same": false}',
    "mauve": "I would rather not say.",
    "red": '{"reason": "?", "same": "maybe"}',
}


FREE = {
    "all graded": (("crimson", "blue", "crimson", "crimson"), [True, False, True, True], 4, 0.75),
    "one of four not": (("crimson", "mauve", "blue", "blue"), [True, None, False, False], 3, 1 / 3),
    "none right": (("blue", "blue", "blue", "mauve"), [False, False, False, None], 3, 0.0),
}


def test_the_judge_grades_free_text(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, sample: int) -> str:
        if "CANDIDATE ANSWER" not in prompt:
            answers = next(case[0] for name, case in FREE.items() if name in prompt)
            return f"<think>I look.</think><answer>a long coat of {answers[sample]} wool</answer>"
        return next(reply for word, reply in SAID.items() if f"\na long coat of {word}" in prompt)

    stage = AttemptQuestions(AttemptSettings(), models("policy", "judge", says=says))
    asked = [drafts(name, **OPEN | {"question": f"What is worn ({name})?"}) for name in FREE]
    check_stage(stage, asked, [(name, *case[1:]) for name, case in FREE.items()], [], show=graded)
    judged = [(name, len(set(case[0]))) for name, case in FREE.items()]
    check_stage(stage, asked, judged, [], show=lambda kept: (kept.id, sum(c.role == "judge" for c in kept.calls)))


GARBAGE = {
    "prose": ("I would rather not say.", "judge: the reply is not JSON: 'I would rather not say.'"),
    "null": ('{"same": null}', "judge: the reply's field 'same' must be true or false, got None"),
    "a number": ('{"same": 1}', "judge: the reply's field 'same' must be true or false, got 1"),
    "a list": ("[true]", "judge: the reply is not JSON: '[true]'"),
}


def test_a_judge_that_answers_garbage_grades_nothing(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        if "CANDIDATE ANSWER" not in prompt:
            return "<answer>a long coat of crimson wool</answer>"
        return next(verdict for name, (verdict, _) in GARBAGE.items() if f"({name})" in prompt)

    stage = AttemptQuestions(AttemptSettings(), models("policy", "judge", says=says))
    asked = [drafts(name, **OPEN | {"question": f"What is worn ({name})?"}) for name in GARBAGE]
    counted = "0 of 4 attempts could be graded: "
    rejected = [(name, "ungradable", counted + detail) for name, (_, detail) in GARBAGE.items()]
    check_stage(stage, asked, [], rejected, show_rejected=why)


def test_free_text_without_a_judge_is_ungradable(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    played = models()
    no_judge = replace(played, roles=tuple(pair for pair in played.roles if pair[0] != "judge"))
    asked = [drafts(**OPEN), drafts("count")]
    detail = "the gold answer is free text, and roles.judge names no endpoint that can grade it"
    check_stage(
        AttemptQuestions(AttemptSettings(), no_judge),
        asked,
        ["count"],
        [("q", "ungradable", detail)],
        show_rejected=why,
    )


def test_a_policy_that_cannot_be_asked(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    played = models()
    wrong = replace(played, roles=tuple((dict(played.roles) | {"policy": "edges"}).items()))
    detail = "unsupported: the embedded engine 'edges' cannot answer the prompt attempt.v1"
    check_stage(
        AttemptQuestions(AttemptSettings(), wrong), [drafts()], [], [("q", "call_failed", detail)], show_rejected=why
    )


ODD = {
    "just a number": ("3", True),
    "prose": ("<think>One, two, three.</think>There are a few. So the total is 3.", True),
    "another answer in a sentence": ("<think>3</think>The answer is 4.", False),
    "an empty answer": ("<answer></answer>", False),
    "an answer while thinking": ("<think><answer>3</answer>", False),
    "two answers": ("<answer>3</answer><answer>4</answer>", False),
    "half a surrogate pair": ("\ud83d <answer>3</answer>", True),
    "a null character": ("<answer>3</answer>\0", True),
}


def test_odd_replies_end_as_attempts_or_rejections(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, _: int) -> str:
        return next((text for name, (text, _) in ODD.items() if name in prompt), "")

    stage = AttemptQuestions(AttemptSettings(), models("policy", says=says))
    asked = [drafts(name, question=f"How many squares are there, {name}?") for name in (*ODD, "silence")]
    kept = [(name, [correct] * 4, 4, float(correct)) for name, (_, correct) in ODD.items()]
    detail = "empty_content: the reply has no text (finish_reason stop)"
    check_stage(stage, asked, kept, [("silence", "call_failed", detail)], show=graded, show_rejected=why)


def test_any_reply_can_cross_a_shuffle(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    coder = registry.get_coder(Draft)
    stage = AttemptQuestions(AttemptSettings(), models("policy", says=lambda *_: "\ud83d <answer>3</answer>"))
    check_stage(stage, [drafts()], ["q"], [], show=lambda draft: coder.decode(coder.encode(draft)).id)


@pytest.mark.parametrize(("choices", "answer_type"), [(None, "numeric"), (("2", "3"), "mcq")])
def test_as_trained_asks_in_the_words_of_the_shards(
    choices: tuple[str, ...] | None, answer_type: str, drafts: Callable[..., Draft]
) -> None:
    question = drafts(choices=choices, answer_type=answer_type).question
    prompt = attempt_prompt(question, AttemptSettings(as_trained=True))
    assert prompt.system == ""
    assert ["<image>" if isinstance(part, MediaPart) else part.text for part in prompt.user] == [
        "<image>",
        user_text(question).removeprefix("<image>"),
    ]


CUT_OFF = {
    # what the policy says four times (✂ marks what was cut off), and what is made of it
    "one of four": (("3", "3", "<answer>4</answer>", "<think>I see thr✂"), [True, True, False, None], 3, 2 / 3),
    "a line that looks like an answer": (("3", "3", "3", "It may be that\nAnswer: 4✂"), [True] * 3 + [None], 3, 1.0),
    "short prose": (("3", "3", "4", "The answer is 3✂"), [True, True, False, None], 3, 2 / 3),
    "closed before": (("3", "3", "3", "<think>I</think><answer>3</answer>\nThat is✂"), [True] * 4, 4, 1.0),
    "closed and wrong": (("3", "3", "3", "<answer>4</answer>✂"), [True] * 3 + [False], 4, 0.75),
}


def test_an_attempt_that_was_cut_off_is_unscored(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    def says(prompt: str, sample: int) -> str:
        return next(said[sample] for name, (said, *_) in CUT_OFF.items() if f"({name})" in prompt)

    stage = AttemptQuestions(AttemptSettings(), models("policy", says=says))
    asked = [drafts(name, question=f"How many squares are there ({name})?") for name in CUT_OFF]
    check_stage(stage, asked, [(name, *case[1:]) for name, case in CUT_OFF.items()], [], show=graded)
    cut = [(name, [(None, "truncated")] * case[1].count(None), int(any("✂" in said for said in case[0])))
           for name, case in CUT_OFF.items()]  # fmt: skip
    check_stage(
        stage,
        asked,
        cut,
        [],
        show=lambda draft: (
            draft.id,
            [(each.answer, each.method) for each in draft.attempts if each.correct is None],
            sum(len(call.truncated) for call in draft.calls),
        ),
    )


def test_too_many_that_were_cut_off_leave_nothing_to_grade(
    check_stage: Callable[..., None], drafts: Callable[..., Draft], models: Callable[..., ModelsSettings]
) -> None:
    stage = AttemptQuestions(AttemptSettings(), models("policy", says=lambda _, sample: "3✂" if sample else "3"))
    said = "truncated: the reply was cut off at a limit of tokens before its answer was closed"
    rejected = [("q", "ungradable", f"1 of 4 attempts could be graded: {said}")]
    check_stage(stage, [drafts()], [], rejected, show_rejected=why)
