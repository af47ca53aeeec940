"""Answers with crops: what is asked, when nothing is, and the sums of both ways."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.schemas.records import Attempt, Draft, Overlay
from groundtrace.stages.answer_with_crops import (
    CROP_ATTEMPTS,
    CROP_PASS_RATE,
    CropComparison,
    answer,
    compared,
    crops_json,
    crops_prompt,
    summed,
    with_answers,
)
from groundtrace.stages.attempt_questions import AttemptSettings
from groundtrace.stages.plumbing.rows import attempt_rows
from groundtrace.stages.plumbing.stage import Reject

CROPS = (Overlay(0, "run:media/x.png", "x", 1), Overlay(0, "run:media/y.png", "y", 1))
RIGHT, WRONG = Attempt("a", "3", True, "exact", ""), Attempt("b", "4", False, "exact", "")
UNKNOWN = Attempt("c", None, None, "judge", "unsure")


@pytest.fixture
def draft(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Draft:
    """A question about three squares, attempted without crops, one of them wrong."""
    write_scene(tmp_path / "a.png")
    (tmp_path / "run" / "media").mkdir(parents=True)
    for name in "xy":
        write_scene(tmp_path / "run" / "media" / f"{name}.png", ("red",))
    return replace(make_draft("q", tmp_path, ("a.png",)), attempts=(RIGHT, WRONG))


def answered(draft: Draft, models: Any, **settings: int) -> tuple[Draft, Session]:
    session = Session(runtime().models(models))
    given = AttemptSettings(**({"k": 3, "k_min": 2} | settings))
    return runtime().submit(answer(draft, session, given, judged=False)).result(), session


def test_the_images_come_first_and_then_their_crops(draft: Draft) -> None:
    prompt = crops_prompt(replace(draft, overlays=CROPS))
    assert [part.uri for part in prompt.media] == ["input:a.png", "run:media/x.png", "run:media/y.png"]
    assert prompt.variable("hint") == "The first image is whole; behind it: 2 parts of it, cut out."
    assert "without coordinates" in prompt.variable("instruction")


def test_answers_are_graded(draft: Draft, models: Any) -> None:
    served = models("policy", says=lambda prompt, sample: f"<answer>{(3, 3, 4)[sample]}</answer>")
    found, session = answered(replace(draft, overlays=(replace(CROPS[0], uri="input:a.png"),)), served)
    assert [attempt["correct"] for attempt in found.added(CROP_ATTEMPTS) or ()] == [True, True, False]
    assert found.added(CROP_PASS_RATE) == pytest.approx(2 / 3)
    assert found.attempts == draft.attempts
    assert [call.prompt for call in session.calls] == ["answer_with_crops.v1"]


def test_without_crops_nothing_is_asked(draft: Draft, models: Any) -> None:
    found, session = answered(draft, models())
    assert (found.added(CROP_ATTEMPTS), session.calls) == (attempt_rows(draft.attempts), [])


def test_too_few_that_can_be_graded(draft: Draft, models: Any) -> None:
    free = replace(draft.question, answer="a red thing", answer_type="text")
    served = models("policy", says=lambda prompt, sample: "<answer>a scarlet object</answer>")
    asked = replace(draft, question=free, overlays=(replace(CROPS[0], uri="input:a.png"),))
    with pytest.raises(Reject, match="ungradable: 0 of 3 attempts could be graded"):
        answered(asked, served)


def test_sums_of_both_ways(draft: Draft) -> None:
    better = with_answers(replace(draft, overlays=CROPS), (RIGHT, RIGHT, UNKNOWN))
    same = with_answers(draft, draft.attempts)
    worse = with_answers(replace(draft, overlays=CROPS[:1]), (WRONG, WRONG))
    found = summed([compared(better), summed([compared(same), compared(worse)])])
    assert found == CropComparison(3, 2, 3, 3, 6, 3, 6, 1, 1)
    assert found == summed(map(compared, (worse, better, same)))
    read = json.loads(crops_json(found))
    assert (read["accuracy_without_crops"], read["accuracy_with_crops"], read["questions"]) == (0.5, 0.5, 3)
    assert json.loads(crops_json(CropComparison()))["accuracy_with_crops"] is None
