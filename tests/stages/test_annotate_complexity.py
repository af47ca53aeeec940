"""Complexity: what a reply says, what it may not say, and a planted population whose labels are known."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.complexity import COMPLEXITY, COMPLEXITY_REASON
from groundtrace.schemas.records import Draft
from groundtrace.stages.annotate_complexity import AnnotateComplexity, ComplexitySettings
from groundtrace.stages.plumbing.options import Options

from .matching import assert_that

REPLIES = {
    "q-simple": '{"reason": "one look", "complexity": "simple"}',
    "q-complex": 'Here: ```json\n{"reason": " two\\n things ", "complexity": "complex"}\n```',
    "q-cannot": '{"reason": "it is blurred", "complexity": "cannot_judge"}',
    "q-other": '{"reason": "so so", "complexity": "medium"}',
    "q-bool": '{"reason": "so so", "complexity": true}',
    "q-silent": '{"reason": " ", "complexity": "simple"}',
    "q-prose": "It is simple.",
}


def test_replies(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    write_scene(tmp_path / "a.png")
    drafts = [make_draft(name, tmp_path, ("a.png",), question=f"What of {name}?", answer="75310") for name in REPLIES]

    def says(prompt: str, _: int) -> str:
        assert "75310" not in prompt, "the gold answer is not shown"
        return next(reply for name, reply in REPLIES.items() if f"of {name}?" in prompt)

    kept = [("q-simple", "simple", "one look", "judge"), ("q-complex", "complex", "two things", "judge")]
    rejected = [("q-cannot", "unjudged", "it is blurred")]
    rejected += [(name, "unparsable_reply", "") for name in ("q-other", "q-bool", "q-silent", "q-prose")]
    check_stage(
        AnnotateComplexity(ComplexitySettings(), models("judge", says=says)),
        drafts,
        kept=kept,
        rejected=rejected,
        show=lambda draft: (draft.id, draft.added(COMPLEXITY), draft.added(COMPLEXITY_REASON), draft.form),
        show_rejected=lambda found: (found.id, found.reason, found.detail if found.reason == "unjudged" else ""),
    )


PLANTED = {
    "How many squares are there?": "simple",
    "How many red squares are there?": "simple",
    "Is there a blue square?": "simple",
    "How many squares are touching the edge?": "complex",
    'Is the following statement about the image true? "There are exactly 2 red squares"': "complex",
    'Is the following statement about the image true? "There is a box with a red square and a blue square"': "complex",
    "What colour is the leftmost square?": "complex",
    "Why is this square sad?": None,
    "How many small squares are there?": None,
}


def test_the_embedded_judge_on_a_planted_population(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
) -> None:
    """Three questions of each kind on pictures of their own: every label is as planted, and what is not read is not
    labelled."""
    drafts, planted = [], {}
    for number, (question, label) in enumerate(PLANTED.items()):
        for copy in range(3):
            name = f"{number}-{copy}"
            write_scene(tmp_path / f"{name}.png", ["red", "blue", "black"][: copy + 1], width=160 + copy)
            drafts.append(make_draft(name, tmp_path, (f"{name}.png",), question=question))
            planted[name] = label
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        created: Any = pipeline | beam.Create(drafts)
        outputs: Any = created | AnnotateComplexity(ComplexitySettings(), models())
        labels = outputs["kept"] | "Label" >> beam.Map(lambda draft: (draft.id, draft.added(COMPLEXITY)))
        none = outputs["rejected"] | "None" >> beam.Map(lambda found: (found.id, None))
        assert_that((labels, none) | beam.Flatten(), equal_to(list(planted.items())))
    assert Counter(planted.values()) == {"simple": 9, "complex": 12, None: 6}


@pytest.mark.parametrize("choices", [None, ("red", "blue")])
def test_choices_are_shown(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
    choices: tuple[str, ...] | None,
) -> None:
    write_scene(tmp_path / "a.png", ["red"])
    fields = {"question": "What colour is the square?", "answer": "red", "choices": choices}
    fields["answer_type"] = "mcq" if choices else "text"
    draft = make_draft("q", tmp_path, ("a.png",), **fields)
    seen: list[str] = []

    def says(prompt: str, _: int) -> str:
        seen.append(prompt)
        return json.dumps({"reason": "a glance", "complexity": "simple"})

    asked = AnnotateComplexity(ComplexitySettings(), models("judge", says=says))
    check_stage(asked, [draft], kept=["q"], rejected=[])
    embedded = AnnotateComplexity(ComplexitySettings(), models())
    check_stage(
        embedded, [draft], kept=["q"], rejected=[], show=lambda d: d.id if d.added(COMPLEXITY) == "simple" else None
    )
    assert ("A. red\nB. blue" in seen[0]) == (choices is not None)
