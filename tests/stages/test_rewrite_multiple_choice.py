"""Rewriting multiple choice: what a reply may be, who decides, and no letter of a choice left."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Completion
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Call, Draft, Question
from groundtrace.stages.open_multiple_choice import open_question
from groundtrace.stages.rewrite_multiple_choice import (
    RewriteMultipleChoice,
    RewriteSettings,
    has_option_letters,
    read_rewritten,
)

CALL = Call("teacher", "free_question.v1", "s", "m", ("key",))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Which is it, A. or B.?", True),
        ("Is it (B) or (C)?", True),
        ("Is option C darker?", True),
        ("Is Choice B darker?", False),
        ("What grade did A get?", False),
        ("What is the angle ABC.", False),
        ("What is 3 + x (in cm)?", False),
    ],
)
def test_option_letters(text: str, named: bool) -> None:
    assert has_option_letters(text) == named


def read(question: object) -> str | None:
    return read_rewritten(
        CallResult((Completion(json.dumps({"reason": "r", "question": question})),), CALL), ("x", "yy")
    )


@pytest.mark.parametrize("question", ["", "  ", 3, ["Who?"], "Is it B. or not?", "Is it x or yy?", "long " * 2000])
def test_bad_replies(question: object) -> None:
    with pytest.raises(BadReply):
        read(question)


def test_good_replies() -> None:
    assert read(" Who is it? ") == "Who is it?"
    assert read(None) is None


@given(st.text(max_size=60))
def test_what_is_read_has_no_option_letter(question: str) -> None:
    try:
        found = read(question)
    except BadReply:
        return
    assert found is not None
    assert not has_option_letters(found)


def test_the_judge_decides(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    write_scene(tmp_path / "a.png")
    names = ("same", "other", "impossible", "lettered", "meta", "free")
    choices = {"meta": ("Ann", "none of these"), "free": None}

    def asked(name: str) -> Draft:
        own = choices.get(name, ("Ann", "Bob"))
        fields = {"answer": "Ann", "answer_type": "text" if own is None else "mcq", "choices": own}
        return make_draft(name, tmp_path, ("a.png",), question=f"Which of these is ({name})?", **fields)

    def says(prompt: str, _: int) -> str:
        name = next(name for name in names if f"({name})" in prompt)
        assert name not in ("meta", "free"), "they are not asked about"
        if "REWRITTEN" in prompt:
            return json.dumps({"reason": "r", "equivalent": name == "same"})
        told = {"impossible": None, "lettered": "Is it A. or B.?"}.get(name, f"Who is ({name})?")
        return json.dumps({"reason": "r", "question": told})

    drafts = [asked(name) for name in names]
    kept = [("same", "Who is (same)?", None, ("Ann", "Bob"), "text")]
    kept += [(name, f"Which of these is ({name})?", ("Ann", "Bob"), None, "mcq") for name in ("other", "impossible")]
    kept += [("meta", "Which of these is (meta)?", choices["meta"], None, "mcq")]
    kept += [("free", "Which of these is (free)?", None, None, "text")]

    def show(draft: Draft) -> tuple[object, ...]:
        question = draft.question
        return draft.id, question.question, question.choices, question.opened_choices, question.answer_type

    stage = RewriteMultipleChoice(RewriteSettings(), models("teacher", "judge", says=says))
    rejected = [("lettered", "rewrite_choices", "unparsable_reply")]
    check_stage(stage, drafts, kept=kept, rejected=rejected, show=show)


def test_without_a_judge_that_reads_nothing_is_rewritten(
    make_draft: Callable[..., Draft], models: Callable[..., ModelsSettings], check_stage: Callable[..., None]
) -> None:
    draft = make_draft("q", answer="Ann", answer_type="mcq", choices=("Ann", "Bob"))
    stage = RewriteMultipleChoice(RewriteSettings(), models())
    check_stage(stage, [draft], kept=[("q", ("Ann", "Bob"))], rejected=[], show=lambda d: (d.id, d.question.choices))


OPTIONS = st.lists(st.from_regex(r"[a-z]{2,8}( [a-z]{2,8})?|[0-9]{1,3}", fullmatch=True), min_size=2, max_size=5)


@given(OPTIONS, st.sampled_from(["{}. {}", "({}) {}", "{}) {}"]), st.sampled_from(["\n", " ", ", "]))
def test_what_rules_open_has_no_option_letter(options: list[str], form: str, between: str) -> None:

    listed = between.join(form.format(chr(65 + number), option) for number, option in enumerate(options))
    text = f"What is the name of this?\n{listed}"
    question = Question("q", "s", "l", (), text, options[0], "mcq", tuple(options))
    opened = open_question(Draft(question)).question
    assert opened.choices is not None or not has_option_letters(opened.question)
