"""Judges against planted faults: agreement counted by hand, judges of known habits, and the embedded engine's."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.grading.responses.response import parse_response
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.scorers.thinking import CONSISTENCY, GROUNDING, LOGIC
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.records import Draft, Rejected
from groundtrace.stages.measure_judges import (
    Judgement,
    JudgeReport,
    JudgeSampleSettings,
    MeasuredTrace,
    MeasureJudges,
    agreement_of,
    judges_json,
    plants_of,
    report_of,
)
from groundtrace.stages.plumbing.options import Options

from .matching import assert_that

THOUGHT = "Seen anywhere in the picture: 1 red square, 1 blue square. 1 + 1 = 2. So there are 2 squares."


def traced(draft: Draft, thought: str = THOUGHT) -> Draft:
    trace = read_trace(0, f"<judge>Steps.</judge>\n<think>\n{thought}\n</think>\n\\boxed{{2}}")
    return replace(draft, traces=(trace,), best=0)


def test_agreement_by_hand() -> None:
    said = [Judgement(LOGIC, False, value) for value in (1, 1, 0, None)]
    said += [Judgement(LOGIC, True, value) for value in (0, 0, 0, 1, None, None)]
    low, high = wilson(5, 7)
    assert agreement_of(said) == {"judged": 7, "agree": 5, "share": 5 / 7, "interval": [low, high], "unjudged": 3}
    nothing = {"judged": 0, "agree": 0, "share": None, "interval": None, "unjudged": 1}
    assert agreement_of([Judgement(LOGIC, True, None)]) == nothing


def test_the_report_does_not_depend_on_the_order() -> None:
    one = MeasuredTrace((Judgement(LOGIC, False, 1.0),), (GROUNDING,))
    two = MeasuredTrace((Judgement(LOGIC, False, 0.0),), ())
    failures = [Rejected("q2", "judges", "budget", "spent"), Rejected("q1", "judges", "budget", "spent")]
    report = report_of([one, two], failures)
    assert report == report_of([two, one], failures[::-1])
    content = json.loads(judges_json(report))
    assert content["traces"] == 2
    assert content["problems"] == ["q1: spent", "q2: spent"]
    assert content["judges"]["logic"]["clean"]["share"] == 0.5
    assert content["judges"]["grounding"]["planted"]["not_plantable"] == 1


def test_each_fault_changes_what_its_judge_looks_at(make_draft: Callable[..., Draft]) -> None:
    draft = traced(make_draft("q", answer="2"))
    response = parse_response(draft.traces[0].text)
    plants = plants_of(draft.question, response)
    assert set(plants) == {LOGIC, GROUNDING, CONSISTENCY}
    logic, grounding, consistency = (plants[name] for name in (LOGIC, GROUNDING, CONSISTENCY))
    assert logic and grounding and consistency
    assert (logic.think, logic.answer) == (THOUGHT.replace("= 2", "= 3"), "2")
    assert (grounding.think, grounding.answer) == (THOUGHT.replace("red", "brown"), "2")
    assert (consistency.think, consistency.answer) == (THOUGHT, "3")


def measured(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: ModelsSettings,
    size: int,
) -> dict[str, Any]:
    """The content of judges.json for two chains of thought and a direct answer."""
    write_scene(tmp_path / "a.png", ["red", "blue"])
    drafts = [traced(make_draft(f"q{number}", tmp_path, ("a.png",), answer="2")) for number in range(3)]
    drafts[2] = traced(drafts[2], "")
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        created: Any = pipeline | beam.Create(drafts)
        created.element_type = Draft
        outputs: Any = created | MeasureJudges(JudgeSampleSettings(size), models)
        texts: Any = outputs["measured"] | "Json" >> beam.Map(judges_json)
        _ = texts | "Write" >> beam.Map(lambda text: (tmp_path / "judges.json").write_text(text))
        assert_that(outputs["rejected"], equal_to([]))
    return json.loads((tmp_path / "judges.json").read_text())


def shares(content: dict[str, Any], kind: str) -> list[tuple[float | None, int]]:
    return [(each[kind]["share"], each[kind]["judged"]) for each in content["judges"].values()]


def test_the_embedded_judges(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
) -> None:
    content = measured(tmp_path, make_draft, write_scene, models(), 50)
    assert content["traces"] == 2, "a direct answer has no thought to judge"
    assert shares(content, "clean") == [(1.0, 2)] * 3
    assert shares(content, "planted") == [(1.0, 2)] * 3


@pytest.mark.parametrize(("says", "clean", "planted"), [(True, 1.0, 0.0), (False, 0.0, 1.0), ("perhaps", None, None)])
def test_judges_of_known_habits(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    says: object,
    clean: float | None,
    planted: float | None,
) -> None:
    reply = json.dumps({"reason": "as ever", "sound": says, "true_to_sources": says, "supported": says})
    content = measured(tmp_path, make_draft, write_scene, models("judge", says=lambda *_: reply), 1)
    assert content["traces"] == 1, "the sample is as large as the config says"
    judged = 0 if clean is None else 1
    assert shares(content, "clean") == [(clean, judged)] * 3
    assert shares(content, "planted") == [(planted, judged)] * 3


def test_an_empty_set_gives_an_empty_report() -> None:
    content = json.loads(judges_json(JudgeReport()))
    assert (content["traces"], shares(content, "all")) == (0, [(None, 0)] * 3)
