"""Judge-think-answer traces: who is asked what, what stands in the trace, and an empty think only for simple."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.response import parse_response
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Completion
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.schemas.records import Call, Draft
from groundtrace.stages.write_judged_traces import (
    JudgedTraceSettings,
    WriteJudgedTraces,
    direct_trace,
    read_judgement,
    standardised,
)

CALL = Call("teacher", "direct_judgement.v1", "s", "m", ("key",))


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (
            "<judge> It needs steps. </judge><think>One and\n\ntwo.</think>\\boxed{3}",
            "<judge>It needs steps.</judge>\n<think>\nOne and\n\ntwo.\n</think>\n\\boxed{3}",
        ),
        (
            "<judge>Steps.</judge>\n<think>One.</think>\nThe answer is $\\boxed{3}$.",
            "<judge>Steps.</judge>\n<think>\nOne.\n</think>\n\\boxed{3}",
        ),
        ("<judge>Steps.</judge><think>One.</think>\\boxed{3} or \\boxed{4}", None),
        ("<think>One.</think>\\boxed{3}", None),
        ("<judge>Steps.</judge><think>One.</think>3", None),
        ("<judge>Steps.</judge> so <think>One.</think>\\boxed{3}", None),
        ("", None),
    ],
)
def test_sections_are_joined_in_one_way(reply: str, text: str | None) -> None:
    assert standardised(reply) == (reply if text is None else text)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_joining_again_changes_nothing(judge: str, think: str, answer: str) -> None:
    once = standardised(f"<judge>{judge}</judge><think>{think}</think>\\boxed{{{answer}}}")
    assert standardised(once) == once


@given(st.text(alphabet="ab c.\n", max_size=40).filter(str.strip))
def test_a_direct_trace_has_an_empty_thought_to_the_letter(judgement: str) -> None:
    text = direct_trace(judgement, "3")
    assert "<think>\n\n</think>" in text
    response = parse_response(text)
    assert (response.think, response.answer, response.has_format) == ("", "3", True)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("A glance\nis enough.", "A glance is enough."),
        ("", None),
        ("...", None),
        ("<judge>A glance.</judge>", None),
        ("A glance. \\boxed{3}", None),
        ("word " * 400, None),
    ],
)
def test_direct_judgements(reply: str, said: str | None) -> None:
    answered = CallResult((Completion(reply),), CALL)
    if said is None:
        with pytest.raises(BadReply):
            read_judgement(answered)
    else:
        assert read_judgement(answered) == said


NAMES = ("s1", "s2", "s3", "c1", "c2", "c3")


def test_each_complexity_has_its_prompt_and_its_form(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    write_scene(tmp_path / "a.png")
    asked: dict[str, str] = {}

    def says(prompt: str, _: int) -> str:
        name = next(name for name in NAMES if f"in {name}?" in prompt)
        asked[name] = prompt
        return {
            "s1": "One look is enough.",
            "s2": "<think>no sentences</think>",
            "c1": "<judge>Several.</judge><think>One and two.</think>\\boxed{3}",
            "c2": "I cannot.",
            "s3": "One look is en✂",
            "c3": "<judge>Several.</judge><think>One and two.</think>\\boxed{3} so✂",
        }[name]

    drafts = [
        make_draft(name, tmp_path, ("a.png",), question=f"How many in {name}?", answer="7531").with_added(
            COMPLEXITY, "simple" if name[0] == "s" else "complex"
        )
        for name in NAMES
    ]
    texts = [
        "<judge>One look is enough.</judge>\n<think>\n\n</think>\n\\boxed{7531}",
        "<judge>Several.</judge>\n<think>\nOne and two.\n</think>\n\\boxed{3}",
        "I cannot.",
    ]
    check_stage(
        WriteJudgedTraces(JudgedTraceSettings(), models("teacher", says=says)),
        drafts,
        kept=[(name, (text,)) for name, text in zip(("s1", "c1", "c2"), texts, strict=True)],
        rejected=[
            ("s2", "judged_trace", "unparsable_reply"),
            # both could be read, and both were cut off
            ("s3", "judged_trace", "truncated"),
            ("c3", "judged_trace", "truncated"),
        ],
        show=lambda draft: (draft.id, tuple(trace.text for trace in draft.traces)),
    )
    assert "7531" in asked["c1"], "the teacher is guided with the gold answer"
    assert "7531" not in asked["s1"], "a judgement is not"
