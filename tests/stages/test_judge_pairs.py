"""The quality of written pairs: GOOD or BAD, and nothing else counts as GOOD."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.grounding import BadReply
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.judge_pairs import JudgePairs, PairSettings, read_verdict

SAID = {"GOOD": True, " GOOD\n": True, "BAD": False, "<think>It is BAD, no, GOOD.</think>\n\nBAD": False}
FORMLESS = ["", "good", "Good", "GOOD.", '"GOOD"', "GOOD BAD", "GOOD, because it is", "NOT GOOD", "<think>GOOD", "YES"]


@pytest.mark.parametrize(("text", "is_good"), SAID.items())
def test_the_verdict_of_a_reply(text: str, is_good: bool) -> None:
    assert read_verdict(text) is is_good


@pytest.mark.parametrize("text", FORMLESS)
def test_replies_of_the_wrong_form(text: str) -> None:
    with pytest.raises(BadReply):
        read_verdict(text)


WORDS = st.lists(st.sampled_from(["GOOD", "BAD", "good", "<think>", "</think>", ".", "\n", " ", "is"]), max_size=6)


@given(st.one_of(st.text(max_size=40), WORDS.map("".join)))
def test_only_the_word_itself_counts(text: str) -> None:
    try:
        is_good = read_verdict(text)
    except BadReply:
        return
    assert text.rpartition("</think>")[2].strip() == ("GOOD" if is_good else "BAD")


@pytest.fixture
def asked(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Callable[..., Draft]:
    """A draft about three squares: red, blue and black."""
    write_scene(tmp_path / "a.png")
    return lambda name, **fields: make_draft(name, tmp_path, ["a.png"], **fields)


ENDS = {"good": None, "bad": "bad_pair", "prose": "unparsable_reply", "cut": "truncated"}


def test_each_verdict_has_its_end(check_stage, models: Callable[..., ModelsSettings], asked) -> None:
    replies = {"good": "GOOD", "bad": "BAD", "prose": "It is GOOD.", "cut": "GOOD✂"}

    def says(prompt: str, sample: int) -> str:
        return next(text for name, text in replies.items() if f"<{name}>" in prompt)

    drafts = [asked(name, question=f"Who is <{name}>?", answer="Ann", answer_type="text") for name in ENDS]
    rejected = [(name, "judge_pairs", end) for name, end in ENDS.items() if end]
    check_stage(JudgePairs(PairSettings(), models("judge", says=says)), drafts, ["good"], rejected)


@pytest.mark.parametrize(("repaired", "end"), [("GOOD", None), ("BAD", "bad_pair"), ("well", "unparsable_reply")])
def test_a_reply_of_another_form_is_repaired(check_stage, models, asked, repaired: str, end: str | None) -> None:
    asking = models("judge", says=lambda prompt, _: repaired if "PROBLEM" in prompt else "Good!", repair_attempts=1)
    rejected = [("q", "judge_pairs", end)] if end else []
    check_stage(JudgePairs(PairSettings(), asking), [asked("q")], [] if end else ["q"], rejected)


def test_the_embedded_judge_agrees_with_its_own_reading_only(check_stage, models, asked) -> None:
    drafts = [
        asked("right"),
        asked("wrong", answer="4"),
        asked("unread", question="Who painted this?", answer="Ann", answer_type="text"),
    ]
    rejected = [("wrong", "judge_pairs", "bad_pair"), ("unread", "judge_pairs", "bad_pair")]
    check_stage(JudgePairs(PairSettings(), models()), drafts, ["right"], rejected)
