"""Leaks are rejected by their words, and by a judge where one reads."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inference.settings import ModelsSettings
from schemas.records import Call, Draft
from schemas.responses.traces import read_trace
from stages.reject_leaks import LeakSettings, RejectLeaks

DATA = Path(__file__).resolve().parents[1] / "rewards/data/leaks"
TEACHER = Call("teacher", "judged_trace.v1", "s", "m", ("the key of the trace",))
JUDGE = Call("judge", "judge_decision.v1", "s", "m", ("another",))


def traced(draft: Draft, thought: str, judgement: str = "It needs steps.", answer: str = "3") -> Draft:
    text = f"<judge>{judgement}</judge>\n<think>\n{thought}\n</think>\n\\boxed{{{answer}}}"
    return replace(draft, traces=(read_trace(0, text),), best=0, calls=(TEACHER, JUDGE))


def listed(name: str, make_draft: Callable[..., Draft]) -> list[Draft]:
    rows = [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]
    return [
        traced(make_draft(f"{name}-{number}", answer=row["answer"], answer_type="text"), row["thinking"])
        for number, row in enumerate(rows)
    ]


def test_fifty_planted_leaks_are_rejected_and_clean_traces_pass(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    """Without a judge that reads: what its words leave open is rejected too."""
    planted, clean = listed("leaks.jsonl", make_draft), listed("clean_thinking.jsonl", make_draft)
    opened = traced(make_draft("opened"), "Three is certain. One, two, three.")
    judged = traced(make_draft("judged"), "One, two, three.", judgement="It takes counting to see that there are 3.")
    check_stage(
        RejectLeaks(LeakSettings(), models()),
        [*planted, judged, *clean, opened],
        kept=[draft.id for draft in clean],
        rejected=[(draft.id, "leak", "the key of the trace") for draft in (*planted, judged)]
        + [("opened", "unverifiable", "the key of the trace")],
        show_rejected=lambda found: (found.id, found.reason, found.cache_key),
    )
    assert len(planted) == 50


def knew(prompt: str, _: int) -> str:
    if "no verdict" in prompt:
        return "I would rather not say."
    return json.dumps({"reason": "it says so", "knew": "picked beforehand" in prompt})


@pytest.mark.parametrize(("ask", "caught"), [("all", True), ("open", False)])
def test_a_judge_reads_what_the_words_let_pass(
    make_draft: Callable[..., Draft],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
    ask: str,
    caught: bool,
) -> None:
    drafts = [
        traced(make_draft("sly"), "It was picked beforehand. One, two, three."),
        traced(make_draft("open"), "Three is certain, picked beforehand. One, two, three."),
        traced(make_draft("fine"), "One, two, three: that makes 3."),
        traced(make_draft("empty"), "", "It is enough to look."),
        traced(make_draft("said"), "", "The given answer is 3, so a look is enough."),
    ]
    rejected = [("open", "leak", "leak"), ("said", "leak", "leak")] + [("sly", "leak", "leak")] * caught
    kept = ["fine", "empty", *["sly"] * (not caught)]
    settings = LeakSettings("all" if ask == "all" else "open")
    check_stage(RejectLeaks(settings, models("judge", says=knew)), drafts, kept=kept, rejected=rejected)


def test_a_judge_that_gives_no_verdict_lets_nothing_pass(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    draft = traced(make_draft("q"), "One, two, three, but no verdict.")
    check_stage(
        RejectLeaks(LeakSettings(), models("judge", says=knew)),
        [draft],
        kept=[],
        rejected=[("q", "leak", "unparsable_reply")],
    )
