"""Leaks are rejected by a list of phrases, and by a judge where one reads."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Call, Draft
from groundtrace.stages.reject_leaks import LeakSettings, RejectLeaks, unchecked

TEACHER = Call("teacher", "trace.v1", "s", "m", ("the key of the trace",))
JUDGE = Call("judge", "judge_reasoning.v3", "s", "m", ("another",))
MARKED = '<points x1="10" y1="20" alt="mark 1 is a dog">mark 1 is a dog</points>'


def traced(draft: Draft, thought: str, judgement: str = "") -> Draft:
    section = f"<judge>{judgement}</judge>\n" if judgement else ""
    text = f"{section}<think>\n{thought}\n</think>\n<answer>3</answer>"
    return replace(draft, traces=(read_trace(0, text),), best=0, calls=(TEACHER, JUDGE))


def test_the_phrases_are_looked_for_everywhere_and_clean_traces_pass(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    drafts = [
        traced(make_draft("copy"), "The marked copy shows three dogs."),
        traced(make_draft("label"), f"I see {MARKED}."),
        traced(make_draft("split"), 'The marked <points x1="10" y1="20" alt="dog">copy</points> shows it.'),
        traced(make_draft("section"), "One, two, three.", judgement="The given answer is 3, so it takes counting."),
        traced(make_draft("clean"), "One, two, three dogs, so there are 3."),
        traced(make_draft("empty"), "", judgement="It is enough to look."),
    ]
    check_stage(
        RejectLeaks(LeakSettings(), models()),
        drafts,
        kept=["clean", "empty"],
        rejected=[(name, "leak", "the key of the trace") for name in ("copy", "label", "split", "section")],
        show_rejected=lambda found: (found.id, found.reason, found.cache_key),
    )


def says(prompt: str, _: int) -> str:
    if "no form" in prompt:
        return "I would rather not say."
    verdict = "yes" if "picked beforehand" in prompt else "cannot_judge" if "who knows" in prompt else "no"
    return json.dumps({"reason": "it says so", "leaks": verdict})


def test_a_judge_reads_what_the_phrases_let_pass(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    """What it cannot judge, and what it answers in another form, is rejected."""
    drafts = [
        traced(make_draft("sly"), "It was picked beforehand. One, two, three."),
        traced(make_draft("sly section"), "One, two, three.", judgement="It was picked beforehand."),
        traced(make_draft("fine"), "One, two, three: that makes 3."),
        traced(make_draft("empty"), "", "It is enough to look, and who knows."),
        traced(make_draft("open"), "One, two, three, who knows."),
        traced(make_draft("formless"), "One, two, three, in no form."),
    ]
    rejected = [("sly", "leak"), ("sly section", "leak"), ("open", "unverifiable"), ("formless", "unverifiable")]
    check_stage(
        RejectLeaks(LeakSettings(), models("judge", says=says)),
        drafts,
        kept=["fine", "empty"],
        rejected=rejected,
        show_rejected=lambda found: (found.id, found.reason),
    )


def test_no_judge_is_asked_where_the_config_has_none_read(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    draft = traced(make_draft("sly"), "It was picked beforehand. One, two, three.")
    check_stage(RejectLeaks(LeakSettings("none"), models("judge", says=says)), [draft], kept=["sly"], rejected=[])


@pytest.mark.parametrize(
    ("judge", "ask", "said"),
    [(True, "all", ""), (True, "none", "leak.ask is none"), (False, "all", "roles.judge names no model")],
)
def test_what_was_not_looked_for_is_said(
    models: Callable[..., ModelsSettings], judge: bool, ask: str, said: str
) -> None:
    found = models("judge", says=says) if judge else models()
    text = unchecked(LeakSettings("all" if ask == "all" else "none"), found, 7)
    assert (said in text and "7 traces" in text) if said else not text
