"""Quality: each verdict has its end, and the embedded judge says what it sees or that it cannot."""

import json
from collections.abc import Callable
from pathlib import Path

from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.filter_by_quality import FilterByQuality, QualitySettings

ENDS = {
    "good": None,
    "unclear": "low_quality",
    "unanswerable": "low_quality",
    "open_ended": "low_quality",
    "wrong_answer": "wrong_gold",
    "cannot_judge": "unjudged",
    "excellent": "unparsable_reply",
}


def test_verdicts(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    write_scene(tmp_path / "a.png")
    drafts = [make_draft(name, tmp_path, ("a.png",), question=f"Who is <{name}>?", answer="Ann") for name in ENDS]

    def says(prompt: str, _: int) -> str:
        assert "RECORDED ANSWER" in prompt
        return json.dumps({"reason": "so", "quality": next(name for name in ENDS if f"<{name}>" in prompt)})

    check_stage(
        FilterByQuality(QualitySettings(), models("judge", says=says)),
        drafts,
        kept=["good"],
        rejected=[(name, "quality", end) for name, end in ENDS.items() if end],
    )


def test_the_embedded_judge(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    write_scene(tmp_path / "a.png", ["red", "blue"])
    asked = {
        "right": ("Is there a red square?", "yes", "bool", None),
        "wrong": ("Is there a red square?", "no", "bool", None),
        "choice": ("What colour is the leftmost square?", "red", "mcq", ("blue", "red")),
        "unread": ("Is the red square content?", "yes", "bool", None),
    }
    drafts = [
        make_draft(name, tmp_path, ("a.png",), question=q, answer=gold, answer_type=kind, choices=choices)
        for name, (q, gold, kind, choices) in asked.items()
    ]
    rejected = [("wrong", "quality", "wrong_gold"), ("unread", "quality", "unjudged")]
    check_stage(FilterByQuality(QualitySettings(), models()), drafts, kept=["right", "choice"], rejected=rejected)
